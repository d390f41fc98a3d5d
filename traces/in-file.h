/* SPDX-License-Identifier: MIT */
/* Files that people hand us, read with bounds: /dev/zero has no end, and a million brackets would overflow the stack of
 * a parser that calls itself for each. */
#pragma once

#include <json-glib/json-glib.h>

#define PSI_IN_FILE_MOST_TEXT_BYTES (64u << 20) /* logs, tables, schedules */
#define PSI_IN_FILE_MOST_JSON_BYTES (16u << 20) /* a tree takes up to a hundred times the memory of its text */

/* All of a file, a pipe or a terminal, with a NUL behind its last byte. A pipe that nobody writes to is empty.
 * (transfer full) *ret_text; `ret_length` may be NULL. Errors: G_FILE_ERROR, the message without the path: "No such
 * file or directory", "larger than 16 MiB". */
gboolean psi_in_file_read (const char *path, gsize most_bytes, char **ret_text, gsize *ret_length, GError **error);

/* Like json_parser_load_from_data(), but refuses what is nested deeper than any file of ours. `length` < 0: up to the
 * NUL. Errors: those of the parser. */
gboolean psi_in_file_parse_json (JsonParser *parser, const char *text, gssize length, GError **error);

/* The object that a member is, NULL if it is none or absent. */
JsonObject *psi_json_member_object (JsonObject *object, const char *key);
