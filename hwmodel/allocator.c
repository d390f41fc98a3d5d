/* SPDX-License-Identifier: MIT */
/* Rules of c10/cuda/CUDACachingAllocator.cpp (PyTorch 2):
 *
 *   size      rounded up to 512 B
 *   pool      by stream; small up to 1 MiB, else large
 *   segment   small: 2 MiB; large: 20 MiB below 10 MiB, else the size rounded up to 2 MiB
 *   search    the smallest free block of the pool that is large enough
 *   split     the rest becomes a free block if it has at least 512 B (small) or more than 1 MiB (large)
 *   free      merges with free neighbours of its segment; segments stay
 *   full      what other streams still hold is waited for; segments that are free as a whole are given back, then
 *             the request is tried again
 *
 * Expandable segments: one segment for each pool that grows by 2 MiB (small) or 20 MiB pages; whole free pages at its
 * end are reused by growing less. Limits: frees take effect at once, also across streams; no max_split_size. */
#include "allocator.h"

#define ROUND_BYTES 512
#define SMALL_BYTES (1 << 20)
#define SMALL_SEGMENT_BYTES (2 << 20)
#define LARGE_SEGMENT_BYTES (20 << 20)
#define OWN_SEGMENT_BYTES (10 << 20)
#define PAGE_BYTES (2 << 20)

typedef struct
{
  gint64 bytes;
  guint before, after; /* neighbours in the segment, 0 = none */
  guint pool;          /* 2 stream + large? */
  gboolean is_free;
} Block;

struct _PsiAllocator
{
  GArray *blocks;        /* of Block; number 0 is not used */
  GArray *unused;        /* of guint */
  GPtrArray *free_lists; /* [pool] GArray of guint */
  GArray *last;          /* [pool] of guint: last block of the expandable segment */
  gint64 capacity_bytes;
  gboolean expandable;
  PsiReturnLent return_lent;
  gpointer lender;
  gint64 allocated_bytes, allocated_peak_bytes, reserved_bytes, reserved_peak_bytes;
};

static void
list_free (gpointer list)
{
  g_array_unref (list);
}

PsiAllocator *
psi_allocator_new (gint64 capacity_bytes, gboolean expandable)
{
  PsiAllocator *allocator = g_new0 (PsiAllocator, 1);

  allocator->blocks = g_array_new (FALSE, TRUE, sizeof (Block));
  g_array_set_size (allocator->blocks, 1);
  allocator->unused = g_array_new (FALSE, FALSE, sizeof (guint));
  allocator->free_lists = g_ptr_array_new_with_free_func (list_free);
  allocator->last = g_array_new (FALSE, TRUE, sizeof (guint));
  allocator->capacity_bytes = capacity_bytes;
  allocator->expandable = expandable;
  return allocator;
}

void
psi_allocator_when_full (PsiAllocator *allocator, PsiReturnLent return_lent, gpointer lender)
{
  allocator->return_lent = return_lent;
  allocator->lender = lender;
}

void
psi_allocator_free (PsiAllocator *allocator)
{
  if (allocator == NULL)
    return;
  g_array_unref (allocator->blocks);
  g_array_unref (allocator->unused);
  g_ptr_array_unref (allocator->free_lists);
  g_array_unref (allocator->last);
  g_free (allocator);
}

static Block *
block_at (const PsiAllocator *allocator, guint id)
{
  return &g_array_index (allocator->blocks, Block, id);
}

static guint
new_block (PsiAllocator *allocator, const Block *block)
{
  guint id;

  if (allocator->unused->len > 0)
    {
      id = g_array_index (allocator->unused, guint, allocator->unused->len - 1);
      g_array_set_size (allocator->unused, allocator->unused->len - 1);
      *block_at (allocator, id) = *block;
      return id;
    }
  id = allocator->blocks->len;
  g_array_append_vals (allocator->blocks, block, 1);
  return id;
}

static GArray *
free_list (PsiAllocator *allocator, guint pool)
{
  while (allocator->free_lists->len <= pool)
    {
      g_ptr_array_add (allocator->free_lists, g_array_new (FALSE, FALSE, sizeof (guint)));
      g_array_set_size (allocator->last, allocator->free_lists->len);
    }
  return allocator->free_lists->pdata[pool];
}

static void
unlist (PsiAllocator *allocator, guint id)
{
  GArray *list = free_list (allocator, block_at (allocator, id)->pool);

  for (guint i = 0; i < list->len; i++)
    if (g_array_index (list, guint, i) == id)
      {
        g_array_remove_index_fast (list, i);
        return;
      }
  g_assert_not_reached ();
}

static guint
best_fit (PsiAllocator *allocator, guint pool, gint64 bytes)
{
  const GArray *list = free_list (allocator, pool);
  guint best = 0;
  gint64 best_bytes = G_MAXINT64;

  for (guint i = 0; i < list->len; i++)
    {
      guint id = g_array_index (list, guint, i);
      gint64 size = block_at (allocator, id)->bytes;

      if (size >= bytes && size < best_bytes)
        {
          best = id;
          best_bytes = size;
        }
    }
  return best;
}

/* Give back what is free as a whole segment. */
static void
give_back (PsiAllocator *allocator)
{
  for (guint pool = 0; pool < allocator->free_lists->len; pool++)
    {
      GArray *list = free_list (allocator, pool);

      for (guint i = list->len; i-- > 0;)
        {
          guint id = g_array_index (list, guint, i);
          const Block *block = block_at (allocator, id);

          if (block->before != 0 || block->after != 0)
            continue;
          allocator->reserved_bytes -= block->bytes;
          if (g_array_index (allocator->last, guint, pool) == id)
            g_array_index (allocator->last, guint, pool) = 0;
          g_array_remove_index_fast (list, i);
          g_array_append_val (allocator->unused, id);
        }
    }
}

