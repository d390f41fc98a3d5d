/* SPDX-License-Identifier: MIT */
/* Links shared by flows, max-min fair.
 *
 *   level of a link = (rate - sum over held flows of weight * their rate) / (sum of the weights of the open flows)
 *
 * Water-filling: all flows are open; the link with the lowest level holds its open flows at that level; repeat. A flow
 * whose cap is below the lowest level is held by its cap. Links of exactly equal level act together, before the levels
 * are computed again. (Bertsekas, Gallager: "Data Networks", section 6.5.2.)
 *
 * What makes it fast:
 * - A link with one flow is no more than a cap of that flow. A flow that shares no link needs no solve.
 * - All flows held by one link have one rate, so the link has a clock that counts the bytes each of them has sent, and
 * a heap of the counts at which they end. A new level moves one timer, not one per flow.
 * - Held flows are remembered as one sum per other link (Pair). A link whose open flows are the very flows it held last
 *   time (compared by a sum of 64-bit hashes) applies these sums without a look at the flows.
 * - Only shared links connected to a change are solved. Regions are joined as flows start, and taken apart again after
 *   as many ends as there are flows.
 *
 * Exactness: weights count with 40 bits in sums, so that sums of up to 8,192 like weights are exact and do not depend
 * on the order of flows (whole weights: always). Levels are visited in a fixed order, so rates depend on the set of
 * flows only. Work is counted in 2^-16 bytes in 128 bits: 2^60 bytes and more do not overflow. An end past PSI_TIME_MAX
 * is never. End times are rounded to the nearest picosecond; a flow alone takes psi_time_from_s (bytes / rate). */
#include "psi-links.h"

#include <stdlib.h>
#include <string.h>

#define UNITS_PER_BYTE 65536.0
#define NONE G_MAXUINT32

typedef __int128 Units; /* 2^-16 bytes */

typedef struct
{
  Units key;
  guint32 node; /* see NODE_* */
} Entry;

typedef struct
{
  Entry *entries;
  guint n, n_alloc;
} Heap;

/* What may stand in a heap; links->places[node] is where. A flow is in one heap at most. */
#define NODE_FLOW(id) (3 * (id))
#define NODE_LINK(id) (3 * (id) + 1)  /* in timers */
#define NODE_LEVEL(id) (3 * (id) + 2) /* in levels, during a solve */

typedef struct
{
  guint32 link;
  guint32 ref;          /* index in the link's refs */
  guint32 pair;         /* index in the holder's pairs, NONE: not in them */
  double weight, share; /* as given; with 40 bits, for sums */
} Use;

typedef struct
{
  guint32 link, n_flows;
  double weight;
  guint64 hash;
} Pair;

typedef struct
{
  Pair *items;
  guint n, n_alloc;
} Pairs;

typedef struct
{
  guint32 flow, use;
} Ref;

typedef struct
{
  /* During a solve */
  double fixed, open_weight; /* bytes/s of held flows; weight of open ones */
  guint64 open_hash, mark;
  guint32 n_open, pair; /* pair: index in the pairs being built, if mark is theirs */
  guint64 held_in;      /* solve in which it last held flows */
  /* Always */
  double bytes_per_s, weight, min_cap; /* min_cap: no flow here has a lower cap */
  guint64 hash;
  Ref *refs;
  guint n_refs, n_refs_alloc;
  guint32 region;
  /* The flows it holds: keys of the heap are clock counts */
  Heap members;
  guint64 members_hash;
  Pairs pairs; /* what the members put on other shared links */
  gboolean pairs_valid;
  PsiTime base_ps;
  Units base; /* clock at base_ps */
  double level;
} Link;

typedef struct
{
  Units count;   /* held by a link: its clock when the flow ends; else left at base_ps */
  guint32 group; /* link that holds it, NONE: its cap or nobody */
  guint32 n_uses, n_shared, n_uses_alloc;
  guint64 held_in; /* solve in which its cap held it */
  guint64 hash, cookie, mark;
  double cap, own_cap; /* as given; with the links it has for itself */
  double rate;         /* while group is NONE */
  PsiTime base_ps;
  Use *uses;
} Flow;

