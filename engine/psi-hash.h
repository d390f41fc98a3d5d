/* SPDX-License-Identifier: MIT */
/* Numbers that look random, the same on every machine. */
#pragma once

#include <glib.h>

#define PSI_HASH_STEP G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) /* 2^64 / golden ratio */

/* Every bit of the result depends on every bit of x (the last steps of splitmix64; Steele et al., OOPSLA 2014). */
static inline guint64
psi_hash_mix (guint64 x)
{
  x = (x ^ x >> 30) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* The hash of a sequence, one value longer. */
static inline guint64
psi_hash_add (guint64 hash, guint64 value)
{
  hash = (hash ^ value) * PSI_HASH_STEP;
  return hash ^ hash >> 29;
}
