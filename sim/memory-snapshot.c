/* SPDX-License-Identifier: MIT */
/* The simulator knows how many bytes of a class appear and vanish with an op; an allocator's trace needs blocks. A
 * rise becomes one block. A fall frees a block of its class: that of the same micro-batch and layer if its size is
 * right, else any of the right size, else the newest ones; of a block that is too large the rest is allocated again.
 * So the sum of live blocks is the simulated level at every instant. Addresses are first fit in one segment.
 *
 * Pickle opcodes: Python's Lib/pickletools.py; the dictionary: torch.cuda.memory._snapshot(). */
#include "memory-snapshot.h"

#include "out-file.h"

#include <string.h>

#define CHAIN_END G_MAXUINT32
#define FIRST_ADDRESS G_GINT64_CONSTANT (0x7f0000000000)

/* ---- Pickle ---- */

static void
put_string (GString *out, const char *text)
{
  guint32 length = GUINT32_TO_LE ((guint32) strlen (text));

  g_string_append_c (out, 'X');
  g_string_append_len (out, (const char *) &length, sizeof length);
  g_string_append (out, text);
}

static void
put_integer (GString *out, gint64 value)
{
  if (value >= G_MININT32 && value <= G_MAXINT32)
    {
      gint32 small = GINT32_TO_LE ((gint32) value);
      g_string_append_c (out, 'J');
      g_string_append_len (out, (const char *) &small, sizeof small);
      return;
    }
  gint64 large = GINT64_TO_LE (value);
  g_string_append_len (out, "\x8a\x08", 2);
  g_string_append_len (out, (const char *) &large, sizeof large);
}

static void
put_item (GString *out, const char *key, gint64 value)
{
  put_string (out, key);
  put_integer (out, value);
}

static void
put_text_item (GString *out, const char *key, const char *value)
{
  put_string (out, key);
  put_string (out, value);
}

#define BEGIN_DICT(out) g_string_append (out, "}(")
#define END_DICT(out) g_string_append_c (out, 'u')
#define BEGIN_LIST(out) g_string_append (out, "](")
#define END_LIST(out) g_string_append_c (out, 'e')
/* Python's pickler ends a batch after 1000 items too, and memory_viz cannot read much longer ones. */
#define BATCH 1000
#define NEXT_BATCH(out) g_string_append (out, "e(")

/* ---- Blocks ---- */

typedef struct
{
  gint64 address, bytes;
  gint32 label[3];
  guint8 memory_class;
} Block;

/* A change of a class, with what caused it. */
typedef struct
{
  PsiTime time_ps;
  gint64 bytes;
  const PsiOp *op;
  guint order;
  guint8 memory_class;
} Change;

typedef struct
{
  const PsiStep *step;
  GArray *live;              /* of Block, by address */
  gint64 owed[PSI_N_MEMORY]; /* fallen before the rise of the same instant */
  gint64 top_bytes;
  GString *trace;
  guint n_events;
} Device;

static int
compare_changes (gconstpointer a, gconstpointer b)
{
  const Change *first = a, *second = b;

  if (first->time_ps != second->time_ps)
    return first->time_ps < second->time_ps ? -1 : 1;
  if ((first->bytes > 0) != (second->bytes > 0))
    return first->bytes > 0 ? 1 : -1;
  return (first->order > second->order) - (first->order < second->order);
}

/* What the frame of a block says: "activations: F3 stage 0 block 12". */
static void
put_frames (const Device *device, GString *out, guint memory_class, const PsiOp *op)
{
  char title[160] = "at rest";

  if (op != NULL)
    psi_drawn_op_title (device->step, op, title, sizeof title);
  put_string (out, "frames");
  BEGIN_LIST (out);
  BEGIN_DICT (out);
  put_text_item (out, "filename", psi_memory_class_names[memory_class]);
  put_item (out, "line", op != NULL && op->label[2] >= 0 ? op->label[2] : 0);
  put_text_item (out, "name", title);
  END_DICT (out);
  END_LIST (out);
}

static void
put_event (Device *device, const char *action, const Block *block, PsiTime time_ps, const PsiOp *op)
{
  GString *out = device->trace;

  BEGIN_DICT (out);
  put_text_item (out, "action", action);
  put_item (out, "addr", block->address);
  put_item (out, "size", block->bytes);
  put_item (out, "stream", 0);
  put_item (out, "time_us", time_ps / 1000000);
  put_text_item (out, "category", psi_memory_class_names[block->memory_class]);
  put_frames (device, out, block->memory_class, op);
  END_DICT (out);
  if (++device->n_events % BATCH == 0)
    NEXT_BATCH (out);
}