typedef struct
{
  GArray *links; /* guint32; may hold some that are no longer shared */
  guint n_flows, n_ended;
  gboolean dirty;
} Region;

struct _PsiLinks
{
  Link *links;
  Flow *flows;
  guint n_links, n_links_alloc, n_flows, n_flows_alloc, n_running;
  guint32 *places;
  guint n_places;
  GArray *free_flows; /* guint32 */
  Region *regions;
  guint n_regions, n_regions_alloc;
  GArray *free_regions, *dirty_regions; /* guint32 */
  Heap timers, levels;
  Pairs cap_pairs;
  GArray *batch, *walk; /* guint32: links, flows */
  GArray *due;          /* guint64 cookies, descending */
  guint64 solve, mark;
  PsiTime now_ps;
};

/* Heaps */

static inline void
heap_place (PsiLinks *links, Heap *heap, guint i, Entry entry)
{
  heap->entries[i] = entry;
  links->places[entry.node] = i;
}

/* Put an entry where i is free, moving up or down. */
static void
heap_sift (PsiLinks *links, Heap *heap, guint i, Entry entry)
{
  for (; i > 0 && entry.key < heap->entries[(i - 1) / 4].key; i = (i - 1) / 4)
    heap_place (links, heap, i, heap->entries[(i - 1) / 4]);
  for (guint first = 4 * i + 1; first < heap->n; first = 4 * i + 1)
    {
      guint best = first, end = MIN (first + 4, heap->n);
      for (guint c = first + 1; c < end; c++)
        best = heap->entries[c].key < heap->entries[best].key ? c : best;
      if (entry.key <= heap->entries[best].key)
        break;
      heap_place (links, heap, i, heap->entries[best]);
      i = best;
    }
  heap_place (links, heap, i, entry);
}

/* Insert, or move if it is there. */
static void
heap_set (PsiLinks *links, Heap *heap, guint32 node, Units key)
{
  guint i = links->places[node];

  if (i == NONE)
    {
      if (heap->n == heap->n_alloc)
        heap->entries = g_renew (Entry, heap->entries, heap->n_alloc = MAX (4, 2 * heap->n_alloc));
      i = heap->n++;
    }
  heap_sift (links, heap, i, (Entry){ key, node });
}

static void
heap_remove (PsiLinks *links, Heap *heap, guint32 node)
{
  guint i = links->places[node];

  if (i == NONE)
    return;
  links->places[node] = NONE;
  if (i != --heap->n)
    heap_sift (links, heap, i, heap->entries[heap->n]);
}

/* Clocks */

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
    heap_remove (links, &links->timers, NODE_LINK (id));
  else
    heap_set (links, &links->timers, NODE_LINK (id),
              MAX (links->now_ps, end_ps (link->base_ps, link->members.entries[0].key - link->base, link->level)));
}

static void
set_level (PsiLinks *links, guint32 id, double level)
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
      heap_remove (links, &links->timers, NODE_FLOW (id));
    }
  else
    {
      Link *link = &links->links[flow->group];
      left = flow->count - link_clock (link, links->now_ps);
      heap_remove (links, &link->members, NODE_FLOW (id));
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
static void
hold_by_cap (PsiLinks *links, guint32 id)
{
  Flow *flow = &links->flows[id];

  if (flow->group == NONE && flow->rate == flow->own_cap && links->places[NODE_FLOW (id)] != NONE)
    return;
  release_flow (links, id);
  flow->rate = flow->own_cap;
  heap_set (links, &links->timers, NODE_FLOW (id), end_ps (links->now_ps, flow->count, flow->rate));
}

static void
hold_by_link (PsiLinks *links, guint32 id, guint32 link_id)
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
  heap_set (links, &link->members, NODE_FLOW (id), flow->count);
}

