/* SPDX-License-Identifier: MIT */
/* Max-min fair rates by water-filling.
 *
 *   level of a link = (rate - sum over held flows of weight * their rate) / (sum of the weights of the open flows)
 *
 * All flows are open; the link with the lowest level holds its open flows at that level; repeat. A flow whose cap is
 * below the lowest level is held by its cap. Links of exactly equal level act together, before the levels are computed
 * again. (Bertsekas, Gallager: "Data Networks", section 6.5.2.)
 *
 * A level never falls while others are held, so an old one is a lower bound: only the first of the heap is computed
 * again. The flows that a link held last time are remembered as one sum per other link (Pair); if its open flows are
 * the same again (compared by a sum of 64-bit hashes) the sums are applied without a look at the flows. A link with one
 * flow takes no part: it is a cap of that flow.
 *
 * Only the regions touched by a change are solved. Regions are joined as flows start, and taken apart when as many
 * flows have ended as there are uses. Order: levels, then links by number; sums are exact (see psi-links.c), so rates
 * depend on the set of flows only. */
#include "psi-links-private.h"

#include <stdlib.h>
#include <string.h>

void
psi_links_mark_dirty (PsiLinks *links, guint32 region)
{
  if (links->regions[region].dirty)
    return;
  links->regions[region].dirty = TRUE;
  ids_push (&links->dirty_regions, region);
}

static guint32
add_region (PsiLinks *links)
{
  if (links->free_regions.n > 0)
    return links->free_regions.items[--links->free_regions.n];
  if (links->n_regions == links->n_regions_alloc)
    links->regions = g_renew (Region, links->regions, links->n_regions_alloc = MAX (16, 2 * links->n_regions_alloc));
  links->regions[links->n_regions] = (Region){ 0 };
  return links->n_regions++;
}

static void
empty_region (PsiLinks *links, guint32 id)
{
  Region *region = &links->regions[id];

  region->links.n = region->n_flows = region->n_ended = 0;
  ids_push (&links->free_regions, id);
}

static void
move_links (PsiLinks *links, guint32 from_id, guint32 to_id)
{
  Region *from = &links->regions[from_id], *to = &links->regions[to_id];

  for (guint i = 0; i < from->links.n; i++)
    {
      links->links[from->links.items[i]].region = to_id;
      ids_push (&to->links, from->links.items[i]);
    }
  to->n_flows += from->n_flows;
  to->n_ended += from->n_ended;
  empty_region (links, from_id);
}

void
psi_links_join (PsiLinks *links, const Flow *flow)
{
  guint32 home = NONE;

  for (guint u = 0; u < flow->n_uses; u++)
    {
      Link *link = &links->links[flow->uses[u].link];
      guint32 other = link->region;

      if (!link->active)
        continue;
      if (other == NONE)
        {
          link->region = home = home == NONE ? add_region (links) : home;
          ids_push (&links->regions[home].links, flow->uses[u].link);
        }
      else if (home == NONE)
        home = other;
      else if (other != home && links->regions[other].links.n > links->regions[home].links.n)
        {
          move_links (links, home, other);
          home = other;
        }
      else if (other != home)
        move_links (links, other, home);
    }
  psi_links_mark_dirty (links, home);
}

/* Take a region apart into connected ones. */
static void
split_region (PsiLinks *links, guint32 id)
{
  Ids ids = links->regions[id].links;

  links->regions[id].links = (Ids){ 0 };
  empty_region (links, id);
  for (guint i = 0; i < ids.n; i++)
    links->links[ids.items[i]].region = NONE;
  links->mark++;
  for (guint i = 0; i < ids.n; i++)
    {
      const Link *link = &links->links[ids.items[i]];
      for (guint r = 0; link->active && r < link->n_refs; r++)
        {
          Flow *flow = &links->flows[link->refs[r].flow];
          if (flow->mark == links->mark)
            continue;
          flow->mark = links->mark;
          psi_links_join (links, flow);
          links->regions[link->region].n_flows++;
        }
    }
  g_free (ids.items);
}

static inline gboolean
flow_is_open (const PsiLinks *links, const Flow *flow)
{
  return (flow->group == NONE ? flow->held_in : links->links[flow->group].held_in) != links->solve;
}

