/* SPDX-License-Identifier: MIT */
/* Messages of rings, by the place of the sender's head. */
#pragma once

#include "psi-loop-state.h"

/* All members are there: each sends its first message. */
void psi_ring_start (PsiLoop *loop, PsiPortId id, PsiTime now_ps);
/* A message's latency is over: its bytes flow. Its bytes have arrived. TRUE: it was the last of all members. */
gboolean psi_ring_latency_over (PsiLoop *loop, guint32 head, PsiTime now_ps);
gboolean psi_ring_message_over (PsiLoop *loop, guint32 head, PsiTime now_ps);
