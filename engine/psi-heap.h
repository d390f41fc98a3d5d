/* SPDX-License-Identifier: MIT */
/* A 4-ary heap whose entries can be moved and removed: places[node] is where a node stands in the one heap that holds
 * it, PSI_HEAP_NOWHERE if none does. Several heaps may share `places`. */
#pragma once

#include <glib.h>

#define PSI_HEAP_NOWHERE G_MAXUINT32

typedef struct
{
  __int128 key; /* the least is first; equal keys in any order */
  guint32 node;
} PsiHeapEntry;

typedef struct
{
  PsiHeapEntry *entries;
  guint n, n_alloc;
} PsiHeap;

/* Put an entry where i is free, moving up or down. */
static inline void
psi_heap_sift (PsiHeap *heap, guint32 *places, guint i, PsiHeapEntry entry)
{
  PsiHeapEntry *entries = heap->entries;

  for (guint up; i > 0 && entry.key < entries[up = (i - 1) / 4].key; i = up)
    {
      entries[i] = entries[up];
      places[entries[i].node] = i;
    }
  for (guint first; (first = 4 * i + 1) < heap->n;)
    {
      guint best = first, end = MIN (first + 4, heap->n);
      for (guint c = first + 1; c < end; c++)
        best = entries[c].key < entries[best].key ? c : best;
      if (entry.key <= entries[best].key)
        break;
      entries[i] = entries[best];
      places[entries[i].node] = i;
      i = best;
    }
  entries[i] = entry;
  places[entry.node] = i;
}

/* Insert, or move if it is there. */
static inline void
psi_heap_set (PsiHeap *heap, guint32 *places, guint32 node, __int128 key)
{
  guint i = places[node];

  if (i == PSI_HEAP_NOWHERE)
    {
      if (heap->n == heap->n_alloc)
        heap->entries = g_renew (PsiHeapEntry, heap->entries, heap->n_alloc = MAX (4, 2 * heap->n_alloc));
      i = heap->n++;
    }
  psi_heap_sift (heap, places, i, (PsiHeapEntry){ key, node });
}

static inline void
psi_heap_remove (PsiHeap *heap, guint32 *places, guint32 node)
{
  guint i = places[node];

  if (i == PSI_HEAP_NOWHERE)
    return;
  places[node] = PSI_HEAP_NOWHERE;
  if (i != --heap->n)
    psi_heap_sift (heap, places, i, heap->entries[heap->n]);
}
