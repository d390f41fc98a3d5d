/* SPDX-License-Identifier: MIT */
/* Links shared by flows, max-min fair.
 *
 * A flow sends `bytes` at rate r (bytes of the flow per second). On each link it uses it consumes weight * r of the
 * link's rate; a weight w stands for w equal flows, or for a collective that puts w bytes on this link for each byte of
 * the flow. Rates are the max-min fair solution with per-flow caps: all rates rise together until a link is full or a
 * flow reaches its cap; those flows are fixed, the rest go on. The rates of concurrent flows depend on the set of flows
 * only, never on the order they came in.
 *
 * Work left is a whole number (2^-16 bytes, 128 bits), so states compare exactly and nothing overflows. End times are
 * rounded to the nearest picosecond; a flow alone on its links takes psi_time_from_s (bytes / rate), to the picosecond.
 * Weights count with 40 significant bits where a link is shared. */
#pragma once

#include "psi-time.h"

typedef guint32 PsiLinkId;
typedef guint32 PsiFlowId; /* reused after the flow has ended */

typedef struct
{
  PsiLinkId link;
  double weight; /* > 0 */
} PsiLinkUse;

typedef struct _PsiLinks PsiLinks;

PsiLinks *psi_links_new (void);
void psi_links_free (PsiLinks *links);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiLinks, psi_links_free)

/* HUGE_VAL = takes no time; 0 = dead: a flow over it never ends. */
PsiLinkId psi_links_add (PsiLinks *links, double bytes_per_s);
/* Make a link that many times as fast. No flow may be running. */
void psi_links_scale (PsiLinks *links, PsiLinkId link, double factor);
guint psi_links_n_links (const PsiLinks *links);
double psi_links_rate (const PsiLinks *links, PsiLinkId link);

/* Start a flow at now_ps. `uses` is copied; a link that appears twice counts once with the sum of the weights.
 * cap_bytes_per_s: HUGE_VAL = none.
 * `cookie` comes back when it ends. A flow of 0 bytes, or one that only uses infinitely fast links, ends at now_ps.
 * All starts and ends at one instant are one solve, done lazily by the next psi_links_next_ps(). */
PsiFlowId psi_links_start (PsiLinks *links, PsiTime now_ps, gint64 bytes, double cap_bytes_per_s,
                           const PsiLinkUse *uses, guint n_uses, guint64 cookie);

/* When the next flow ends, given no more starts: PSI_TIME_MAX if none ends before that (none is running, or a link is
 * dead or too slow). Never before the last start. */
PsiTime psi_links_next_ps (PsiLinks *links);

/* Take one flow that ends exactly at now_ps (== psi_links_next_ps()); flows that end together come in ascending cookie
 * order. FALSE when no (more) flow ends at now_ps. */
gboolean psi_links_pop (PsiLinks *links, PsiTime now_ps, guint64 *ret_cookie);

/* Current rate of a running flow, bytes per second (for tests and tracing). */
double psi_links_flow_rate (PsiLinks *links, PsiFlowId flow);
guint psi_links_n_flows (const PsiLinks *links);
/* End all flows, keep the links. */
void psi_links_reset (PsiLinks *links);

/* The oracle: plain water-filling over all flows, no increments. rates: n_flows entries out.
 * first_use[i] .. first_use[i+1]-1 index uses. */
void psi_links_solve_plain (const double *link_rates, guint n_links, const PsiLinkUse *uses, const guint *first_use,
                            guint n_flows, const double *caps, double *ret_rates);
