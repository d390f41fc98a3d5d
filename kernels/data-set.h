/* SPDX-License-Identifier: MIT */
/* Samples to train on: CIFAR-10 binary batches, MNIST IDX files, or a built-in seeded set. */
#pragma once

#include "train-schedule.h"

#include <stdint.h>

typedef struct
{
  int n_features, n_targets; /* floats per sample */
  bool classes;              /* targets are one-hot classes; else real values */
  size_t n_samples;
  float *features, *targets; /* [n_samples x n_features], [n_samples x n_targets] */
} DataSet;

/* Counter-based random numbers: the same (seed, stream, index) gives the same number anywhere. */
uint64_t data_random_bits (uint64_t seed, uint64_t stream, uint64_t index);
float data_random_normal (uint64_t seed, uint64_t stream, uint64_t index); /* mean 0, variance 1 */

/* Open `path`: "teacher" (regression against x + A relu (B x)), "clusters" (ten Gaussian clusters), a file or a folder
 * of CIFAR-10 binary batches or of MNIST IDX files. `width` is the number of features of the built-in sets. Returns a
 * set that the caller frees, or NULL with *error set. Features of images are shifted to mean 0 and scaled to +-1. */
DataSet *data_set_open (const char *path, int width, uint64_t seed, TrainError *error);
void data_set_free (DataSet *data);

/* Rows of samples `first` .. `first + n - 1`, counted round and round, into host memory. */
void data_set_rows (const DataSet *data, size_t first, size_t n, float *features, float *targets);

/* An empty set of that size. */
DataSet *data_set_new (size_t n_samples, int n_features, int n_targets, bool classes);

/* Readers. data_cifar_read appends the records of one batch; data_idx_read reads a pair of files. */
bool data_cifar_matches (const char *path);
DataSet *data_cifar_read (const char *const *paths, int n_paths, TrainError *error);
bool data_idx_matches (const char *path);
DataSet *data_idx_read (const char *images_path, const char *labels_path, TrainError *error);
