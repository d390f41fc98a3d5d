/* SPDX-License-Identifier: MIT */
/* Turns at desks. */
#pragma once

#include "psi-loop-state.h"

/* The head op of a stream waits. */
void psi_desk_post (PsiLoop *loop, guint32 index, PsiTime now_ps);
/* The next in turn begins, or its turn is over; its stream is returned. */
guint32 psi_desk_begin (PsiLoop *loop, PsiPortId id, PsiTime now_ps);
guint32 psi_desk_over (PsiLoop *loop, PsiPortId id, PsiTime now_ps);
