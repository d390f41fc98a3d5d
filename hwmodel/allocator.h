/* SPDX-License-Identifier: MIT */
/* PyTorch's caching allocator, replayed: what it takes from the GPU for a sequence of allocations and frees. */
#pragma once

#include <glib.h>

typedef struct _PsiAllocator PsiAllocator;
typedef guint PsiBlockId; /* 0 = none */

/* `capacity_bytes`: what it may take; -1 = without end. `expandable`: segments grow in place, as expandable_segments
 * does, so that free bytes are never in the wrong segment. */
PsiAllocator *psi_allocator_new (gint64 capacity_bytes, gboolean expandable);
void psi_allocator_free (PsiAllocator *allocator);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiAllocator, psi_allocator_free)

/* At its capacity the allocator first waits for all that was freed while another stream used it: `return_lent` releases
 * those blocks. Not with expandable segments. */
typedef void (*PsiReturnLent) (gpointer lender);
void psi_allocator_when_full (PsiAllocator *allocator, PsiReturnLent return_lent, gpointer lender);

/* Take `bytes` (0: nothing, returns 0) from the pool of a stream (0, 1, ...). Never fails: beyond the capacity, cached
 * segments are given back first and the rest is counted all the same. */
PsiBlockId psi_allocator_take (PsiAllocator *allocator, guint stream, gint64 bytes);
void psi_allocator_release (PsiAllocator *allocator, PsiBlockId block); /* 0: nothing happens */

/* Bytes in use (rounded) and taken from the GPU: now, and at most so far. */
gint64 psi_allocator_allocated_bytes (const PsiAllocator *allocator);
gint64 psi_allocator_allocated_peak_bytes (const PsiAllocator *allocator);
gint64 psi_allocator_reserved_bytes (const PsiAllocator *allocator);
gint64 psi_allocator_reserved_peak_bytes (const PsiAllocator *allocator);
