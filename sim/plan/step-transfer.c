/* SPDX-License-Identifier: MIT */
/* What a collective or message costs, as transfers of the engine: equal ones are one, at four levels of detail. */
#include "step.h"

#include <string.h>

/* What transfers are told apart by; made of zeroes first, so that all bytes count. */
typedef struct
{
  PsiTransfer transfer;
  PsiTransferInfo info;
} TransferKey;

guint
psi_step_transfer_hash (gconstpointer key)
{
  const guint32 *words = key;
  guint hash = 0;

  for (gsize i = 0; i < sizeof (TransferKey) / sizeof *words; i++)
    hash = (hash ^ words[i]) * 0x9e3779b1u;
  return hash ^ hash >> 15;
}

gboolean
psi_step_transfer_equal (gconstpointer a, gconstpointer b)
{
  return memcmp (a, b, sizeof (TransferKey)) == 0;
}

/* Bytes that take less than this part of the latency slow nobody down: they are not put on links. */
#define FEW_BYTES 1000

/* The same collective at four levels. A step takes a whole number of ps, rounded up once, so that on an idle machine
 * all levels take steps x that number + latency, to the ps:
 *
 *   closed    no bytes on links, only the time
 *   flow      all bytes at once, not faster than the steps allow
 *   steps     one flow for each step
 *   messages  rings: one flow for each member and step; other algorithms as above */
static void
set_detail (const PsiStep *step, const PsiCollectiveCost *cost, gint64 bytes, double wire_s, PsiTransfer *transfer)
{
  const char *detail = psi_settings_text (step->settings, PSI_KEY_DETAIL);
  guint steps = MAX (cost->steps, 1);
  gint64 chunk = (bytes + steps - 1) / steps;
  double chunk_ps = wire_s / (double) bytes * (double) chunk * PSI_PS_PER_S;
  PsiTime most_ps = PSI_TIME_MAX / steps; /* not beyond: then it never ends */
  PsiTime step_ps = chunk_ps < (double) most_ps ? MAX ((PsiTime) ceil (chunk_ps - 1e-3), 1) : PSI_TIME_MAX;
  PsiTime wire_ps = step_ps < PSI_TIME_MAX ? steps * step_ps : PSI_TIME_MAX;

  transfer->bytes = bytes;
  transfer->cap_bytes_per_s = (double) bytes / psi_time_to_s (wire_ps);
  if (strcmp (detail, "closed") == 0 || wire_ps == PSI_TIME_MAX || wire_ps < transfer->latency_ps / FEW_BYTES)
    {
      transfer->latency_ps = psi_time_add (transfer->latency_ps, wire_ps);
      transfer->bytes = 0;
    }
  else if (steps > 1 && strcmp (detail, "flow") != 0)
    {
      transfer->rounds = steps;
      transfer->bytes = chunk;
      transfer->cap_bytes_per_s = (double) transfer->bytes / psi_time_to_s (step_ps);
      transfer->round_latency_ps = cost->latency_ps / steps;
      transfer->latency_ps -= (steps - 1) * transfer->round_latency_ps;
      transfer->is_ring = strcmp (detail, "messages") == 0 && strcmp (cost->algorithm, "ring") == 0;
    }
}

/* A transfer whose links carry intra and inter bytes. Equal transfers are one. */
PsiTransferId
psi_step_transfer (PsiStep *step, const PsiCollectiveCost *cost, const PsiTransferInfo *info)
{
  gint64 bytes = MAX (cost->intra_bytes, cost->inter_bytes);
  TransferKey key;
  PsiTransfer *transfer = &key.transfer;
  gpointer found;
  double slowest_s = 0;

  memset (&key, 0, sizeof key);
  memcpy (&key.info, info, sizeof *info);
  transfer->latency_ps = cost->latency_ps;
  transfer->cap_bytes_per_s = HUGE_VAL;
  transfer->hops = cost->steps;
  /* Alone it goes as fast as its algorithm and protocol allow, which may be less than the links could carry. */
  if (cost->intra_bytes > 0)
    slowest_s = (double) cost->intra_bytes / cost->intra_bytes_per_s;
  if (cost->inter_bytes > 0)
    slowest_s = MAX (slowest_s, (double) cost->inter_bytes / cost->inter_bytes_per_s);
  if (bytes > 0 && slowest_s > 0)
    {
      transfer->weights[PSI_TIER_INTRA_OUT] = transfer->weights[PSI_TIER_INTRA_IN] =
          (double) cost->intra_bytes / (double) bytes;
      transfer->weights[PSI_TIER_INTER_OUT] = transfer->weights[PSI_TIER_INTER_IN] =
          (double) cost->inter_bytes / (double) bytes;
      set_detail (step, cost, bytes, slowest_s, transfer);
    }
  if (g_hash_table_lookup_extended (step->transfers, &key, NULL, &found))
    return GPOINTER_TO_UINT (found);
  g_array_append_vals (step->infos, info, 1);
  PsiTransferId id = psi_world_add_transfer (step->world, transfer);
  g_hash_table_insert (step->transfers, g_memdup2 (&key, sizeof key), GUINT_TO_POINTER (id));
  return id;
}

PsiTransferInfo
psi_step_transfer_info (PsiTraffic traffic, gint64 sent_bytes, guint hops)
{
  PsiTransferInfo info;

  memset (&info, 0, sizeof info);
  info.traffic = traffic;
  info.sent_bytes = sent_bytes;
  info.flight_bytes = sent_bytes / MAX (hops, 1);
  return info;
}
