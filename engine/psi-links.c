/* SPDX-License-Identifier: MIT */
/* Links shared by flows: who holds a flow, when it ends, starts and ends. psi-links-solve.c finds the rates.
 *
 *   work left at t1 = work left at t0 - round (rate * (t1 - t0)), in 2^-16 bytes; end = t + round (left / rate)
 *
 * - A flow is never faster than it would be alone: its cap. A link that its flows cannot fill at their caps, such as
 * any link with one flow, takes no part in a solve; a flow that uses only such links runs at its cap, without a solve.
 * - All flows held by one link have one rate, so the link has a clock that counts the bytes each of them has sent, and
 * a heap of the counts at which they end. A new level moves one timer, not one per flow.
 *
 * Exactness: weights count with 40 bits in sums, so sums of up to 8,192 like weights are exact and do not depend on the
 * order of flows (whole weights: always). Work is counted in 128 bits, so 2^60 bytes and more do not overflow. An end
 * past PSI_TIME_MAX is never. A flow alone takes exactly psi_time_from_s (bytes / rate). No memory is allocated once
 * the sizes seen have been seen before. */
#include "psi-links-private.h"

#include "psi-hash.h"

#include <string.h>

#define UNITS_PER_BYTE 65536.0
#define NODE_FLOW(id) (2 * (id))
#define NODE_LINK(id) (2 * (id) + 1)

/* Units sent in a time. */
static inline Units
units_sent (double rate, PsiTime time_ps)
{
  double units = rate * psi_time_to_s (time_ps) * UNITS_PER_BYTE;
  return units < 0x1p62 ? (Units) llrint (units) : (Units) MIN (units, 0x1p120);
}

static inline Units
link_clock (const Link *link, PsiTime now_ps)
{
  return link->base + (now_ps > link->base_ps ? units_sent (link->level, now_ps - link->base_ps) : 0);
}

static inline PsiTime
end_ps (PsiTime now_ps, Units left, double rate)
{
  double units = left < G_MAXINT64 ? (double) (gint64) left : (double) left;
  if (left <= 0)
    return now_ps;
  return rate > 0 ? psi_time_add (now_ps, psi_time_from_s (units / UNITS_PER_BYTE / rate)) : PSI_TIME_MAX;
}

static void
set_link_timer (PsiLinks *links, guint32 id)
{
  Link *link = &links->links[id];

  if (link->members.n == 0)
    psi_heap_remove (&links->timers, links->places, NODE_LINK (id));
  else
    psi_heap_set (&links->timers, links->places, NODE_LINK (id),
                  MAX (links->now_ps, end_ps (link->base_ps, link->members.entries[0].key - link->base, link->level)));
}

void
psi_links_set_level (PsiLinks *links, guint32 id, double level)
{
  Link *link = &links->links[id];

  if (level != link->level)
    {
      link->base = link_clock (link, links->now_ps);
      link->base_ps = links->now_ps;
      link->level = level;
    }
  set_link_timer (links, id);
}

/* Who holds a flow */

/* Take the flow from whoever holds it. */
static void
release_flow (PsiLinks *links, guint32 id)
{
  Flow *flow = &links->flows[id];
  gboolean was_first = links->places[NODE_FLOW (id)] == 0;
  Units left;

  if (flow->group == NONE)
    {
      left = flow->count - (links->now_ps > flow->base_ps ? units_sent (flow->rate, links->now_ps - flow->base_ps) : 0);
      psi_heap_remove (&links->timers, links->places, NODE_FLOW (id));
    }
  else
    {
      Link *link = &links->links[flow->group];
      left = flow->count - link_clock (link, links->now_ps);
      psi_heap_remove (&link->members, links->places, NODE_FLOW (id));
      link->members_hash -= flow->hash;
      if (was_first)
        set_link_timer (links, flow->group);
      for (guint u = 0; u < flow->n_uses; u++)
        if (flow->uses[u].pair != NONE)
          {
            Pair *pair = &link->pairs.items[flow->uses[u].pair];
            pair->n_flows--;
            pair->weight -= flow->uses[u].share;
            pair->hash -= flow->hash;
            flow->uses[u].pair = NONE;
          }
    }
  flow->group = NONE;
  flow->count = MAX (left, 0);
  flow->base_ps = links->now_ps;
  flow->rate = 0;
}

