/* SPDX-License-Identifier: MIT */
#include "drawn-ranks.h"

G_DEFINE_QUARK (psi_drawn_ranks_error, psi_drawn_ranks_error)

#define MAX_RANK 16777215u

typedef struct
{
  guint first, last;
} Range;

static gboolean
parse_number (const char **text, guint *ret_number)
{
  char *end = NULL;

  if (!g_ascii_isdigit (**text))
    return FALSE;
  guint64 number = g_ascii_strtoull (*text, &end, 10);
  if (number > MAX_RANK)
    return FALSE;
  *text = end;
  *ret_number = (guint) number;
  return TRUE;
}

/* Of Range, NULL if the text is wrong. */
static GArray *
parse_ranges (const char *text, GError **error)
{
  g_autoptr (GArray) ranges = g_array_new (FALSE, FALSE, sizeof (Range));

  for (const char *at = text;; at++)
    {
      Range range;

      if (!parse_number (&at, &range.first))
        break;
      range.last = range.first;
      if (*at == '-' && (at++, !parse_number (&at, &range.last)))
        break;
      if (range.last < range.first)
        break;
      g_array_append_val (ranges, range);
      if (*at == '\0')
        return g_steal_pointer (&ranges);
      if (*at != ',')
        break;
    }
  g_set_error (error, PSI_DRAWN_RANKS_ERROR, PSI_DRAWN_RANKS_ERROR_LIST,
               "--timeline-ranks: '%s' is not a list of ranks such as 0-7,12", text);
  return NULL;
}

gboolean
psi_drawn_ranks_check (const char *text, GError **error)
{
  g_autoptr (GArray) ranges = parse_ranges (text, error);

  return ranges != NULL;
}

/* Coordinates of the GPUs a class stands for: from first to below end in each dimension. */
typedef struct
{
  guint first, end;
} Span;

static Span
span_of (gboolean alone, guint index, guint degree)
{
  return alone ? (Span){ index, index + 1 } : (Span){ 0, MAX (degree, 1) };
}

static void
add_members (const PsiStep *step, guint r, gboolean all, GArray *drawn)
{
  const PsiPlan *plan = step->plan;
  const PsiStepRank *rank = &step->ranks[r];
  gboolean one_by_one = step->n_classes > plan->dp;
  PsiDrawnRank member = { .step_rank = r, .stands_for = rank->count };

  /* Workers of a pool, or stages that workers pass through: no plain place on the machine. */
  if (plan->by_stage || plan->keeps_all || step->schedule->n_workers > step->schedule->n_ranks)
    {
      member.number = plan->by_stage ? r : 0;
      member.is_worker = step->schedule->pool != NULL;
      g_array_append_val (drawn, member);
      return;
    }
  Span dp = span_of (plan->cyclic || step->n_classes > 1, rank->dp_index, plan->dp);
  Span tp = span_of (one_by_one, rank->tp_index, plan->tp), cp = span_of (one_by_one, rank->cp_index, plan->cp);
  if (plan->parameter_server && step->n_classes == 2 && !rank->is_root)
    dp = (Span){ 1, plan->dp };
  guint pp = rank->stage >= 0 ? (guint) rank->stage : 0;
  for (guint d = dp.first; d < dp.end; d++)
    for (guint c = cp.first; c < cp.end; c++)
      for (guint t = tp.first; t < tp.end; t++)
        {
          member.number = t * step->strides[0] + c * step->strides[1] + d * step->strides[2] + pp * step->strides[3];
          /* Messages of cyclic workers go from replica to replica. */
          member.replica = (plan->cyclic ? 0 : d) * plan->cp * plan->tp + c * plan->tp + t;
          g_array_append_val (drawn, member);
          if (!all)
            return;
        }
}

static int
compare_numbers (gconstpointer a, gconstpointer b)
{
  guint first = ((const PsiDrawnRank *) a)->number, second = ((const PsiDrawnRank *) b)->number;

  return (first > second) - (first < second);
}

static const PsiDrawnRank *
find_number (const GArray *sorted, guint number)
{
  const PsiDrawnRank key = { .number = number };

  if (sorted->len == 0)
    return NULL;
  return bsearch (&key, sorted->data, sorted->len, sizeof key, compare_numbers);
}

