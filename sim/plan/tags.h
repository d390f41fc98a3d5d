/* SPDX-License-Identifier: MIT */
/* The words for what memory holds, where time goes, and what travels. One order everywhere: tables, colours, JSON. */
#pragma once

#include <glib.h>

/* What memory is made of. The order is the order of columns and colours everywhere. */
typedef enum
{
  PSI_MEMORY_PARAMETERS,
  PSI_MEMORY_GRADIENTS,
  PSI_MEMORY_OPTIMIZER,
  PSI_MEMORY_ACTIVATIONS,
  PSI_MEMORY_BOUNDARY,
  PSI_MEMORY_WORKSPACE,
  PSI_MEMORY_COMMUNICATION,
  PSI_N_MEMORY
} PsiMemoryClass;
extern const char *const psi_memory_class_names[PSI_N_MEMORY]; /* "parameters", ... */

typedef enum
{
  PSI_TIME_COMPUTE,
  PSI_TIME_RECOMPUTE,
  PSI_TIME_EXPOSED_COMM,
  PSI_TIME_BUBBLE,
  PSI_TIME_OPTIMIZER,
  PSI_TIME_OTHER,
  PSI_N_TIME
} PsiTimePart;
extern const char *const psi_time_part_names[PSI_N_TIME]; /* "compute", ... */

/* Kinds of traffic, for communication.by_kind and time_detail. */
typedef enum
{
  PSI_TRAFFIC_GRADIENTS,
  PSI_TRAFFIC_PARAMETERS,
  PSI_TRAFFIC_BOUNDARY,
  PSI_TRAFFIC_TENSOR,
  PSI_TRAFFIC_CONTEXT,
  PSI_TRAFFIC_EXPERTS,
  PSI_N_TRAFFIC
} PsiTraffic;
extern const char *const psi_traffic_names[PSI_N_TRAFFIC];

/* One piece of work in a rank's step, for Gantt charts. Times count from the start of the drawn window. */
typedef enum
{
  PSI_SPAN_FORWARD,
  PSI_SPAN_BACKWARD, /* whole backward or its input half */
  PSI_SPAN_WEIGHT,   /* weight half of a split backward */
  PSI_SPAN_RECOMPUTE,
  PSI_SPAN_OPTIMIZER,
  PSI_SPAN_COMMUNICATION,
  PSI_N_SPAN
} PsiSpanKind;
extern const char *const psi_span_names[PSI_N_SPAN];