/* First fit; returns the block's place in `live`. */
static guint
place (Device *device, Block *block)
{
  gint64 address = FIRST_ADDRESS;
  guint i;

  for (i = 0; i < device->live->len; i++)
    {
      const Block *other = &g_array_index (device->live, Block, i);
      if (other->address - address >= block->bytes)
        break;
      address = other->address + other->bytes;
    }
  block->address = address;
  device->top_bytes = MAX (device->top_bytes, address + block->bytes - FIRST_ADDRESS);
  g_array_insert_val (device->live, i, *block);
  return i;
}

static void
allocate (Device *device, gint64 bytes, guint memory_class, const PsiOp *op, PsiTime time_ps, gboolean traced)
{
  Block block = { .label = { -1, -1, -1 }, .memory_class = (guint8) memory_class };
  gint64 owed = MIN (device->owed[memory_class], bytes);

  device->owed[memory_class] -= owed;
  block.bytes = bytes - owed;
  if (block.bytes <= 0)
    return;
  if (op != NULL)
    memcpy (block.label, op->label, sizeof block.label);
  place (device, &block);
  if (traced)
    put_event (device, "alloc", &block, time_ps, op);
}

static int
find_to_free (const Device *device, const Change *fall, gint64 bytes)
{
  int best = -1, best_score = -1;

  for (int i = (int) device->live->len - 1; i >= 0; i--)
    {
      const Block *block = &g_array_index (device->live, Block, i);
      gboolean same_work = block->label[0] == fall->op->label[0] && block->label[2] == fall->op->label[2];
      int score = 2 * (block->bytes == bytes) + same_work;

      if (block->memory_class != fall->memory_class || score <= best_score)
        continue;
      best = i;
      best_score = score;
      if (score == 3)
        break;
    }
  return best;
}

static void
release (Device *device, const Change *fall)
{
  gint64 left = -fall->bytes;

  while (left > 0)
    {
      int i = find_to_free (device, fall, left);

      if (i < 0)
        {
          device->owed[fall->memory_class] += left;
          return;
        }
      Block block = g_array_index (device->live, Block, i);
      g_array_remove_index (device->live, (guint) i);
      put_event (device, "free_requested", &block, fall->time_ps, fall->op);
      put_event (device, "free_completed", &block, fall->time_ps, fall->op);
      if (block.bytes > left)
        {
          Block rest = block;
          rest.bytes = block.bytes - left;
          place (device, &rest);
          put_event (device, "alloc", &rest, fall->time_ps, fall->op);
        }
      left -= block.bytes;
    }
}

/* The changes of one period from `origin_ps` on, in order; what is there before them goes to ret_level. */
static GArray *
list_changes (const PsiStep *step, const PsiRun *run, const PsiStepRank *rank, PsiTime origin_ps, gint64 *ret_level)
{
  GArray *changes = g_array_new (FALSE, FALSE, sizeof (Change));
  const PsiProgram *program = rank->program;
  const PsiOpTimes *times = run->times + run->first_op[rank->id];

  PsiTime pace_ps = psi_run_fold_ps (run, rank->id);

  memcpy (ret_level, rank->base, PSI_N_MEMORY * sizeof *ret_level);
  for (guint s = 0; s < program->n_streams; s++)
    for (guint i = 0; i < program->streams[s]->len; i++, times++)
      {
        const PsiOp *op = &g_array_index (program->streams[s], PsiOp, i);

        for (guint32 d = op->first_delta; d != CHAIN_END;)
          {
            const PsiDelta *delta = &g_array_index (program->deltas, PsiDelta, d);
            PsiTime at_ps = (delta->at_end ? times->end_ps : times->start_ps) + op->shift * pace_ps - origin_ps;
            gint64 q = pace_ps > 0 ? at_ps / pace_ps - (at_ps % pace_ps < 0) : 0;
            Change change = { .time_ps = pace_ps > 0 ? at_ps - q * pace_ps : 0,
                              .bytes = delta->bytes,
                              .op = op,
                              .order = changes->len,
                              .memory_class = delta->memory_class };

            ret_level[delta->memory_class] -= q * delta->bytes;
            g_array_append_val (changes, change);
            d = delta->next;
          }
      }
  g_array_sort (changes, compare_changes);
  return changes;
}

static void
trace_rank (Device *device, const PsiRun *run, const PsiStepRank *rank)
{
  PsiTime origin_ps = psi_program_n_ops (rank->program) > 0 ? run->times[run->first_op[rank->id]].start_ps : 0;
  gint64 level[PSI_N_MEMORY];
  g_autoptr (GArray) changes = list_changes (device->step, run, rank, origin_ps, level);

  for (guint c = 0; c < PSI_N_MEMORY; c++)
    {
      allocate (device, rank->base[c], c, NULL, 0, FALSE);
      allocate (device, level[c] - rank->base[c], c, NULL, 0, FALSE);
    }
  for (guint i = 0; i < changes->len; i++)
    {
      const Change *change = &g_array_index (changes, Change, i);

      if (change->bytes > 0)
        allocate (device, change->bytes, change->memory_class, change->op, change->time_ps, TRUE);
      else
        release (device, change);
    }
}