GArray *
psi_drawn_ranks_list (const PsiStep *step, const char *text, GError **error)
{
  g_autoptr (GArray) ranges = text != NULL ? parse_ranges (text, error) : NULL;
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (PsiDrawnRank));
  g_autoptr (GArray) chosen = g_array_new (FALSE, FALSE, sizeof (PsiDrawnRank));

  if (text != NULL && ranges == NULL)
    return NULL;
  for (guint r = 0; r < step->n_ranks; r++)
    add_members (step, r, text != NULL, all);
  g_array_sort (all, compare_numbers);
  if (text == NULL)
    return g_steal_pointer (&all);
  for (guint i = 0; i < ranges->len; i++)
    {
      const Range *range = &g_array_index (ranges, Range, i);

      for (guint number = range->first; number <= range->last; number++)
        {
          const PsiDrawnRank *found = find_number (all, number);
          if (found == NULL)
            {
              g_set_error (error, PSI_DRAWN_RANKS_ERROR, PSI_DRAWN_RANKS_ERROR_RANGE,
                           "--timeline-ranks: there is no rank '%u' (the plan has %u, from 0)", number, all->len);
              return NULL;
            }
          g_array_append_vals (chosen, found, 1);
        }
    }
  g_array_sort (chosen, compare_numbers);
  for (guint i = 1; i < chosen->len;)
    if (g_array_index (chosen, PsiDrawnRank, i).number == g_array_index (chosen, PsiDrawnRank, i - 1).number)
      g_array_remove_index (chosen, i);
    else
      g_array_index (chosen, PsiDrawnRank, i++).stands_for = 1;
  g_array_index (chosen, PsiDrawnRank, 0).stands_for = 1;
  return g_steal_pointer (&chosen);
}

char *
psi_drawn_rank_title (const PsiStep *step, const PsiDrawnRank *drawn)
{
  const PsiStepRank *rank = &step->ranks[drawn->step_rank];
  GString *title = g_string_new (NULL);

  if (drawn->is_worker)
    g_string_append_printf (title, "stage %d, worker %u", rank->stage, rank->list % step->schedule->n_workers);
  else
    {
      g_string_append_printf (title, "rank %u", drawn->number);
      if (rank->stage >= 0)
        g_string_append_printf (title, " (stage %d)", rank->stage);
    }
  if (drawn->stands_for > 1)
    g_string_append_printf (title, ", one of %u equal", drawn->stands_for);
  return g_string_free (title, FALSE);
}

char *
psi_drawn_stream_title (const PsiStep *step, guint stream)
{
  static const char *const names[] = {
    [PSI_STREAM_COMPUTE] = "compute",
    [PSI_STREAM_GRADIENTS] = "gradients",
    [PSI_STREAM_GRADIENTS_IN] = "gradients in",
    [PSI_STREAM_PARAMETERS] = "parameters",
    [PSI_STREAM_PARAMETERS_IN] = "parameters in",
    [PSI_STREAM_TURN_OUT] = "turn out",
    [PSI_STREAM_TURN_IN] = "turn in",
    [PSI_STREAM_TENSOR] = "tensor parallel",
  };
  static const char *const boundaries[] = { "receive forward", "receive backward", "send forward", "send backward" };

  if (step->plan->asynchronous && stream == PSI_STREAM_GRADIENTS_IN)
    return g_strdup ("turn at the server");
  if (stream < PSI_STREAM_BOUNDARY)
    return g_strdup (names[stream]);
  guint own = stream - PSI_STREAM_BOUNDARY;
  if (step->plan->pp == 1 && !step->plan->by_stage)
    return g_strdup_printf ("parameters of stage %u %s", own / 2, own % 2 == 0 ? "out" : "in");
  if (step->schedule->n_chunks == 1)
    return g_strdup (boundaries[own % 4]);
  return g_strdup_printf ("%s, chunk %u", boundaries[own % 4], own / 4);
}

void
psi_drawn_op_title (const PsiStep *step, const PsiOp *op, char *ret_title, gsize size)
{
  static const char letters[] = { [PSI_TAG_FORWARD] = 'F',
                                  [PSI_TAG_BACKWARD] = 'B',
                                  [PSI_TAG_WEIGHT] = 'W',
                                  [PSI_TAG_RECOMPUTE] = 'R',
                                  [PSI_TAG_OPTIMIZER] = 'U' };
  const PsiModel *model = psi_step_model (step);
  gsize length;

  if (psi_op_is_work (op))
    {
      ret_title[0] = op->tag < G_N_ELEMENTS (letters) ? letters[op->tag] : '?';
      ret_title[1] = '\0';
      length = 1;
    }
  else
    {
      const char *verb = op->kind == PSI_OP_SEND ? "send " : op->kind == PSI_OP_RECV ? "receive " : "";
      guint traffic = op->tag >= PSI_TAG_TRAFFIC ? op->tag - PSI_TAG_TRAFFIC : PSI_N_TRAFFIC;
      length = (gsize) g_snprintf (ret_title, size, "%s%s%s", verb,
                                   traffic < PSI_N_TRAFFIC ? psi_traffic_names[traffic] : "turn",
                                   op->label[0] >= 0 ? " " : "");
    }
  if (op->label[0] >= 0)
    length += (gsize) g_snprintf (ret_title + length, size - length, "%d", op->label[0]);
  if (op->label[1] >= 0 && step->partition.n_parts > 1)
    length += (gsize) g_snprintf (ret_title + length, size - length, " stage %d", op->label[1]);
  if (op->label[2] >= 0 && !model->is_uniform)
    g_snprintf (ret_title + length, size - length, " %s %d", psi_layer_kind (model, (guint) op->label[2])->name,
                op->label[2]);
}