/* Sum up what the flows put on active links other than `holder`. */
static void
build_pairs (PsiLinks *links, Pairs *pairs, const guint32 *ids, guint n_ids, guint32 holder)
{
  pairs->n = 0;
  links->mark++;
  for (guint i = 0; i < n_ids; i++)
    {
      const Flow *flow = &links->flows[ids[i]];
      for (Use *use = flow->uses, *end = use + flow->n_uses; use < end; use++)
        {
          Link *link = &links->links[use->link];
          Pair *pair;
          use->pair = NONE;
          if (use->link == holder || !link->active)
            continue;
          if (link->mark != links->mark)
            {
              link->mark = links->mark;
              link->pair = pairs->n;
              if (pairs->n == pairs->n_alloc)
                pairs->items = g_renew (Pair, pairs->items, pairs->n_alloc = MAX (8, 2 * pairs->n_alloc));
              pairs->items[pairs->n++] = (Pair){ use->link, 0, 0, 0 };
            }
          use->pair = link->pair;
          pair = &pairs->items[use->pair];
          pair->n_flows++;
          pair->weight += use->share;
          pair->hash += flow->hash;
        }
    }
}

static inline void
apply_pairs (PsiLinks *links, const Pairs *pairs, double level)
{
  for (guint32 i = 0; i < pairs->n; i++)
    {
      const Pair *pair = &pairs->items[i];
      Link *link = &links->links[pair->link];

      link->fixed += pair->weight * level;
      link->open_weight -= pair->weight;
      link->open_hash -= pair->hash;
      link->n_open -= pair->n_flows;
    }
}

static inline double
level_of (const Link *link)
{
  return MAX (link->bytes_per_s - link->fixed, 0) / link->open_weight;
}

/* Levels are not negative, so their bits are in their order. */
static inline Level
level_entry (guint32 link, double level)
{
  Level entry = { 0, link };
  memcpy (&entry.bits, &level, sizeof level);
  return entry;
}

static inline gboolean
level_before (Level a, Level b)
{
  return a.bits < b.bits || (a.bits == b.bits && a.link < b.link);
}

static void
sift_level (PsiLinks *links, guint i, Level entry)
{
  for (guint child; (child = 2 * i + 1) < links->n_levels; i = child)
    {
      child += child + 1 < links->n_levels && level_before (links->levels[child + 1], links->levels[child]);
      if (!level_before (links->levels[child], entry))
        break;
      links->levels[i] = links->levels[child];
    }
  links->levels[i] = entry;
}

static void
push_level (PsiLinks *links, guint32 id)
{
  Level entry = level_entry (id, level_of (&links->links[id]));
  guint i = links->n_levels++;

  for (; i > 0 && level_before (entry, links->levels[(i - 1) / 2]); i = (i - 1) / 2)
    links->levels[i] = links->levels[(i - 1) / 2];
  links->levels[i] = entry;
}

static int
compare_ids (const void *a, const void *b)
{
  return (*(const guint32 *) a > *(const guint32 *) b) - (*(const guint32 *) a < *(const guint32 *) b);
}

static int
compare_caps (const void *a, const void *b, void *flows)
{
  double cap_a = ((Flow *) flows)[*(const guint32 *) a].cap;
  double cap_b = ((Flow *) flows)[*(const guint32 *) b].cap;
  return (cap_a > cap_b) - (cap_a < cap_b);
}

/* Hold the open flows of a link whose cap is below the level; how many. */
static guint
hold_capped (PsiLinks *links, Link *link, double level)
{
  Ids *walk = &links->walk;

  if (link->min_cap >= level)
    return 0;
  walk->n = 0;
  link->min_cap = HUGE_VAL;
  for (guint r = 0; r < link->n_refs; r++)
    {
      const Flow *flow = &links->flows[link->refs[r].flow];
      link->min_cap = MIN (link->min_cap, flow->cap);
      if (flow->cap < level && flow_is_open (links, flow))
        ids_push (walk, link->refs[r].flow);
    }
  if (walk->n > 1)
    g_qsort_with_data (walk->items, (gint) walk->n, sizeof (guint32), compare_caps, links->flows);
  for (guint i = 0, next; i < walk->n; i = next)
    {
      double cap = links->flows[walk->items[i]].cap;
      for (next = i; next < walk->n && links->flows[walk->items[next]].cap == cap; next++)
        {
          psi_links_hold_by_cap (links, walk->items[next]);
          links->flows[walk->items[next]].held_in = links->solve;
        }
      build_pairs (links, &links->cap_pairs, walk->items + i, next - i, NONE);
      apply_pairs (links, &links->cap_pairs, cap);
    }
  return walk->n;
}

/* Hold the open flows of a link; how many. */
static guint
hold_open (PsiLinks *links, guint32 id, double level)
{
  Link *link = &links->links[id];
  Ids *walk = &links->walk;

  if (!link->pairs_valid || link->open_hash != link->members_hash || link->n_open != link->members.n)
    {
      walk->n = 0;
      for (guint r = 0; r < link->n_refs; r++)
        if (flow_is_open (links, &links->flows[link->refs[r].flow]))
          ids_push (walk, link->refs[r].flow);
      for (guint i = 0; i < walk->n; i++)
        if (links->flows[walk->items[i]].group != id)
          psi_links_hold_by_link (links, walk->items[i], id);
      build_pairs (links, &link->pairs, walk->items, walk->n, id);
      link->pairs_valid = TRUE;
    }
  apply_pairs (links, &link->pairs, level);
  link->held_in = links->solve;
  link->n_open = 0;
  psi_links_set_level (links, id, level);
  return link->members.n;
}

