/* SPDX-License-Identifier: MIT */
/* Built-in sets, and the choice of a reader by what a path holds. */
#include "data-set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_BUILT_IN 1024 /* samples of a built-in set */
#define N_CLASSES 10
#define N_TEACHER 16 /* hidden width of the teacher */

/* Streams of random numbers; the model's layers use those from STREAM_MODEL in train-model.c on. */
enum
{
  STREAM_FEATURES,
  STREAM_TEACHER_IN,
  STREAM_TEACHER_OUT,
  STREAM_CENTRES,
  STREAM_NOISE
};

/* splitmix64 (Steele, Lea, Flood 2014) on a mixed counter. */
static uint64_t
mix (uint64_t x)
{
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t
data_random_bits (uint64_t seed, uint64_t stream, uint64_t index)
{
  return mix (mix (mix (seed) ^ stream) ^ index);
}

float
data_random_normal (uint64_t seed, uint64_t stream, uint64_t index)
{
  uint64_t bits = data_random_bits (seed, stream, index), more = mix (bits);
  double u = ((double) (bits >> 11) + 0.5) / 9007199254740992.0, angle = (double) (more >> 11) / 9007199254740992.0;

  return (float) (sqrt (-2.0 * log (u)) * cos (2.0 * M_PI * angle));
}

DataSet *
data_set_new (size_t n_samples, int n_features, int n_targets, bool classes)
{
  DataSet *data = train_new (1, sizeof *data);

  *data = (DataSet){ n_features, n_targets, classes, n_samples, NULL, NULL };
  data->features = train_new (n_samples * (size_t) n_features, sizeof (float));
  data->targets = train_new (n_samples * (size_t) n_targets, sizeof (float));
  return data;
}

void
data_set_free (DataSet *data)
{
  if (data == NULL)
    return;
  free (data->features);
  free (data->targets);
  free (data);
}

/* target = x + A relu (B x), x normal, B [N_TEACHER x width], A its counterpart. */
static DataSet *
make_teacher (int n_features, uint64_t seed)
{
  DataSet *data = data_set_new (N_BUILT_IN, n_features, n_features, false);
  size_t width = (size_t) n_features;
  float *in = train_new (N_TEACHER * width, sizeof (float)), *out = train_new (N_TEACHER * width, sizeof (float));

  for (size_t i = 0; i < N_TEACHER * width; i++)
    {
      in[i] = data_random_normal (seed, STREAM_TEACHER_IN, i) / sqrtf ((float) n_features);
      out[i] = data_random_normal (seed, STREAM_TEACHER_OUT, i);
    }
  for (size_t row = 0; row < data->n_samples; row++)
    {
      float *x = data->features + row * width, *y = data->targets + row * width;

      for (size_t i = 0; i < width; i++)
        y[i] = x[i] = data_random_normal (seed, STREAM_FEATURES, row * width + i);
      for (size_t h = 0; h < N_TEACHER; h++)
        {
          float hidden = 0.0f;

          for (size_t i = 0; i < width; i++)
            hidden += in[h * width + i] * x[i];
          for (size_t i = 0; i < width && hidden > 0.0f; i++)
            y[i] += out[h * width + i] * hidden;
        }
    }
  free (in);
  free (out);
  return data;
}

/* x = centre of its class + 2 noise, both normal. */
static DataSet *
make_clusters (int n_features, uint64_t seed)
{
  DataSet *data = data_set_new (N_BUILT_IN, n_features, N_CLASSES, true);
  size_t width = (size_t) n_features;

  for (size_t row = 0; row < data->n_samples; row++)
    {
      size_t class = row % N_CLASSES;

      data->targets[row * N_CLASSES + class] = 1.0f;
      for (size_t i = 0; i < width; i++)
        data->features[row * width + i] = data_random_normal (seed, STREAM_CENTRES, class * width + i) +
                                          2.0f * data_random_normal (seed, STREAM_NOISE, row * width + i);
    }
  return data;
}

static const struct
{
  const char *name;
  DataSet *(*make) (int n_features, uint64_t seed);
} built_in[] = { { "teacher", make_teacher }, { "clusters", make_clusters } };

/* The labels beside an images file: train-images-idx3-ubyte -> train-labels-idx1-ubyte. */
static DataSet *
open_idx (const char *path, TrainError *error)
{
  char labels[1024];
  char *images, *idx;

  snprintf (labels, sizeof labels, "%s", path);
  images = strstr (strrchr (labels, '/') != NULL ? strrchr (labels, '/') : labels, "images");
  if (images != NULL)
    memcpy (images, "labels", strlen ("labels"));
  idx = images != NULL ? strstr (images, "idx3") : NULL;
  if (idx != NULL)
    idx[3] = '1';
  return data_idx_read (path, labels, error);
}

static DataSet *
open_folder (const char *folder, TrainError *error)
{
  static const char *const idx_names[] = { "train-images-idx3-ubyte", "train-images.idx3-ubyte" };
  char paths[5][1024];
  const char *list[5];
  int n = 0;

  for (size_t i = 0; i < sizeof idx_names / sizeof idx_names[0]; i++)
    {
      snprintf (paths[0], sizeof paths[0], "%s/%s", folder, idx_names[i]);
      if (data_idx_matches (paths[0]))
        return open_idx (paths[0], error);
    }
  for (int i = 0; i < 5; i++)
    {
      snprintf (paths[n], sizeof paths[n], "%s/data_batch_%d.bin", folder, i + 1);
      list[n] = paths[n];
      n += access (paths[n], R_OK) == 0;
    }
  if (n > 0)
    return data_cifar_read (list, n, error);
  train_fail (error, "no training data in '%s', wanted: data_batch_1.bin (CIFAR-10) or train-images-idx3-ubyte (MNIST)",
              folder);
  return NULL;
}

DataSet *
data_set_open (const char *path, int width, uint64_t seed, TrainError *error)
{
  struct stat status;

  for (size_t i = 0; i < sizeof built_in / sizeof built_in[0]; i++)
    if (strcmp (path, built_in[i].name) == 0)
      return built_in[i].make (width, seed);
  if (stat (path, &status) == 0 && S_ISDIR (status.st_mode))
    return open_folder (path, error);
  if (data_idx_matches (path))
    return open_idx (path, error);
  if (data_cifar_matches (path))
    return data_cifar_read (&path, 1, error);
  train_fail (error, "cannot read data '%s', allowed: teacher, clusters, CIFAR-10 binary batches, MNIST IDX files",
              path);
  return NULL;
}

void
data_set_rows (const DataSet *data, size_t first, size_t n, float *features, float *targets)
{
  for (size_t i = 0; i < n; i++)
    {
      size_t row = (first + i) % data->n_samples;

      if (features != NULL)
        memcpy (features + i * (size_t) data->n_features, data->features + row * (size_t) data->n_features,
                (size_t) data->n_features * sizeof (float));
      if (targets != NULL)
        memcpy (targets + i * (size_t) data->n_targets, data->targets + row * (size_t) data->n_targets,
                (size_t) data->n_targets * sizeof (float));
    }
}
