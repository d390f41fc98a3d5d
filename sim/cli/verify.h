/* SPDX-License-Identifier: MIT */
/* Does the simulator, fed with a profile of these cores, foretell what training on them really does? */
#pragma once

#include "profile.h"

/* One plan, predicted and trained. */
typedef struct
{
  const char *plan;
  double predicted_cpu_s, measured_cpu_s;   /* CPU time of the busiest process, per step */
  double predicted_step_s, measured_step_s; /* wall time of a step */
  gint64 predicted_bytes, measured_bytes;   /* tensors at the peak, of the process with the most */
  char *parameters_sha, *reference_sha; /* SHA-256 after the last step; reference: one process, without a schedule */
  gboolean quiet;                       /* nothing else ran: wall time counts too */
} PsiVerification;

/* Train and predict every plan of the check on the host whose `profile` lies in `profile_file`. Returns (transfer full)
 * an array of PsiVerification that frees its elements. */
GArray *psi_verify (const PsiProfile *profile, const char *profile_file, GError **error);

/* What is out of bounds, one line, or NULL if nothing is. (transfer full) */
char *psi_verification_fault (const PsiVerification *row);

/* Largest of CPU time error and memory error, each relative to what is allowed: the smaller, the better. */
double psi_verification_score (const PsiVerification *row);

/* {"verify": [...]} and a line feed; the table. `rows` may be empty. (transfer full) */
char *psi_verify_to_json (const GArray *rows);
char *psi_verify_to_table (const GArray *rows);
