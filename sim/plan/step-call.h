/* SPDX-License-Identifier: MIT */
/* Calls: what the ops that leave a GPU say to the engine. step-place.c says where they lead, step-call.c makes them. */
#pragma once

#include "step.h"

typedef enum
{
  PSI_CALL_COLLECTIVE,
  PSI_CALL_COPIES,
  PSI_CALL_SERVER,
  PSI_CALL_WORKER,
  PSI_CALL_SERVE,
  PSI_CALL_SEND,
  PSI_CALL_RECEIVE
} PsiCallKind;

/* The same key means the same call for every rank of a list: groups and partners follow from the rank's place. */
typedef struct
{
  gint64 bytes;
  guint32 kind, stream;
  guint32 what;  /* collective, copies: op; server, worker: outward; message: what */
  guint32 index; /* collective: dimension; copies: part; message: index */
  guint32 other; /* message: list of the other rank, of the same class */
  guint32 traffic;
} PsiCallKey;

/* Where a call of a rank leads. */
typedef struct
{
  PsiPortId port;
  PsiTransferId transfer; /* serve: 0 */
  PsiRoute route;
  const PsiStepRank *server; /* worker: the other end, and how the bytes get there */
  PsiRoute server_route;
  PsiTime alone_ps; /* collective */
} PsiCallTarget;

typedef struct
{
  gboolean (*target) (PsiStep *step, PsiStepRank *rank, const PsiCallKey *call, PsiCallTarget *ret_target);
  PsiOpKind kind;
} PsiCallRow;

/* By PsiCallKind. `target`: the port and transfer of a call, found or made; FALSE, and nothing is made: there is nobody
 * to call. */
extern const PsiCallRow psi_call_rows[];