/* Let its own cap hold the flow. */
void
psi_links_hold_by_cap (PsiLinks *links, guint32 id)
{
  Flow *flow = &links->flows[id];

  if (flow->group == NONE && flow->rate == flow->cap && links->places[NODE_FLOW (id)] != NONE)
    return;
  release_flow (links, id);
  flow->rate = flow->cap;
  psi_heap_set (&links->timers, links->places, NODE_FLOW (id), end_ps (links->now_ps, flow->count, flow->rate));
}

void
psi_links_hold_by_link (PsiLinks *links, guint32 id, guint32 link_id)
{
  Flow *flow = &links->flows[id];
  Link *link = &links->links[link_id];

  release_flow (links, id);
  if (link->members.n == 0)
    {
      link->base = 0;
      link->base_ps = links->now_ps;
      link->level = 0;
    }
  for (guint u = 0; u < flow->n_uses; u++)
    flow->uses[u].pair = NONE;
  flow->count += link_clock (link, links->now_ps);
  flow->group = link_id;
  link->members_hash += flow->hash;
  psi_heap_set (&link->members, links->places, NODE_FLOW (id), flow->count);
}

/* The set of active links of a flow has changed: note it once in `walk`. */
static inline void
touch_flow (PsiLinks *links, guint32 id)
{
  if (links->flows[id].mark == links->mark)
    return;
  links->flows[id].mark = links->mark;
  ids_push (&links->walk, id);
}

/* A link takes part in solves if several flows use it and could fill it, with a margin for the rounding of cap_sum. */
static inline gboolean
may_fill (const Link *link)
{
  return link->n_refs > 1 && link->cap_sum >= link->bytes_per_s * (1 - 1e-9);
}

static void
enter_region (PsiLinks *links, Flow *flow)
{
  guint u = 0;

  psi_links_join (links, flow);
  if (flow->in_region)
    return;
  flow->in_region = TRUE;
  while (!links->links[flow->uses[u].link].active)
    u++;
  links->regions[links->links[flow->uses[u].link].region].n_flows++;
}

static void
add_refs (PsiLinks *links, guint32 id)
{
  Flow *flow = &links->flows[id];

  links->walk.n = 0;
  links->mark++;
  for (guint u = 0; u < flow->n_uses; u++)
    {
      Use *use = &flow->uses[u];
      Link *link = &links->links[use->link];

      if (link->n_refs == link->n_refs_alloc)
        link->refs = g_renew (Ref, link->refs, link->n_refs_alloc = MAX (4, 2 * link->n_refs_alloc));
      use->ref = link->n_refs;
      link->refs[link->n_refs++] = (Ref){ id, u };
      link->weight += use->share;
      link->hash += flow->hash;
      link->cap_sum += use->share * flow->cap;
      link->min_cap = MIN (link->min_cap, flow->cap);
      flow->n_active += link->active;
      if (link->active || !may_fill (link))
        continue;
      link->active = TRUE;
      for (guint r = 0; r < link->n_refs; r++)
        {
          links->flows[link->refs[r].flow].n_active++;
          touch_flow (links, link->refs[r].flow);
        }
    }
  for (guint i = 0; i < links->walk.n; i++)
    {
      Flow *other = &links->flows[links->walk.items[i]];
      if (other->group != NONE)
        links->links[other->group].pairs_valid = FALSE;
      enter_region (links, other);
    }
}

