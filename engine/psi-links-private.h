/* SPDX-License-Identifier: MIT */
/* What psi-links.c (flows, clocks, starts and ends) and psi-links-solve.c (regions, water-filling) share. */
#pragma once

#include "psi-heap.h"
#include "psi-links.h"

#define NONE G_MAXUINT32

typedef __int128 Units; /* work: 2^-16 bytes */

typedef struct
{
  guint32 *items;
  guint n, n_alloc;
} Ids;

typedef struct
{
  guint32 link;
  guint32 ref;          /* index in the link's refs */
  guint32 pair;         /* index in the holder's pairs, NONE: not in them */
  double weight, share; /* as given; with 40 bits, for sums */
} Use;

typedef struct
{
  guint32 flow, use;
} Ref;

/* What the flows held by one link put on another. */
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
  /* During a solve */
  double fixed, open_weight; /* bytes/s of flows held so far; weight of the open ones */
  guint64 open_hash, mark;
  guint32 n_open, pair; /* pair: index in the pairs being built, if mark is theirs */
  guint64 held_in;      /* solve in which it last held flows */
  /* Always */
  double bytes_per_s, weight;
  double cap_sum, min_cap; /* what all flows use at their caps; no cap is lower */
  guint64 hash;
  Ref *refs; /* who uses it */
  guint n_refs, n_refs_alloc;
  guint32 region;
  gboolean active; /* has several flows that may fill it */
  /* The flows it holds: the keys of the heap are clock counts */
  PsiHeap members;
  guint64 members_hash;
  Pairs pairs;
  gboolean pairs_valid;
  PsiTime base_ps;
  Units base; /* clock at base_ps */
  double level;
} Link;

typedef struct
{
  Units count;   /* held by a link: its clock when the flow ends; else what is left at base_ps */
  guint32 group; /* link that holds it, NONE: its cap or nobody */
  guint32 n_uses, n_uses_alloc, n_active; /* n_active: links that are active */
  guint64 held_in;                        /* solve in which its cap held it */
  guint64 hash, cookie, mark;
  double cap;         /* as given, and what it would have alone: it is never faster */
  double rate;        /* while group is NONE */
  gboolean in_region; /* counted there */
  PsiTime base_ps;
  Use *uses;
} Flow;

/* Active links, connected by flows (or that were so not long ago). */
typedef struct
{
  Ids links; /* may hold some that are no longer active */
  guint n_flows, n_ended;
  double top_level; /* highest that held flows in the last solve */
  gboolean dirty;
} Region;

typedef struct
{
  guint64 bits; /* of the level */
  guint32 link;
} Level;

struct _PsiLinks
{
  Link *links;
  Flow *flows;
  guint n_links, n_links_alloc, n_flows, n_flows_alloc, n_running;
  PsiHeap timers;
  guint32 *places; /* of flow id at 2 id, of link id at 2 id + 1 */
  guint n_places;
  Region *regions;
  guint n_regions, n_regions_alloc;
  Ids free_flows, free_regions, dirty_regions;
  GArray *due; /* guint64 cookies, descending */
  PsiTime now_ps;
  /* During a solve */
  guint64 solve, mark;
  Level *levels;
  guint n_levels, n_levels_alloc;
  Ids batch, far, walk; /* links, links, flows */
  double near_level;    /* links in far have higher levels */
  Pairs cap_pairs;
};

static inline void
ids_push (Ids *ids, guint32 id)
{
  if (G_UNLIKELY (ids->n == ids->n_alloc))
    ids->items = g_renew (guint32, ids->items, ids->n_alloc = MAX (16, 2 * ids->n_alloc));
  ids->items[ids->n++] = id;
}

/* psi-links-set.c: room to look up so many ids. */
void psi_links_reserve_places (PsiLinks *links, guint n_ids);

/* psi-links.c */
void psi_links_hold_by_cap (PsiLinks *links, guint32 flow);
void psi_links_hold_by_link (PsiLinks *links, guint32 flow, guint32 link);
void psi_links_set_level (PsiLinks *links, guint32 link, double level);

/* psi-links-solve.c */
void psi_links_mark_dirty (PsiLinks *links, guint32 region);
/* Put all active links of a flow into one region and mark that dirty. */
void psi_links_join (PsiLinks *links, const Flow *flow);
/* Solve all dirty regions. */
void psi_links_solve (PsiLinks *links);