/* Regions: sets of shared links */

static void
mark_dirty (PsiLinks *links, guint32 region)
{
  if (links->regions[region].dirty)
    return;
  links->regions[region].dirty = TRUE;
  g_array_append_val (links->dirty_regions, region);
}

static guint32
add_region (PsiLinks *links)
{
  guint32 id = links->n_regions;

  if (links->free_regions->len)
    {
      id = g_array_index (links->free_regions, guint32, links->free_regions->len - 1);
      g_array_set_size (links->free_regions, links->free_regions->len - 1);
      return id;
    }
  if (links->n_regions == links->n_regions_alloc)
    links->regions = g_renew (Region, links->regions, links->n_regions_alloc = MAX (16, 2 * links->n_regions_alloc));
  links->regions[links->n_regions++] = (Region){ g_array_new (FALSE, FALSE, sizeof (guint32)), 0, 0, FALSE };
  return id;
}

static void
empty_region (PsiLinks *links, guint32 id)
{
  Region *region = &links->regions[id];

  g_array_set_size (region->links, 0);
  region->n_flows = region->n_ended = 0;
  g_array_append_val (links->free_regions, id);
}

/* Put all shared links of a flow into one region and mark that dirty. */
static void
join_regions (PsiLinks *links, const Flow *flow)
{
  guint32 home = NONE;

  for (guint u = 0; u < flow->n_uses; u++)
    {
      Link *link = &links->links[flow->uses[u].link];
      guint32 other = link->region;

      if (link->n_refs < 2 || (other == home && home != NONE))
        continue;
      if (other == NONE)
        {
          if (home == NONE)
            home = add_region (links);
          link->region = home;
          g_array_append_val (links->regions[home].links, flow->uses[u].link);
          continue;
        }
      if (home != NONE)
        {
          Region *from, *to;
          if (links->regions[other].links->len > links->regions[home].links->len)
            {
              other = home;
              home = link->region;
            }
          from = &links->regions[other];
          to = &links->regions[home];
          for (guint i = 0; i < from->links->len; i++)
            links->links[g_array_index (from->links, guint32, i)].region = home;
          g_array_append_vals (to->links, from->links->data, from->links->len);
          to->n_flows += from->n_flows;
          to->n_ended += from->n_ended;
          empty_region (links, other);
        }
      else
        home = other;
    }
  mark_dirty (links, home);
}

/* Take a region apart into the connected ones. */
static void
split_region (PsiLinks *links, guint32 id)
{
  g_autofree guint32 *ids = NULL;
  gsize n_ids = 0;

  ids = g_array_steal (links->regions[id].links, &n_ids);
  empty_region (links, id);
  for (guint i = 0; i < n_ids; i++)
    links->links[ids[i]].region = NONE;
  links->mark++;
  for (guint i = 0; i < n_ids; i++)
    for (guint r = 0; links->links[ids[i]].n_refs > 1 && r < links->links[ids[i]].n_refs; r++)
      {
        Flow *flow = &links->flows[links->links[ids[i]].refs[r].flow];
        if (flow->mark == links->mark)
          continue;
        flow->mark = links->mark;
        join_regions (links, flow);
        links->regions[links->links[ids[i]].region].n_flows++;
      }
}

/* Water-filling */

static inline gboolean
flow_is_open (const PsiLinks *links, const Flow *flow)
{
  return (flow->group == NONE ? flow->held_in : links->links[flow->group].held_in) != links->solve;
}

