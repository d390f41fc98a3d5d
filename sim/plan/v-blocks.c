/* SPDX-License-Identifier: MIT */
/* V-shaped schedules of stable memory from a building block (Qi et al., Pipeline Parallelism with Controllable Memory,
 * arXiv 2405.15362, section 3).
 *
 *   slots of micro-batch 0 on rank r of p, all taken as one unit:
 *     F(r) = steps[0] r        F.1(r) = F(p-1) + 1 + g1 + steps[1] (p-1-r)
 *     I.1(r) = F.1(0) + 1 + g2 + steps[2] r      I(r) = I.1(p-1) + 1 + g3 + steps[3] (p-1-r)
 *   micro-batch i comes 6 i later; g1, g2, g3 < 6 are the least for which no two of a rank's four meet modulo 6
 *   chunks a rank keeps: its two lifetimes / 6, about p (steps[0] + steps[3]) / 3 if steps[1] + steps[2] is the
 *   same sum
 *
 * Every rank runs its passes in the order of their slots. */
#include "schedule-zb.h"

#include <string.h>

#define BLOCK 6 /* passes of one micro-batch on one rank: F, F.1, I.1, I and two weight halves */

/* Passes of a rank in the order of the V. */
static const struct
{
  PsiTokenKind kind;
  guint chunk;
} passes[4] = {
  { PSI_TOKEN_FORWARD, 0 }, { PSI_TOKEN_FORWARD, 1 }, { PSI_TOKEN_BACKWARD_INPUT, 1 }, { PSI_TOKEN_BACKWARD_INPUT, 0 }
};

/* One pass, or weight half, of the whole schedule. */
typedef struct
{
  gint64 slot;
  guint8 kind, chunk;
  gint64 micro_batch;
} Pass;

static void
place (guint p, const guint *steps, const guint *gaps, gint64 *slots)
{
  for (guint r = 0; r < p; r++)
    slots[r] = (gint64) steps[0] * r;
  for (guint k = 1; k < 4; k++)
    {
      gboolean up = k % 2 == 1; /* towards rank 0 */
      gint64 begin = slots[(k - 1) * p + (up ? p - 1 : 0)] + 1 + gaps[k - 1];

      for (guint r = 0; r < p; r++)
        slots[k * p + r] = begin + (gint64) steps[k] * (up ? p - 1 - r : r);
    }
}

static gboolean
meet (guint p, const gint64 *slots)
{
  for (guint r = 0; r < p; r++)
    for (guint a = 0; a < 4; a++)
      for (guint b = 0; b < a; b++)
        if ((slots[a * p + r] - slots[b * p + r]) % BLOCK == 0)
          return TRUE;
  return FALSE;
}

static void
place_tightly (guint p, const guint *steps, gint64 *slots)
{
  for (guint sum = 0; sum <= 3 * (BLOCK - 1); sum++)
    for (guint a = 0; a < BLOCK && a <= sum; a++)
      for (guint b = 0; b < BLOCK && a + b <= sum; b++)
        {
          guint gaps[3] = { a, b, sum - a - b };

          place (p, steps, gaps, slots);
          if (gaps[2] < BLOCK && !meet (p, slots))
            return;
        }
  g_assert_not_reached ();
}

static int
compare_passes (gconstpointer a, gconstpointer b)
{
  const Pass *x = a, *y = b;

  return (x->slot > y->slot) - (x->slot < y->slot);
}

/* First slot after `from` that is none of the rank's `n` slots modulo the block. */
static gint64
next_free (const gint64 *taken, guint n, gint64 from)
{
  for (;;)
    {
      gboolean is_free = TRUE;

      from++;
      for (guint i = 0; i < n; i++)
        is_free = is_free && (from - taken[i]) % BLOCK != 0;
      if (is_free)
        return from;
    }
}

/* A rank's passes in order; with the weight halves if they have slots of their own. */
static GArray *
passes_of (const PsiSchedule *schedule, guint rank, const gint64 *slots, gboolean weights)
{
  GArray *list = g_array_new (FALSE, FALSE, sizeof (Pass));
  gint64 taken[BLOCK];

  for (guint k = 0; k < 4; k++)
    taken[k] = slots[k * schedule->n_ranks + rank];
  taken[4] = next_free (taken, 4, taken[2]); /* W.1 after I.1, W after I */
  taken[5] = next_free (taken, 5, taken[3]);
  for (gint64 m = 0; m < schedule->micro_batches; m++)
    for (guint k = 0; k < (weights ? 6 : 4); k++)
      {
        Pass pass = { .slot = taken[k] + BLOCK * m,
                      .kind = (guint8) (k < 4 ? passes[k].kind : PSI_TOKEN_BACKWARD_WEIGHT),
                      .chunk = (guint8) (k < 4 ? passes[k].chunk : 5 - k),
                      .micro_batch = m };

        g_array_append_val (list, pass);
      }
  g_array_sort (list, compare_passes);
  return list;
}

