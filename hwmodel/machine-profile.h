/* SPDX-License-Identifier: MIT */
/* A measured profile as a machine; for machine.c and whoever compares a profile with the datasheet. */
#pragma once

#include "machine.h"
#include "profile.h"

/* What bench-host calls its device: the preset `host` stands for it. */
#define PSI_PROFILE_CPU "CPU core"

/* The preset of the GPU that the profile was measured on, by its name ("NVIDIA H200"); NULL if there is none.
 * (transfer full) */
PsiMachine *psi_profile_datasheet (const PsiProfile *profile);

/* Read a profile and lay it over the machine of its GPU. The description is the caller's to make. (transfer full) */
PsiMachine *psi_machine_from_profile (const char *path, GError **error);

/* Lay a profile over a machine, which owns it from then on: what was measured takes the place of the figures. */
void psi_machine_take_profile (PsiMachine *machine, PsiProfile *profile);