/* Sum up what the flows put on shared links other than `holder`. */
static void
build_pairs (PsiLinks *links, Pairs *pairs, const guint32 *ids, guint n_ids, guint32 holder)
{
  pairs->n = 0;
  links->mark++;
  for (guint i = 0; i < n_ids; i++)
    {
      Flow *flow = &links->flows[ids[i]];
      for (guint u = 0; u < flow->n_uses; u++)
        {
          Use *use = &flow->uses[u];
          Link *link = &links->links[use->link];
          Pair *pair;
          use->pair = NONE;
          if (use->link == holder || link->n_refs < 2)
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
  for (const Pair *pair = pairs->items, *end = pair + pairs->n; pair < end; pair++)
    {
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

/* Levels are not negative, so their bits are in their order; equal levels by link. */
static inline void
push_level (PsiLinks *links, guint32 id, double level)
{
  guint64 bits;

  memcpy (&bits, &level, sizeof bits);
  heap_set (links, &links->levels, NODE_LEVEL (id), (Units) bits << 32 | id);
}

static int
compare_ids (const void *a, const void *b)
{
  return (*(const guint32 *) a > *(const guint32 *) b) - (*(const guint32 *) a < *(const guint32 *) b);
}

static int
compare_caps (const void *a, const void *b, void *flows)
{
  double cap_a = ((Flow *) flows)[*(const guint32 *) a].own_cap;
  double cap_b = ((Flow *) flows)[*(const guint32 *) b].own_cap;

  return (cap_a > cap_b) - (cap_a < cap_b);
}

/* Hold the open flows of a link whose cap is below the level; how many. */
static guint
hold_capped (PsiLinks *links, Link *link, double level)
{
  GArray *walk = links->walk;

  if (link->min_cap >= level)
    return 0;
  g_array_set_size (walk, 0);
  link->min_cap = HUGE_VAL;
  for (guint r = 0; r < link->n_refs; r++)
    {
      Flow *flow = &links->flows[link->refs[r].flow];
      link->min_cap = MIN (link->min_cap, flow->own_cap);
      if (flow->own_cap < level && flow_is_open (links, flow))
        g_array_append_val (walk, link->refs[r].flow);
    }
  g_qsort_with_data (walk->data, (gint) walk->len, sizeof (guint32), compare_caps, links->flows);
  for (guint i = 0, next; i < walk->len; i = next)
    {
      const guint32 *ids = &g_array_index (walk, guint32, 0);
      double cap = links->flows[ids[i]].own_cap;
      for (next = i; next < walk->len && links->flows[ids[next]].own_cap == cap; next++)
        {
          hold_by_cap (links, ids[next]);
          links->flows[ids[next]].held_in = links->solve;
        }
      build_pairs (links, &links->cap_pairs, ids + i, next - i, NONE);
      apply_pairs (links, &links->cap_pairs, cap);
    }
  return walk->len;
}

/* Hold the open flows of a link; how many. */
static guint
hold_open (PsiLinks *links, guint32 id, double level)
{
  Link *link = &links->links[id];
  GArray *walk = links->walk;

  if (!link->pairs_valid || link->open_hash != link->members_hash || link->n_open != link->members.n)
    {
      g_array_set_size (walk, 0);
      for (guint r = 0; r < link->n_refs; r++)
        if (flow_is_open (links, &links->flows[link->refs[r].flow]))
          g_array_append_val (walk, link->refs[r].flow);
      for (guint i = 0; i < walk->len; i++)
        if (links->flows[g_array_index (walk, guint32, i)].group != id)
          hold_by_link (links, g_array_index (walk, guint32, i), id);
      build_pairs (links, &link->pairs, &g_array_index (walk, guint32, 0), walk->len, id);
      link->pairs_valid = TRUE;
    }
  apply_pairs (links, &link->pairs, level);
  link->held_in = links->solve;
  link->n_open = 0;
  set_level (links, id, level);
  return link->members.n;
}

static void
solve_region (PsiLinks *links, guint32 region_id)
{
  Region *region = &links->regions[region_id];
  guint n_kept = 0, n_refs = 0, n_open = region->n_flows;
  guint32 *ids = &g_array_index (region->links, guint32, 0);

  for (guint i = 0; i < region->links->len; i++)
    {
      Link *link = &links->links[ids[i]];
      n_refs += link->n_refs;
      if (link->n_refs > 1)
        ids[n_kept++] = ids[i];
      else
        link->region = NONE;
    }
  g_array_set_size (region->links, n_kept);
  if (n_kept == 0)
    {
      empty_region (links, region_id);
      return;
    }
  if (region->n_ended > n_refs + n_kept && n_kept > 1)
    {
      split_region (links, region_id);
      return;
    }
  links->solve++;
  while (links->levels.n > 0)
    heap_remove (links, &links->levels, links->levels.entries[links->levels.n - 1].node);
  for (guint i = 0; i < n_kept; i++)
    {
      Link *link = &links->links[ids[i]];
      link->fixed = 0;
      link->open_weight = link->weight;
      link->open_hash = link->hash;
      link->n_open = link->n_refs;
      push_level (links, ids[i], level_of (link));
    }
  while (n_open > 0)
    {
      double level = HUGE_VAL;
      guint n_capped = 0;

      g_array_set_size (links->batch, 0);
      while (links->levels.n > 0)
        {
          guint32 id = (guint32) links->levels.entries[0].key;
          guint64 bits = (guint64) (links->levels.entries[0].key >> 32);
          Link *link = &links->links[id];
          double key, now_level;

          memcpy (&key, &bits, sizeof key);
          if (key > level)
            break;
          now_level = link->n_open ? level_of (link) : HUGE_VAL;
          if (link->n_open && now_level > key && (links->batch->len == 0 || now_level > level))
            push_level (links, id, now_level);
          else
            {
              heap_remove (links, &links->levels, NODE_LEVEL (id));
              if (!link->n_open)
                continue;
              g_array_append_val (links->batch, id);
              level = MIN (level, now_level);
            }
        }
      g_assert (links->batch->len > 0);
      if (links->batch->len > 1)
        qsort (links->batch->data, links->batch->len, sizeof (guint32), compare_ids);
      for (guint i = 0; i < links->batch->len; i++)
        n_capped += hold_capped (links, &links->links[g_array_index (links->batch, guint32, i)], level);
      n_open -= n_capped;
      for (guint i = 0; i < links->batch->len; i++)
        {
          guint32 id = g_array_index (links->batch, guint32, i);
          if (links->links[id].n_open == 0)
            continue;
          if (n_capped)
            push_level (links, id, level_of (&links->links[id]));
          else
            n_open -= hold_open (links, id, level);
        }
    }
}

static void
solve (PsiLinks *links)
{
  for (guint i = 0; i < links->dirty_regions->len; i++)
    {
      guint32 id = g_array_index (links->dirty_regions, guint32, i);
      links->regions[id].dirty = FALSE;
      if (links->regions[id].links->len)
        solve_region (links, id);
    }
  g_array_set_size (links->dirty_regions, 0);
}

/* Starts and ends */

/* The cap changed: tell the shared links. */
static void
lower_min_caps (PsiLinks *links, const Flow *flow)
{
  for (guint u = 0; u < flow->n_uses && flow->own_cap < HUGE_VAL; u++)
    {
      Link *link = &links->links[flow->uses[u].link];
      link->min_cap = MIN (link->min_cap, flow->own_cap);
    }
}

static double
private_cap (const PsiLinks *links, const Flow *flow)
{
  double cap = flow->cap;

  for (guint u = 0; u < flow->n_uses; u++)
    {
      const Link *link = &links->links[flow->uses[u].link];
      if (link->n_refs == 1)
        cap = MIN (cap, link->bytes_per_s / flow->uses[u].weight);
    }
  return cap;
}

/* A second flow came to the only link of a flow, `link`. */
static void
share_link (PsiLinks *links, Link *link)
{
  Flow *flow = &links->flows[link->refs[0].flow];

  if (flow->own_cap >= link->bytes_per_s / flow->uses[link->refs[0].use].weight)
    flow->own_cap = private_cap (links, flow);
  link->min_cap = flow->own_cap;
  if (flow->group != NONE)
    links->links[flow->group].pairs_valid = FALSE;
  join_regions (links, flow);
  if (flow->n_shared++ == 0)
    links->regions[link->region].n_flows++;
}

/* A flow is left alone on a link. */
static void
unshare_link (PsiLinks *links, Link *link)
{
  guint32 id = link->refs[0].flow;
  Flow *flow = &links->flows[id];

  flow->own_cap = MIN (flow->own_cap, link->bytes_per_s / flow->uses[link->refs[0].use].weight);
  lower_min_caps (links, flow);
  if (flow->group != NONE && &links->links[flow->group] == link)
    release_flow (links, id);
  if (--flow->n_shared > 0)
    return;
  links->regions[link->region].n_flows--;
  hold_by_cap (links, id);
}

static void
remove_flow (PsiLinks *links, guint32 id)
{
  Flow *flow = &links->flows[id];

  release_flow (links, id);
  for (guint u = 0; u < flow->n_uses && flow->n_shared > 0; u++)
    if (links->links[flow->uses[u].link].n_refs > 1)
      {
        Region *region = &links->regions[links->links[flow->uses[u].link].region];
        region->n_flows--;
        region->n_ended++;
        mark_dirty (links, links->links[flow->uses[u].link].region);
        break;
      }
  for (guint u = 0; u < flow->n_uses; u++)
    {
      Link *link = &links->links[flow->uses[u].link];
      Ref last = link->refs[--link->n_refs];
      link->refs[flow->uses[u].ref] = last;
      links->flows[last.flow].uses[last.use].ref = flow->uses[u].ref;
      link->weight = link->n_refs ? link->weight - flow->uses[u].share : 0;
      link->hash -= flow->hash;
      if (link->n_refs == 1)
        unshare_link (links, link);
      else if (link->n_refs == 0)
        link->min_cap = HUGE_VAL;
    }
  flow->n_uses = flow->n_shared = 0;
  g_array_append_val (links->free_flows, id);
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
  return node % 3 == 0 ? node / 3 : links->links[node / 3].members.entries[0].node / 3;
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
  solve (links);
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

static guint64
hash_of (guint64 id)
{
  id += 0x9e3779b97f4a7c15u;
  id = (id ^ (id >> 30)) * 0xbf58476d1ce4e5b9u;
  id = (id ^ (id >> 27)) * 0x94d049bb133111ebu;
  return id ^ (id >> 31);
}

static void
reserve_places (PsiLinks *links, guint n_ids)
{
  guint n = links->n_places;

  if (3 * n_ids <= n)
    return;
  links->n_places = MAX (3 * n_ids, 2 * n);
  links->places = g_renew (guint32, links->places, links->n_places);
  memset (links->places + n, 0xff, (links->n_places - n) * sizeof (guint32));
}

static guint32
add_flow (PsiLinks *links)
{
  guint32 id = links->n_flows;

  if (links->free_flows->len > 0)
    {
      id = g_array_index (links->free_flows, guint32, links->free_flows->len - 1);
      g_array_set_size (links->free_flows, links->free_flows->len - 1);
      return id;
    }
  if (links->n_flows == links->n_flows_alloc)
    links->flows = g_renew (Flow, links->flows, links->n_flows_alloc = MAX (16, 2 * links->n_flows_alloc));
  links->flows[links->n_flows++] = (Flow){ .hash = hash_of (id) };
  reserve_places (links, links->n_flows_alloc);
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
      g_array_append_val (links->free_flows, id);
      add_due (links, cookie);
      return id;
    }
  flow->count = (Units) bytes * (Units) UNITS_PER_BYTE;
  flow->group = NONE;
  flow->n_shared = 0;
  flow->held_in = 0;
  flow->cookie = cookie;
  flow->cap = cap_bytes_per_s > 0 ? cap_bytes_per_s : 0;
  flow->rate = 0;
  flow->base_ps = links->now_ps;
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
      flow->n_shared += link->n_refs > 1;
      if (link->n_refs == 2)
        share_link (links, link);
    }
  flow->own_cap = private_cap (links, flow);
  if (flow->n_shared == 0)
    {
      hold_by_cap (links, id);
      return id;
    }
  lower_min_caps (links, flow);
  join_regions (links, flow);
  for (guint u = 0; u < flow->n_uses; u++)
    if (links->links[flow->uses[u].link].n_refs > 1)
      {
        links->regions[links->links[flow->uses[u].link].region].n_flows++;
        if (flow->n_shared == 1) /* most likely who will hold it */
          hold_by_link (links, id, flow->uses[u].link);
        break;
      }
  return id;
}

PsiTime
psi_links_next_ps (PsiLinks *links)
{
  if (links->due->len > 0)
    return links->now_ps;
  solve (links);
  return links->timers.n > 0 ? (PsiTime) links->timers.entries[0].key : PSI_TIME_MAX;
}

gboolean
psi_links_pop (PsiLinks *links, PsiTime now_ps, guint64 *ret_cookie)
{
  if (links->due->len == 0)
    {
      advance (links, now_ps);
      solve (links);
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
  solve (links);
  if (flow >= links->n_flows || links->flows[flow].n_uses + links->flows[flow].cap == 0)
    return 0;
  return links->flows[flow].group == NONE ? links->flows[flow].rate : links->links[links->flows[flow].group].level;
}

guint
psi_links_n_flows (const PsiLinks *links)
{
  return links->n_running;
}

PsiLinks *
psi_links_new (void)
{
  PsiLinks *links = g_new0 (PsiLinks, 1);
  GArray **id_arrays[] = { &links->free_flows, &links->free_regions, &links->dirty_regions, &links->batch,
                           &links->walk };

  for (guint i = 0; i < G_N_ELEMENTS (id_arrays); i++)
    *id_arrays[i] = g_array_new (FALSE, FALSE, sizeof (guint32));
  links->due = g_array_new (FALSE, FALSE, sizeof (guint64));
  return links;
}

void
psi_links_free (PsiLinks *links)
{
  if (!links)
    return;
  for (guint i = 0; i < links->n_links; i++)
    {
      g_free (links->links[i].refs);
      g_free (links->links[i].members.entries);
      g_free (links->links[i].pairs.items);
    }
  for (guint i = 0; i < links->n_flows; i++)
    g_free (links->flows[i].uses);
  for (guint i = 0; i < links->n_regions; i++)
    g_array_unref (links->regions[i].links);
  g_array_unref (links->free_flows);
  g_array_unref (links->free_regions);
  g_array_unref (links->dirty_regions);
  g_array_unref (links->batch);
  g_array_unref (links->walk);
  g_array_unref (links->due);
  g_free (links->timers.entries);
  g_free (links->levels.entries);
  g_free (links->cap_pairs.items);
  g_free (links->links);
  g_free (links->flows);
  g_free (links->regions);
  g_free (links->places);
  g_free (links);
}

PsiLinkId
psi_links_add (PsiLinks *links, double bytes_per_s)
{
  if (links->n_links == links->n_links_alloc)
    links->links = g_renew (Link, links->links, links->n_links_alloc = MAX (16, 2 * links->n_links_alloc));
  links->links[links->n_links] =
      (Link){ .bytes_per_s = bytes_per_s > 0 ? bytes_per_s : 0, .min_cap = HUGE_VAL, .region = NONE };
  reserve_places (links, links->n_links_alloc);
  return links->n_links++;
}

guint
psi_links_n_links (const PsiLinks *links)
{
  return links->n_links;
}

double
psi_links_rate (const PsiLinks *links, PsiLinkId link)
{
  return links->links[link].bytes_per_s;
}

void
psi_links_reset (PsiLinks *links)
{
  for (solve (links); links->timers.n > 0; solve (links))
    while (links->timers.n > 0)
      remove_flow (links, first_to_end (links));
  g_array_set_size (links->due, 0);
  links->n_running = 0;
  links->now_ps = 0;
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