/* A rank while weight halves are put between its passes. */
typedef struct
{
  GArray *passes;
  guint at, kept; /* next pass; chunks kept */
  gint64 free;
  GQueue late; /* of Pass*: weight halves that wait */
} Filler;

/* When a pass has what it needs, in slots; -1: not made yet. `made` is [part * micro-batches + micro-batch], forwards
 * and then input halves. */
static gint64
ready (const PsiSchedule *s, guint rank, const Pass *pass, const gint64 *made)
{
  gint64 n = s->n_parts * s->micro_batches, part = psi_schedule_part (s, rank, pass->chunk);

  if (pass->kind == PSI_TOKEN_FORWARD)
    return part == 0 ? 0 : made[(part - 1) * s->micro_batches + pass->micro_batch];
  return part + 1 == s->n_parts ? made[part * s->micro_batches + pass->micro_batch]
                                : made[n + (part + 1) * s->micro_batches + pass->micro_batch];
}

static void
add_weight (PsiSchedule *s, guint rank, Filler *f)
{
  const Pass *pass = g_queue_pop_head (&f->late);

  psi_schedule_add (s, rank, PSI_TOKEN_BACKWARD_WEIGHT, pass->micro_batch, pass->chunk);
  f->free++;
  f->kept--;
}

/* Follow the passes in unit slots; weight halves go where a rank would wait, or keeps too much. */
static void
fill (PsiSchedule *s, Filler *fillers, guint most_chunks)
{
  gint64 n = s->n_parts * s->micro_batches;
  g_autofree gint64 *made = g_new (gint64, 2 * n);

  memset (made, 0xff, 2 * n * sizeof *made);
  for (;;)
    {
      guint best = G_MAXUINT;
      gint64 best_slot = G_MAXINT64;

      for (guint r = 0; r < s->n_ranks; r++)
        if (fillers[r].at < fillers[r].passes->len)
          {
            gint64 slot = ready (s, r, &g_array_index (fillers[r].passes, Pass, fillers[r].at), made);

            if (slot >= 0 && MAX (slot, fillers[r].free) < best_slot)
              {
                best_slot = MAX (slot, fillers[r].free);
                best = r;
              }
          }
      if (best == G_MAXUINT)
        break;
      Filler *f = &fillers[best];
      Pass *pass = &g_array_index (f->passes, Pass, f->at);
      gboolean full = pass->kind == PSI_TOKEN_FORWARD && f->kept >= most_chunks;
      if (!g_queue_is_empty (&f->late) && (full || best_slot > f->free))
        {
          add_weight (s, best, f);
          continue;
        }
      psi_schedule_add (s, best, (PsiTokenKind) pass->kind, pass->micro_batch, pass->chunk);
      f->free = best_slot + 1;
      made[(pass->kind == PSI_TOKEN_FORWARD ? 0 : n) + psi_schedule_part (s, best, pass->chunk) * s->micro_batches +
           pass->micro_batch] = f->free;
      if (pass->kind == PSI_TOKEN_FORWARD)
        f->kept++;
      else
        g_queue_push_tail (&f->late, pass);
      f->at++;
    }
  for (guint r = 0; r < s->n_ranks; r++)
    while (!g_queue_is_empty (&fillers[r].late))
      add_weight (s, r, &fillers[r]);
}

void
psi_schedule_add_blocks (PsiSchedule *schedule, const guint *steps, guint most_chunks)
{
  guint p = schedule->n_ranks;
  g_autofree gint64 *slots = g_new (gint64, 4 * p);
  g_autofree Filler *fillers = g_new0 (Filler, p);

  place_tightly (p, steps, slots);
  for (guint r = 0; r < p; r++)
    {
      fillers[r].passes = passes_of (schedule, r, slots, most_chunks == 0);
      for (guint i = 0; i < fillers[r].passes->len && most_chunks == 0; i++)
        {
          const Pass *pass = &g_array_index (fillers[r].passes, Pass, i);

          psi_schedule_add (schedule, r, (PsiTokenKind) pass->kind, pass->micro_batch, pass->chunk);
        }
    }
  if (most_chunks > 0)
    fill (schedule, fillers, most_chunks);
  for (guint r = 0; r < p; r++)
    g_array_unref (fillers[r].passes);
}
