/* SPDX-License-Identifier: MIT */
/* CIFAR-10 binary batches: records of 1 label byte (0-9) and 3072 pixel bytes (red, green, blue planes of 32 x 32).
 * Source: https://www.cs.toronto.edu/~kriz/cifar.html, "binary version". */
#include "data-set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define N_PIXELS 3072
#define RECORD_BYTES (1 + N_PIXELS)
#define N_CLASSES 10

static long
size_of (const char *path)
{
  FILE *file = fopen (path, "rb");
  long size_bytes = -1;

  if (file != NULL && fseek (file, 0, SEEK_END) == 0)
    size_bytes = ftell (file);
  if (file != NULL)
    fclose (file);
  return size_bytes;
}

bool
data_cifar_matches (const char *path)
{
  long size_bytes = size_of (path);

  return size_bytes > 0 && size_bytes % RECORD_BYTES == 0;
}

static bool
read_batch (DataSet *data, size_t *at, const char *path, TrainError *error)
{
  FILE *file = fopen (path, "rb");
  unsigned char record[RECORD_BYTES];
  bool good = true;

  if (file == NULL)
    return train_fail (error, "cannot open '%s': %s", path, strerror (errno));
  while (good && *at < data->n_samples && fread (record, 1, sizeof record, file) == sizeof record)
    {
      float *features = data->features + *at * N_PIXELS;

      if (record[0] >= N_CLASSES)
        {
          good = train_fail (error, "%s: record %zu: label %d is not one of 0 to 9", path, *at, record[0]);
          break;
        }
      for (int i = 0; i < N_PIXELS; i++)
        features[i] = (float) record[1 + i] / 127.5f - 1.0f;
      data->targets[*at * N_CLASSES + record[0]] = 1.0f;
      ++*at;
    }
  fclose (file);
  return good;
}

DataSet *
data_cifar_read (const char *const *paths, int n_paths, TrainError *error)
{
  size_t n_samples = 0, at = 0;
  DataSet *data;

  for (int i = 0; i < n_paths; i++)
    {
      if (!data_cifar_matches (paths[i]))
        {
          train_fail (error, "'%s' is no CIFAR-10 binary batch, its size must be a multiple of %d bytes", paths[i],
                      RECORD_BYTES);
          return NULL;
        }
      n_samples += (size_t) size_of (paths[i]) / RECORD_BYTES;
    }
  data = data_set_new (n_samples, N_PIXELS, N_CLASSES, true);
  for (int i = 0; i < n_paths; i++)
    if (!read_batch (data, &at, paths[i], error))
      {
        data_set_free (data);
        return NULL;
      }
  return data;
}
