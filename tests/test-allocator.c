/* SPDX-License-Identifier: MIT */
/* The caching allocator: rounding, segments, splitting, merging, giving back, expandable segments. */
#include "allocator.h"

#define KIB (G_GINT64_CONSTANT (1) << 10)
#define MIB (G_GINT64_CONSTANT (1) << 20)

static void
test_segments (void)
{
  static const struct
  {
    gint64 bytes, allocated, reserved;
  } cases[] = {
    { 1, 512, 2 * MIB },
    { 513, 1024, 2 * MIB },
    { MIB, MIB, 2 * MIB },
    { MIB + 1, MIB + 512, 20 * MIB },
    { 10 * MIB - 512, 10 * MIB - 512, 20 * MIB },
    { 10 * MIB, 10 * MIB, 10 * MIB },
    { 11 * MIB, 12 * MIB, 12 * MIB }, /* a rest of at most 1 MiB stays with the block */
    { 13 * MIB, 14 * MIB, 14 * MIB },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PsiAllocator) allocator = psi_allocator_new (-1, FALSE);

      g_assert_cmpuint (psi_allocator_take (allocator, 0, cases[i].bytes), !=, 0);
      g_assert_cmpint (psi_allocator_allocated_bytes (allocator), ==, cases[i].allocated);
      g_assert_cmpint (psi_allocator_reserved_bytes (allocator), ==, cases[i].reserved);
    }
}

static void
test_reuse (void)
{
  g_autoptr (PsiAllocator) allocator = psi_allocator_new (-1, FALSE);
  PsiBlockId a = psi_allocator_take (allocator, 0, 40 * MIB), b = psi_allocator_take (allocator, 0, 40 * MIB);

  psi_allocator_release (allocator, a);
  /* Two halves in the freed segment, none in a new one. */
  a = psi_allocator_take (allocator, 0, 20 * MIB);
  PsiBlockId c = psi_allocator_take (allocator, 0, 20 * MIB);
  g_assert_cmpint (psi_allocator_reserved_bytes (allocator), ==, 80 * MIB);
  /* Free neighbours merge in any order, segments do not. */
  psi_allocator_release (allocator, c);
  psi_allocator_release (allocator, a);
  psi_allocator_release (allocator, b);
  g_assert_cmpint (psi_allocator_allocated_bytes (allocator), ==, 0);
  psi_allocator_take (allocator, 0, 40 * MIB);
  g_assert_cmpint (psi_allocator_reserved_bytes (allocator), ==, 80 * MIB);
  psi_allocator_take (allocator, 0, 60 * MIB);
  g_assert_cmpint (psi_allocator_reserved_bytes (allocator), ==, 140 * MIB);
  g_assert_cmpint (psi_allocator_allocated_peak_bytes (allocator), ==, 100 * MIB);
}

static void
test_best_fit (void)
{
  g_autoptr (PsiAllocator) allocator = psi_allocator_new (-1, FALSE);
  PsiBlockId large = psi_allocator_take (allocator, 0, 100 * MIB), middle = psi_allocator_take (allocator, 0, 50 * MIB);

  psi_allocator_release (allocator, large);
  psi_allocator_release (allocator, middle);
  psi_allocator_take (allocator, 0, 50 * MIB); /* not a part of the large one */
  psi_allocator_take (allocator, 0, 100 * MIB);
  g_assert_cmpint (psi_allocator_reserved_bytes (allocator), ==, 150 * MIB);
}

static void
test_streams (void)
{
  g_autoptr (PsiAllocator) allocator = psi_allocator_new (-1, FALSE);

  psi_allocator_release (allocator, psi_allocator_take (allocator, 0, 40 * MIB));
  psi_allocator_take (allocator, 1, 40 * MIB);
  g_assert_cmpint (psi_allocator_reserved_bytes (allocator), ==, 80 * MIB);
  g_assert_cmpuint (psi_allocator_take (allocator, 1, 0), ==, 0);
  psi_allocator_release (allocator, 0);
}