/* Drop links that are no longer active, make the heap of levels; FALSE if there is nothing to solve. Links whose level
 * is well above all that held flows last time are put aside, as mostly no flow is open when their turn comes. */
static gboolean
open_region (PsiLinks *links, guint32 region_id)
{
  Region *region = &links->regions[region_id];
  guint32 *ids = region->links.items;
  guint n_kept = 0, n_refs = 0;

  for (guint i = 0; i < region->links.n; i++)
    {
      Link *link = &links->links[ids[i]];
      if (!link->active)
        {
          link->region = NONE;
          continue;
        }
      ids[n_kept++] = ids[i];
      n_refs += link->n_refs;
      link->fixed = 0;
      link->open_weight = link->weight;
      link->open_hash = link->hash;
      link->n_open = link->n_refs;
    }
  region->links.n = n_kept;
  if (n_kept == 0)
    empty_region (links, region_id);
  else if (region->n_ended > n_refs && n_kept > 1)
    split_region (links, region_id); /* they are dirty, and come later */
  else
    {
      if (n_kept > links->n_levels_alloc)
        links->levels = g_renew (Level, links->levels, links->n_levels_alloc = 2 * n_kept);
      links->n_levels = links->far.n = 0;
      links->near_level = region->top_level * 1.0625;
      for (guint i = 0; i < n_kept; i++)
        if (links->links[ids[i]].bytes_per_s > links->near_level * 1.0625 * links->links[ids[i]].weight)
          ids_push (&links->far, ids[i]);
        else
          push_level (links, ids[i]);
      return TRUE;
    }
  return FALSE;
}

/* Take the links of the lowest level off the heap into the batch, by number. */
static double
take_lowest (PsiLinks *links)
{
  Ids *batch = &links->batch;
  double level = HUGE_VAL;
  gboolean in_order = TRUE;

  batch->n = 0;
  while (links->n_levels > 0 || links->far.n > 0)
    {
      double known = HUGE_VAL, now;
      const Link *link;
      guint32 id;

      if (links->n_levels > 0)
        memcpy (&known, &links->levels[0].bits, sizeof known);
      if (known > level)
        break;
      if (known > links->near_level && links->far.n > 0)
        {
          for (guint i = 0; i < links->far.n; i++)
            if (links->links[links->far.items[i]].n_open > 0)
              push_level (links, links->far.items[i]);
          links->far.n = 0;
          continue;
        }
      id = links->levels[0].link;
      link = &links->links[id];
      now = link->n_open > 0 ? level_of (link) : HUGE_VAL;
      if (link->n_open > 0 && now > known && (batch->n == 0 || now > level))
        sift_level (links, 0, level_entry (id, now));
      else
        {
          links->n_levels--;
          sift_level (links, 0, links->levels[links->n_levels]);
          if (link->n_open == 0)
            continue;
          in_order &= batch->n == 0 || batch->items[batch->n - 1] < id;
          ids_push (batch, id);
          level = MIN (level, now);
        }
    }
  g_assert (batch->n > 0);
  if (!in_order)
    qsort (batch->items, batch->n, sizeof (guint32), compare_ids);
  return level;
}

static void
solve_region (PsiLinks *links, guint32 region_id)
{
  guint n_open = links->regions[region_id].n_flows;

  if (!open_region (links, region_id))
    return;
  links->solve++;
  while (n_open > 0)
    {
      double level = take_lowest (links);
      guint n_capped = 0;

      links->regions[region_id].top_level = level;
      for (guint i = 0; i < links->batch.n; i++)
        n_capped += hold_capped (links, &links->links[links->batch.items[i]], level);
      n_open -= n_capped;
      for (guint i = 0; i < links->batch.n; i++)
        {
          guint32 id = links->batch.items[i];
          if (links->links[id].n_open > 0 && n_capped == 0)
            n_open -= hold_open (links, id, level);
          else if (links->links[id].n_open > 0) /* its level has changed */
            push_level (links, id);
        }
    }
}

void
psi_links_solve (PsiLinks *links)
{
  for (guint i = 0; i < links->dirty_regions.n; i++)
    {
      guint32 id = links->dirty_regions.items[i];
      links->regions[id].dirty = FALSE;
      if (links->regions[id].links.n > 0)
        solve_region (links, id);
    }
  links->dirty_regions.n = 0;
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
