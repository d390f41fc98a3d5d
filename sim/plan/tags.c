/* SPDX-License-Identifier: MIT */
/* The words behind the enums of tags.h. They are keys of the JSON report, so changing one changes the contract. */
#include "tags.h"

const char *const psi_memory_class_names[PSI_N_MEMORY] = {
  [PSI_MEMORY_PARAMETERS] = "parameters",       [PSI_MEMORY_GRADIENTS] = "gradients",
  [PSI_MEMORY_OPTIMIZER] = "optimizer",         [PSI_MEMORY_ACTIVATIONS] = "activations",
  [PSI_MEMORY_BOUNDARY] = "boundary",           [PSI_MEMORY_WORKSPACE] = "workspace",
  [PSI_MEMORY_COMMUNICATION] = "communication",
};

const char *const psi_time_part_names[PSI_N_TIME] = {
  [PSI_TIME_COMPUTE] = "compute", [PSI_TIME_RECOMPUTE] = "recompute", [PSI_TIME_EXPOSED_COMM] = "exposed_comm",
  [PSI_TIME_BUBBLE] = "bubble",   [PSI_TIME_OPTIMIZER] = "optimizer", [PSI_TIME_OTHER] = "other",
};

const char *const psi_traffic_names[PSI_N_TRAFFIC] = {
  [PSI_TRAFFIC_GRADIENTS] = "gradients", [PSI_TRAFFIC_PARAMETERS] = "parameters", [PSI_TRAFFIC_BOUNDARY] = "boundary",
  [PSI_TRAFFIC_TENSOR] = "tensor",       [PSI_TRAFFIC_CONTEXT] = "context",       [PSI_TRAFFIC_EXPERTS] = "experts",
};

const char *const psi_span_names[PSI_N_SPAN] = {
  [PSI_SPAN_FORWARD] = "forward",     [PSI_SPAN_BACKWARD] = "backward",   [PSI_SPAN_WEIGHT] = "weight",
  [PSI_SPAN_RECOMPUTE] = "recompute", [PSI_SPAN_OPTIMIZER] = "optimizer", [PSI_SPAN_COMMUNICATION] = "communication",
};
