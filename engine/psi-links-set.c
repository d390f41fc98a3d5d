/* SPDX-License-Identifier: MIT */
/* The links themselves: made before anything flows. */
#include "psi-links-private.h"

#include <string.h>

void
psi_links_reserve_places (PsiLinks *links, guint n_ids)
{
  guint n = links->n_places;

  if (2 * n_ids <= n)
    return;
  links->n_places = MAX (2 * n_ids, 2 * n);
  links->places = g_renew (guint32, links->places, links->n_places);
  memset (links->places + n, 0xff, (links->n_places - n) * sizeof (guint32));
}

PsiLinks *
psi_links_new (void)
{
  PsiLinks *links = g_new0 (PsiLinks, 1);

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
    g_free (links->regions[i].links.items);
  g_free (links->free_flows.items);
  g_free (links->free_regions.items);
  g_free (links->dirty_regions.items);
  g_free (links->batch.items);
  g_free (links->far.items);
  g_free (links->walk.items);
  g_array_unref (links->due);
  g_free (links->timers.entries);
  g_free (links->levels);
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
  psi_links_reserve_places (links, links->n_links_alloc);
  return links->n_links++;
}

void
psi_links_scale (PsiLinks *links, PsiLinkId link, double factor)
{
  g_assert (links->n_running == 0);
  links->links[link].bytes_per_s *= factor;
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