static void
put_block (const Device *device, GString *out, gint64 address, gint64 bytes, const Block *block)
{
  BEGIN_DICT (out);
  put_item (out, "address", address);
  put_item (out, "size", bytes);
  put_item (out, "requested_size", bytes);
  put_text_item (out, "state", block != NULL ? "active_allocated" : "inactive");
  if (block != NULL)
    {
      put_frames (device, out, block->memory_class, NULL);
      put_string (out, "history"); /* where older viewers look for the frames */
      BEGIN_LIST (out);
      BEGIN_DICT (out);
      put_item (out, "addr", address);
      put_item (out, "real_size", bytes);
      put_frames (device, out, block->memory_class, NULL);
      END_DICT (out);
      END_LIST (out);
    }
  else
    {
      put_string (out, "frames");
      BEGIN_LIST (out);
      END_LIST (out);
    }
  END_DICT (out);
}

/* The end of a trace, as PyTorch writes it. memory_viz trips over traces with categories but without "unknown". */
static void
put_end (GString *out, PsiTime time_ps)
{
  BEGIN_DICT (out);
  put_text_item (out, "action", "snapshot");
  put_item (out, "addr", 0);
  put_item (out, "size", 0);
  put_item (out, "stream", 0);
  put_item (out, "time_us", time_ps / 1000000);
  put_text_item (out, "category", "unknown");
  put_string (out, "frames");
  BEGIN_LIST (out);
  END_LIST (out);
  END_DICT (out);
}

/* What is there after the step: one segment, blocks and holes in order of address. */
static void
put_segment (const Device *device, GString *out, guint number)
{
  gint64 live_bytes = 0, address = FIRST_ADDRESS;

  for (guint i = 0; i < device->live->len; i++)
    live_bytes += g_array_index (device->live, Block, i).bytes;
  BEGIN_DICT (out);
  put_item (out, "device", number);
  put_item (out, "address", FIRST_ADDRESS);
  put_item (out, "total_size", device->top_bytes);
  put_item (out, "allocated_size", live_bytes);
  put_item (out, "active_size", live_bytes);
  put_item (out, "requested_size", live_bytes);
  put_item (out, "stream", 0);
  put_text_item (out, "segment_type", "large");
  put_string (out, "blocks");
  BEGIN_LIST (out);
  for (guint i = 0; i < device->live->len; i++)
    {
      const Block *block = &g_array_index (device->live, Block, i);
      if (block->address > address)
        put_block (device, out, address, block->address - address, NULL);
      put_block (device, out, block->address, block->bytes, block);
      if (i % BATCH == BATCH / 2)
        NEXT_BATCH (out);
      address = block->address + block->bytes;
    }
  if (address < FIRST_ADDRESS + device->top_bytes)
    put_block (device, out, address, FIRST_ADDRESS + device->top_bytes - address, NULL);
  END_LIST (out);
  END_DICT (out);
}

gboolean
psi_memory_snapshot_write (const char *path, const PsiStep *step, const PsiRun *run, const char *ranks, GError **error)
{
  g_autoptr (GArray) drawn = psi_drawn_ranks_list (step, ranks, error);
  g_autoptr (GString) out = g_string_new ("\x80\x02");
  g_autoptr (GString) segments = g_string_new (NULL);

  if (drawn == NULL)
    return FALSE;
  BEGIN_DICT (out);
  put_string (out, "device_traces");
  BEGIN_LIST (out);
  for (guint i = 0; i < drawn->len; i++)
    {
      g_autoptr (GArray) live = g_array_new (FALSE, FALSE, sizeof (Block));
      Device device = { .step = step, .live = live, .trace = out };

      BEGIN_LIST (out);
      trace_rank (&device, run, &step->ranks[g_array_index (drawn, PsiDrawnRank, i).step_rank]);
      put_end (out, psi_run_fold_ps (run, step->ranks[g_array_index (drawn, PsiDrawnRank, i).step_rank].id));
      END_LIST (out);
      put_segment (&device, segments, i);
    }
  END_LIST (out);
  put_string (out, "segments");
  BEGIN_LIST (out);
  g_string_append_len (out, segments->str, (gssize) segments->len);
  END_LIST (out);
  END_DICT (out);
  g_string_append_c (out, '.');
  return psi_out_file_write (path, out->str, out->len, error);
}