static void
reserve (PsiAllocator *allocator, gint64 bytes)
{
  if (allocator->capacity_bytes >= 0 && allocator->reserved_bytes + bytes > allocator->capacity_bytes)
    {
      if (allocator->return_lent != NULL && !allocator->expandable)
        allocator->return_lent (allocator->lender);
      give_back (allocator);
    }
  allocator->reserved_bytes += bytes;
  allocator->reserved_peak_bytes = MAX (allocator->reserved_peak_bytes, allocator->reserved_bytes);
}

static gint64
round_up (gint64 bytes, gint64 unit)
{
  return (bytes + unit - 1) / unit * unit;
}

/* A free block of at least `bytes`, new from the GPU. */
static guint
new_segment (PsiAllocator *allocator, guint pool, gint64 bytes)
{
  gboolean small = pool % 2 == 0;
  guint last = g_array_index (allocator->last, guint, pool);

  if (allocator->expandable && last != 0)
    {
      gboolean grows = block_at (allocator, last)->is_free;
      gint64 have = grows ? block_at (allocator, last)->bytes : 0;
      gint64 more = round_up (bytes - have, small ? PAGE_BYTES : LARGE_SEGMENT_BYTES);

      reserve (allocator, more);
      last = g_array_index (allocator->last, guint, pool); /* may have been given back */
      if (last != 0 && grows)
        {
          block_at (allocator, last)->bytes += more;
          return last;
        }
      if (last != 0)
        {
          Block block = { .bytes = more, .before = last, .pool = pool, .is_free = TRUE };
          guint id = new_block (allocator, &block);

          block_at (allocator, last)->after = id;
          g_array_append_val (free_list (allocator, pool), id);
          g_array_index (allocator->last, guint, pool) = id;
          return id;
        }
      allocator->reserved_bytes -= more;
    }
  gint64 size = small                                                ? SMALL_SEGMENT_BYTES
                : bytes < OWN_SEGMENT_BYTES || allocator->expandable ? round_up (bytes, LARGE_SEGMENT_BYTES)
                                                                     : round_up (bytes, PAGE_BYTES);
  Block block = { .bytes = size, .pool = pool, .is_free = TRUE };

  reserve (allocator, size);
  guint id = new_block (allocator, &block);
  g_array_append_val (free_list (allocator, pool), id);
  g_array_index (allocator->last, guint, pool) = id;
  return id;
}

PsiBlockId
psi_allocator_take (PsiAllocator *allocator, guint stream, gint64 bytes)
{
  if (bytes <= 0)
    return 0;
  gint64 size = round_up (bytes, ROUND_BYTES);
  gboolean small = size <= SMALL_BYTES;
  guint pool = 2 * stream + (small ? 0 : 1);
  guint id = best_fit (allocator, pool, size);

  if (id == 0)
    id = new_segment (allocator, pool, size);
  unlist (allocator, id);
  gint64 rest = block_at (allocator, id)->bytes - size;
  if (small || allocator->expandable ? rest >= ROUND_BYTES : rest > SMALL_BYTES)
    {
      Block block = *block_at (allocator, id);

      block.bytes = rest;
      block.before = id;
      guint other = new_block (allocator, &block);
      if (block.after != 0)
        block_at (allocator, block.after)->before = other;
      else if (g_array_index (allocator->last, guint, pool) == id)
        g_array_index (allocator->last, guint, pool) = other;
      block_at (allocator, id)->after = other;
      block_at (allocator, id)->bytes = size;
      g_array_append_val (free_list (allocator, pool), other);
    }
  block_at (allocator, id)->is_free = FALSE;
  allocator->allocated_bytes += block_at (allocator, id)->bytes;
  allocator->allocated_peak_bytes = MAX (allocator->allocated_peak_bytes, allocator->allocated_bytes);
  return id;
}

/* Append the block behind `id` to it. */
static void
swallow (PsiAllocator *allocator, guint id)
{
  guint other = block_at (allocator, id)->after;
  const Block *block = block_at (allocator, other);

  block_at (allocator, id)->bytes += block->bytes;
  block_at (allocator, id)->after = block->after;
  if (block->after != 0)
    block_at (allocator, block->after)->before = id;
  if (g_array_index (allocator->last, guint, block->pool) == other)
    g_array_index (allocator->last, guint, block->pool) = id;
  g_array_append_val (allocator->unused, other);
}

void
psi_allocator_release (PsiAllocator *allocator, PsiBlockId id)
{
  if (id == 0)
    return;
  Block *block = block_at (allocator, id);
  guint before = block->before, after = block->after;

  g_assert (!block->is_free);
  allocator->allocated_bytes -= block->bytes;
  block->is_free = TRUE;
  if (after != 0 && block_at (allocator, after)->is_free)
    {
      unlist (allocator, after);
      swallow (allocator, id);
    }
  if (before != 0 && block_at (allocator, before)->is_free)
    swallow (allocator, before); /* which is listed already */
  else
    g_array_append_val (free_list (allocator, block_at (allocator, id)->pool), id);
}

gint64
psi_allocator_allocated_bytes (const PsiAllocator *allocator)
{
  return allocator->allocated_bytes;
}

gint64
psi_allocator_allocated_peak_bytes (const PsiAllocator *allocator)
{
  return allocator->allocated_peak_bytes;
}

gint64
psi_allocator_reserved_bytes (const PsiAllocator *allocator)
{
  return allocator->reserved_bytes;
}

gint64
psi_allocator_reserved_peak_bytes (const PsiAllocator *allocator)
{
  return allocator->reserved_peak_bytes;
}
