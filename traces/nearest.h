/* SPDX-License-Identifier: MIT */
/* "did you mean": the name somebody probably meant to type. */
#pragma once

#include <glib.h>

/* The nearest of a NULL-ended list by edit distance (insert, delete, replace, swap two neighbours; case and '-' against
 * '_' do not count), or NULL if none is near: more than a third of the word would have to change. A word that is
 * the beginning of exactly one candidate means that one. Returns (transfer none) an element of the list. */
const char *psi_nearest (const char *word, const char *const *candidates);