static void
test_capacity (void)
{
  g_autoptr (PsiAllocator) allocator = psi_allocator_new (100 * MIB, FALSE);

  psi_allocator_release (allocator, psi_allocator_take (allocator, 0, 60 * MIB));
  psi_allocator_take (allocator, 0, 80 * MIB);
  g_assert_cmpint (psi_allocator_reserved_bytes (allocator), ==, 80 * MIB);
  g_assert_cmpint (psi_allocator_reserved_peak_bytes (allocator), ==, 80 * MIB);
}

/* Sizes that grow leave holes in fixed segments, none in one that grows. */
static void
test_expandable (void)
{
  for (guint expandable = 0; expandable < 2; expandable++)
    {
      g_autoptr (PsiAllocator) allocator = psi_allocator_new (-1, expandable);

      for (guint i = 1; i <= 10; i++)
        psi_allocator_release (allocator, psi_allocator_take (allocator, 0, 20 * i * MIB));
      g_assert_cmpint (psi_allocator_reserved_bytes (allocator), ==, expandable ? 200 * MIB : 1100 * MIB);
    }
}

/* Whatever the order, what is free merges back to whole segments and the books balance. */
static void
test_random (void)
{
  for (guint expandable = 0; expandable < 2; expandable++)
    {
      g_autoptr (PsiAllocator) allocator = psi_allocator_new (-1, expandable);
      g_autoptr (GRand) random = g_rand_new_with_seed (7);
      PsiBlockId blocks[64] = { 0 };

      for (guint i = 0; i < 20000; i++)
        {
          guint k = (guint) g_rand_int_range (random, 0, 64);

          psi_allocator_release (allocator, blocks[k]);
          blocks[k] = g_rand_boolean (random)
                          ? psi_allocator_take (allocator, k % 3, g_rand_int_range (random, 1, 1 << 25))
                          : 0;
          g_assert_cmpint (psi_allocator_reserved_bytes (allocator), >=, psi_allocator_allocated_bytes (allocator));
        }
      for (guint k = 0; k < 64; k++)
        psi_allocator_release (allocator, blocks[k]);
      g_assert_cmpint (psi_allocator_allocated_bytes (allocator), ==, 0);
    }
}

typedef struct
{
  PsiAllocator *allocator;
  PsiBlockId lent;
  guint n_asked;
} Lender;

static void
return_lent (gpointer data)
{
  Lender *lender = data;

  psi_allocator_release (lender->allocator, lender->lent);
  lender->lent = 0;
  lender->n_asked++;
}

/* What is lent is asked for when the capacity is reached, not before, and goes back to the GPU. */
static void
test_lent (void)
{
  g_autoptr (PsiAllocator) allocator = psi_allocator_new (100 * MIB, FALSE);
  Lender lender = { .allocator = allocator, .lent = psi_allocator_take (allocator, 0, 60 * MIB) };

  psi_allocator_when_full (allocator, return_lent, &lender);
  psi_allocator_take (allocator, 0, 40 * MIB);
  g_assert_cmpuint (lender.n_asked, ==, 0);
  psi_allocator_take (allocator, 0, 30 * MIB);
  g_assert_cmpuint (lender.n_asked, ==, 1);
  g_assert_cmpint (psi_allocator_reserved_bytes (allocator), ==, 70 * MIB);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hwmodel/allocator/segments", test_segments);
  g_test_add_func ("/hwmodel/allocator/reuse", test_reuse);
  g_test_add_func ("/hwmodel/allocator/best-fit", test_best_fit);
  g_test_add_func ("/hwmodel/allocator/streams", test_streams);
  g_test_add_func ("/hwmodel/allocator/capacity", test_capacity);
  g_test_add_func ("/hwmodel/allocator/expandable", test_expandable);
  g_test_add_func ("/hwmodel/allocator/random", test_random);
  g_test_add_func ("/hwmodel/allocator/lent", test_lent);
  return g_test_run ();
}
