/* SPDX-License-Identifier: MIT */
/* Point-to-point messages of a cyclic update, before they are written into the streams of both sides. */
#pragma once

#include "step.h"

/* An op of one worker, so many of its steps after the one whose gradients the message carries or has turned into a
 * version. PSI_OP_NONE: none. */
typedef struct
{
  PsiOpId op;
  gint step;
} PsiHopOp;

typedef struct _PsiHop PsiHop;
struct _PsiHop
{
  PsiStepRank *from, *to;
  guint from_worker, to_worker;
  guint what; /* tells channels of a pair apart, in steps of PSI_HOP_WHATS */
  guint part;
  gint64 bytes;
  PsiTraffic traffic;
  guint stream_out, stream_in;
  gint64 pass_ps;          /* virtual, when it passes, from the start of the step whose gradients it is about */
  PsiHopOp after_from;     /* of the sender: it waits for that ... */
  const PsiHop *after_hop; /* ... and for what that one brought to the sender */
  PsiHopOp after_to;       /* of the receiver: it waits for that */
  PsiHopOp before;         /* of the receiver: that waits for it */
  gboolean takes_memory;   /* received bytes are new on the receiver ... */
  gboolean leaves_copy;    /* ... and stay on the sender, else they go with the message */
  gint from_memory_step, to_memory_step; /* the steps of both sides whose memory the bytes belong to */
  PsiMemoryClass memory_class;

  /* By psi_hops_write(). */
  guint serial;
  gint sent, received;               /* iterations of either side in which it passes, counted as steps are above */
  gint64 sent_at_ps, received_at_ps; /* within them, virtual */
  PsiOpId arrival;                   /* its receive */
};

#define PSI_HOP_WHATS 4

/* A hop without ops to wait for, appended to an array of hops (owned by it). */
PsiHop *psi_hop_add (GPtrArray *hops, PsiStepRank *from, guint from_worker, PsiStepRank *to, guint to_worker);
/* Append the sends and receives of all hops to the streams of the ranks. A hop's after_hop stands before it. */
void psi_hops_write (PsiStep *step, GPtrArray *hops);
