/* SPDX-License-Identifier: MIT */
/* MNIST IDX files: big-endian; images 00 00 08 03, count, rows, columns, then bytes; labels 00 00 08 01, count, bytes.
 * Source: http://yann.lecun.com/exdb/mnist/. */
#include "data-set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_CLASSES 10
#define MAGIC_IMAGES 0x00000803u
#define MAGIC_LABELS 0x00000801u

static bool
read_word (FILE *file, uint32_t *ret_word)
{
  unsigned char bytes[4];

  if (fread (bytes, 1, sizeof bytes, file) != sizeof bytes)
    return false;
  *ret_word = (uint32_t) bytes[0] << 24 | (uint32_t) bytes[1] << 16 | (uint32_t) bytes[2] << 8 | bytes[3];
  return true;
}

bool
data_idx_matches (const char *path)
{
  FILE *file = fopen (path, "rb");
  uint32_t magic = 0;
  bool matches = file != NULL && read_word (file, &magic) && magic == MAGIC_IMAGES;

  if (file != NULL)
    fclose (file);
  return matches;
}

/* The bytes of an IDX file with `n_sizes` dimensions, which the caller frees. */
static unsigned char *
read_file (const char *path, uint32_t wanted_magic, int n_sizes, uint32_t *ret_sizes, TrainError *error)
{
  FILE *file = fopen (path, "rb");
  uint32_t magic = 0;
  size_t n_bytes = 1;
  unsigned char *bytes = NULL;
  bool good;

  if (file == NULL)
    {
      train_fail (error, "cannot open '%s': %s", path, strerror (errno));
      return NULL;
    }
  good = read_word (file, &magic) && magic == wanted_magic;
  for (int i = 0; i < n_sizes && good; i++)
    {
      good = read_word (file, &ret_sizes[i]) && ret_sizes[i] > 0 && ret_sizes[i] <= 1u << 24;
      n_bytes *= good ? ret_sizes[i] : 1;
    }
  if (!good || n_bytes > (size_t) 1 << 32)
    train_fail (error, "'%s' is no IDX file of %s", path, wanted_magic == MAGIC_IMAGES ? "images" : "labels");
  else
    {
      bytes = train_new (n_bytes, 1);
      if (fread (bytes, 1, n_bytes, file) != n_bytes)
        {
          train_fail (error, "'%s' ends early, %zu bytes of data are announced", path, n_bytes);
          free (bytes);
          bytes = NULL;
        }
    }
  fclose (file);
  return bytes;
}

DataSet *
data_idx_read (const char *images_path, const char *labels_path, TrainError *error)
{
  uint32_t sizes[3] = { 0 }, n_labels = 0;
  unsigned char *pixels = read_file (images_path, MAGIC_IMAGES, 3, sizes, error);
  unsigned char *labels = pixels != NULL ? read_file (labels_path, MAGIC_LABELS, 1, &n_labels, error) : NULL;
  size_t n_pixels = (size_t) sizes[1] * sizes[2];
  DataSet *data = NULL;

  if (labels != NULL && n_labels != sizes[0])
    train_fail (error, "'%s' has %u labels for %u images", labels_path, n_labels, sizes[0]);
  else if (labels != NULL)
    {
      data = data_set_new (sizes[0], (int) n_pixels, N_CLASSES, true);
      for (size_t i = 0; i < sizes[0] * n_pixels; i++)
        data->features[i] = (float) pixels[i] / 127.5f - 1.0f;
      for (size_t i = 0; i < sizes[0] && data != NULL; i++)
        if (labels[i] < N_CLASSES)
          data->targets[i * N_CLASSES + labels[i]] = 1.0f;
        else
          {
            train_fail (error, "%s: label %d of image %zu is not one of 0 to 9", labels_path, labels[i], i);
            data_set_free (data);
            data = NULL;
          }
    }
  free (pixels);
  free (labels);
  return data;
}