static void
remove_flow (PsiLinks *links, guint32 id)
{
  Flow *flow = &links->flows[id];
  guint32 region = NONE;

  release_flow (links, id);
  links->walk.n = 0;
  links->mark++;
  for (guint u = 0; u < flow->n_uses; u++)
    {
      const Use *use = &flow->uses[u];
      Link *link = &links->links[use->link];
      Ref last = link->refs[--link->n_refs];

      link->refs[use->ref] = last;
      links->flows[last.flow].uses[last.use].ref = use->ref;
      link->weight = link->n_refs ? link->weight - use->share : 0;
      link->cap_sum = link->n_refs ? link->cap_sum - use->share * flow->cap : 0;
      link->min_cap = link->n_refs ? link->min_cap : HUGE_VAL;
      link->hash -= flow->hash;
      if (!link->active)
        continue;
      region = link->region;
      if (may_fill (link))
        continue;
      link->active = FALSE;
      for (guint r = 0; r < link->n_refs; r++)
        {
          links->flows[link->refs[r].flow].n_active--;
          if (links->flows[link->refs[r].flow].group == use->link)
            release_flow (links, link->refs[r].flow);
          touch_flow (links, link->refs[r].flow);
        }
    }
  if (flow->in_region)
    {
      links->regions[region].n_flows--;
      links->regions[region].n_ended++;
      psi_links_mark_dirty (links, region);
    }
  for (guint i = 0; i < links->walk.n; i++)
    {
      Flow *other = &links->flows[links->walk.items[i]];
      if (other->n_active > 0)
        continue;
      other->in_region = FALSE;
      links->regions[region].n_flows--;
      psi_links_hold_by_cap (links, links->walk.items[i]);
    }
  ids_push (&links->free_flows, id);
}

static void
add_due (PsiLinks *links, guint64 cookie)
{
  guint i = links->due->len;

  while (i > 0 && g_array_index (links->due, guint64, i - 1) < cookie)
    i--;
  g_array_insert_val (links->due, i, cookie);
}

static guint32
first_to_end (const PsiLinks *links)
{
  guint32 node = links->timers.entries[0].node;
  return (node & 1 ? links->links[node / 2].members.entries[0].node : node) / 2;
}

/* Take out the flows that end by now. */
static void
take_ended (PsiLinks *links)
{
  const PsiTime until_ps = MIN (links->now_ps, PSI_TIME_MAX - 1);

  while (links->timers.n > 0 && links->timers.entries[0].key <= until_ps)
    {
      guint32 id = first_to_end (links);
      add_due (links, links->flows[id].cookie);
      remove_flow (links, id);
    }
}

static void
advance (PsiLinks *links, PsiTime now_ps)
{
  if (now_ps <= links->now_ps)
    return;
  psi_links_solve (links);
  links->now_ps = now_ps;
  take_ended (links);
}

/* To 40 significant bits (Veltkamp's splitting). */
static inline double
weight_to_40_bits (double weight)
{
  double scaled = weight * 8193.0;
  return scaled < HUGE_VAL ? scaled - (scaled - weight) : weight;
}

static guint32
add_flow (PsiLinks *links)
{
  guint32 id = links->n_flows;

  if (links->free_flows.n > 0)
    return links->free_flows.items[--links->free_flows.n];
  if (links->n_flows == links->n_flows_alloc)
    links->flows = g_renew (Flow, links->flows, links->n_flows_alloc = MAX (16, 2 * links->n_flows_alloc));
  links->flows[links->n_flows++] = (Flow){ .hash = psi_hash_mix (id + PSI_HASH_STEP), .group = NONE };
  psi_links_reserve_places (links, links->n_flows_alloc);
  return id;
}

