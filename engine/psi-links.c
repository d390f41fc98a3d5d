/* SPDX-License-Identifier: MIT */
/* Links shared by flows: plain recompute at every change. */
#include "psi-links.h"

#define UNITS_PER_BYTE 65536.0

typedef struct
{
  gboolean running;
  double left_bytes, cap, rate;
  PsiTime end_ps;
  guint64 cookie;
  PsiLinkUse *uses;
  guint n_uses;
} Flow;

struct _PsiLinks
{
  GArray *rates; /* double */
  GArray *flows; /* Flow */
  guint n_running;
  PsiTime now_ps;
  gboolean dirty;
};

PsiLinks *
psi_links_new (void)
{
  PsiLinks *links = g_new0 (PsiLinks, 1);
  links->rates = g_array_new (FALSE, FALSE, sizeof (double));
  links->flows = g_array_new (FALSE, TRUE, sizeof (Flow));
  return links;
}

void
psi_links_free (PsiLinks *links)
{
  if (!links)
    return;
  psi_links_reset (links);
  g_array_unref (links->rates);
  g_array_unref (links->flows);
  g_free (links);
}

PsiLinkId
psi_links_add (PsiLinks *links, double bytes_per_s)
{
  g_array_append_val (links->rates, bytes_per_s);
  return links->rates->len - 1;
}

guint
psi_links_n_links (const PsiLinks *links)
{
  return links->rates->len;
}

double
psi_links_rate (const PsiLinks *links, PsiLinkId link)
{
  return g_array_index (links->rates, double, link);
}

static void
solve (PsiLinks *links)
{
  g_autoptr (GArray) uses = g_array_new (FALSE, FALSE, sizeof (PsiLinkUse));
  g_autofree guint *first = g_new0 (guint, links->n_running + 1);
  g_autofree double *caps = g_new (double, links->n_running + 1), *rates = g_new (double, links->n_running + 1);
  guint n = 0;

  if (!links->dirty)
    return;
  links->dirty = FALSE;
  for (guint i = 0; i < links->flows->len; i++)
    {
      Flow *flow = &g_array_index (links->flows, Flow, i);
      if (!flow->running)
        continue;
      g_array_append_vals (uses, flow->uses, flow->n_uses);
      caps[n++] = flow->cap;
      first[n] = uses->len;
    }
  psi_links_solve_plain ((double *) (void *) links->rates->data, links->rates->len, (PsiLinkUse *) (void *) uses->data,
                         first, n, caps, rates);
  n = 0;
  for (guint i = 0; i < links->flows->len; i++)
    {
      Flow *flow = &g_array_index (links->flows, Flow, i);
      double rate;
      if (!flow->running)
        continue;
      rate = rates[n++];
      if (rate == flow->rate)
        continue;
      flow->rate = rate;
      flow->end_ps = flow->left_bytes <= 0 || rate == HUGE_VAL ? links->now_ps
                     : rate > 0 ? psi_time_add (links->now_ps, psi_time_from_s (flow->left_bytes / rate))
                                : PSI_TIME_MAX;
    }
}

static void
advance (PsiLinks *links, PsiTime now_ps)
{
  if (now_ps <= links->now_ps)
    return;
  solve (links);
  for (guint i = 0; i < links->flows->len; i++)
    {
      Flow *flow = &g_array_index (links->flows, Flow, i);
      if (flow->running && flow->rate < HUGE_VAL)
        flow->left_bytes -=
            rint (flow->rate * psi_time_to_s (now_ps - links->now_ps) * UNITS_PER_BYTE) / UNITS_PER_BYTE;
    }
  links->now_ps = now_ps;
}

PsiFlowId
psi_links_start (PsiLinks *links, PsiTime now_ps, gint64 bytes, double cap_bytes_per_s, const PsiLinkUse *uses,
                 guint n_uses, guint64 cookie)
{
  guint i = 0;
  Flow *flow;

  advance (links, now_ps);
  while (i < links->flows->len && g_array_index (links->flows, Flow, i).running)
    i++;
  if (i == links->flows->len)
    g_array_set_size (links->flows, i + 1);
  flow = &g_array_index (links->flows, Flow, i);
  *flow = (Flow){ TRUE, bytes, cap_bytes_per_s, -1, bytes > 0 ? PSI_TIME_MAX : now_ps, cookie, NULL, n_uses };
  flow->uses = g_memdup2 (uses, n_uses * sizeof *uses);
  links->n_running++;
  links->dirty = TRUE;
  return i;
}