/* Take over the uses of links that are not infinitely fast; a link that comes twice counts once with both weights. */
static void
copy_uses (PsiLinks *links, Flow *flow, const PsiLinkUse *uses, guint n_uses)
{
  if (n_uses > flow->n_uses_alloc)
    flow->uses = g_renew (Use, flow->uses, flow->n_uses_alloc = MAX (n_uses, 4));
  flow->n_uses = 0;
  links->mark++;
  for (guint u = 0; u < n_uses; u++)
    {
      Link *link = &links->links[uses[u].link];
      Use *use = &flow->uses[flow->n_uses];

      g_assert (uses[u].link < links->n_links && uses[u].weight > 0);
      if (link->bytes_per_s == HUGE_VAL)
        continue;
      if (link->mark == links->mark)
        {
          use = &flow->uses[link->pair];
          use->weight += uses[u].weight;
        }
      else
        {
          link->mark = links->mark;
          link->pair = flow->n_uses++;
          *use = (Use){ uses[u].link, 0, NONE, uses[u].weight, 0 };
        }
      use->share = weight_to_40_bits (use->weight);
    }
}

PsiFlowId
psi_links_start (PsiLinks *links, PsiTime now_ps, gint64 bytes, double cap_bytes_per_s, const PsiLinkUse *uses,
                 guint n_uses, guint64 cookie)
{
  guint32 id;
  Flow *flow;

  advance (links, now_ps);
  links->n_running++;
  id = add_flow (links);
  flow = &links->flows[id];
  copy_uses (links, flow, uses, n_uses);
  if (bytes <= 0 || (flow->n_uses == 0 && cap_bytes_per_s == HUGE_VAL))
    {
      flow->n_uses = 0;
      ids_push (&links->free_flows, id);
      add_due (links, cookie);
      return id;
    }
  flow->count = (Units) bytes * (Units) UNITS_PER_BYTE;
  flow->group = NONE;
  flow->n_active = 0;
  flow->in_region = FALSE;
  flow->held_in = 0;
  flow->cookie = cookie;
  flow->cap = cap_bytes_per_s > 0 ? cap_bytes_per_s : 0;
  for (guint u = 0; u < flow->n_uses; u++)
    flow->cap = MIN (flow->cap, links->links[flow->uses[u].link].bytes_per_s / flow->uses[u].weight);
  flow->rate = 0;
  flow->base_ps = links->now_ps;
  add_refs (links, id);
  if (flow->n_active == 0)
    {
      psi_links_hold_by_cap (links, id);
      return id;
    }
  enter_region (links, flow);
  for (guint u = 0; u < flow->n_uses && flow->n_active == 1; u++)
    if (links->links[flow->uses[u].link].active) /* most likely who will hold it */
      psi_links_hold_by_link (links, id, flow->uses[u].link);
  return id;
}

PsiTime
psi_links_next_ps (PsiLinks *links)
{
  if (links->due->len > 0)
    return links->now_ps;
  psi_links_solve (links);
  return links->timers.n > 0 ? (PsiTime) links->timers.entries[0].key : PSI_TIME_MAX;
}

gboolean
psi_links_pop (PsiLinks *links, PsiTime now_ps, guint64 *ret_cookie)
{
  if (links->due->len == 0)
    {
      advance (links, now_ps);
      psi_links_solve (links);
      take_ended (links);
      if (links->due->len == 0)
        return FALSE;
    }
  *ret_cookie = g_array_index (links->due, guint64, links->due->len - 1);
  g_array_set_size (links->due, links->due->len - 1);
  links->n_running--;
  return TRUE;
}

double
psi_links_flow_rate (PsiLinks *links, PsiFlowId flow)
{
  psi_links_solve (links);
  return links->flows[flow].group == NONE ? links->flows[flow].rate : links->links[links->flows[flow].group].level;
}

guint
psi_links_n_flows (const PsiLinks *links)
{
  return links->n_running;
}

void
psi_links_reset (PsiLinks *links)
{
  for (psi_links_solve (links); links->timers.n > 0; psi_links_solve (links))
    while (links->timers.n > 0)
      remove_flow (links, first_to_end (links));
  g_array_set_size (links->due, 0);
  links->n_running = 0;
  links->now_ps = 0;
}