PsiTime
psi_links_next_ps (PsiLinks *links)
{
  PsiTime next_ps = PSI_TIME_MAX;

  solve (links);
  for (guint i = 0; i < links->flows->len; i++)
    {
      Flow *flow = &g_array_index (links->flows, Flow, i);
      if (flow->running)
        next_ps = MIN (next_ps, flow->end_ps);
    }
  return MAX (next_ps, links->now_ps);
}

gboolean
psi_links_pop (PsiLinks *links, PsiTime now_ps, guint64 *ret_cookie)
{
  Flow *best = NULL;

  if (links->n_running == 0)
    return FALSE;
  if (now_ps > links->now_ps)
    advance (links, now_ps);
  for (guint i = 0; i < links->flows->len; i++)
    {
      Flow *flow = &g_array_index (links->flows, Flow, i);
      if (flow->running && flow->end_ps <= now_ps && (!best || flow->cookie < best->cookie))
        best = flow;
    }
  if (!best)
    return FALSE;
  best->running = FALSE;
  g_clear_pointer (&best->uses, g_free);
  *ret_cookie = best->cookie;
  links->n_running--;
  links->dirty = TRUE;
  return TRUE;
}

double
psi_links_flow_rate (PsiLinks *links, PsiFlowId flow)
{
  solve (links);
  return g_array_index (links->flows, Flow, flow).rate;
}

guint
psi_links_n_flows (const PsiLinks *links)
{
  return links->n_running;
}

void
psi_links_reset (PsiLinks *links)
{
  for (guint i = 0; i < links->flows->len; i++)
    g_free (g_array_index (links->flows, Flow, i).uses);
  g_array_set_size (links->flows, 0);
  links->n_running = 0;
  links->now_ps = 0;
  links->dirty = FALSE;
}

void
psi_links_solve_plain (const double *link_rates, guint n_links, const PsiLinkUse *uses, const guint *first_use,
                       guint n_flows, const double *caps, double *ret_rates)
{
  g_autofree double *fixed = g_new0 (double, n_links), *open = g_new (double, n_links);
  g_autofree gboolean *done = g_new0 (gboolean, n_flows);
  guint n_left = n_flows;

  while (n_left > 0)
    {
      double level = HUGE_VAL;

      for (guint l = 0; l < n_links; l++)
        open[l] = 0;
      for (guint f = 0; f < n_flows; f++)
        for (guint u = first_use[f]; !done[f] && u < first_use[f + 1]; u++)
          open[uses[u].link] += uses[u].weight;
      for (guint l = 0; l < n_links; l++)
        if (open[l] > 0)
          level = MIN (level, MAX (0, link_rates[l] - fixed[l]) / open[l]);
      for (guint f = 0; f < n_flows; f++)
        if (!done[f])
          level = MIN (level, caps[f]);
      /* Who is held at this level: decided before any of them is fixed. */
      for (guint l = 0; l < n_links; l++)
        if (open[l] > 0 && MAX (0, link_rates[l] - fixed[l]) > level * open[l] * (1 + 1e-13))
          open[l] = 0;
      for (guint f = 0; f < n_flows; f++)
        {
          gboolean held = caps[f] <= level * (1 + 1e-13);
          if (done[f])
            continue;
          for (guint u = first_use[f]; !held && u < first_use[f + 1]; u++)
            held = open[uses[u].link] > 0;
          if (!held && level < HUGE_VAL)
            continue;
          done[f] = TRUE;
          n_left--;
          ret_rates[f] = level;
          for (guint u = first_use[f]; u < first_use[f + 1] && level < HUGE_VAL; u++)
            fixed[uses[u].link] += uses[u].weight * level;
        }
    }
}
