/* SPDX-License-Identifier: MIT */
#include "in-file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_NESTED 64
#define BLOCK_BYTES 65536

static gboolean
fail (GError **error, int number)
{
  g_set_error_literal (error, G_FILE_ERROR, g_file_error_from_errno (number), g_strerror (number));
  return FALSE;
}

gboolean
psi_in_file_read (const char *path, gsize most_bytes, char **ret_text, gsize *ret_length, GError **error)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  guint8 block[BLOCK_BYTES];
  struct stat status;
  gssize n = 0;
  /* Opening a pipe would wait for a writer; once it is open, reading waits for what a writer has to say. */
  int fd = open (path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

  if (fd < 0)
    return fail (error, errno);
  if (fstat (fd, &status) == 0 && S_ISDIR (status.st_mode))
    {
      close (fd);
      return fail (error, EISDIR);
    }
  fcntl (fd, F_SETFL, fcntl (fd, F_GETFL) & ~O_NONBLOCK);
  while (bytes->len <= most_bytes && ((n = read (fd, block, sizeof block)) > 0 || (n < 0 && errno == EINTR)))
    if (n > 0)
      g_byte_array_append (bytes, block, (guint) n);
  int fault = n < 0 ? errno : 0;
  close (fd);
  if (fault != 0)
    return fail (error, fault);
  if (bytes->len > most_bytes)
    {
      g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "larger than %" G_GSIZE_FORMAT " MiB", most_bytes >> 20);
      return FALSE;
    }
  if (ret_length != NULL)
    *ret_length = bytes->len;
  g_byte_array_append (bytes, (const guint8 *) "", 1);
  *ret_text = (char *) g_byte_array_free (g_steal_pointer (&bytes), FALSE);
  return TRUE;
}

gboolean
psi_in_file_parse_json (JsonParser *parser, const char *text, gssize length, GError **error)
{
  gsize end = length < 0 ? strlen (text) : (gsize) length;
  guint depth = 0, line = 1;
  gboolean quoted = FALSE;

  for (gsize i = 0; i < end; i++)
    {
      char c = text[i];

      line += c == '\n';
      if (quoted && c == '\\')
        i++;
      else if (c == '"')
        quoted = !quoted;
      else if (!quoted && (c == '}' || c == ']') && depth > 0)
        depth--;
      else if (!quoted && (c == '{' || c == '[') && ++depth > MOST_NESTED)
        {
          g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE,
                       "<data>:%u:1: brackets inside more than %u others", line, MOST_NESTED);
          return FALSE;
        }
    }
  return json_parser_load_from_data (parser, text, length, error);
}

JsonObject *
psi_json_member_object (JsonObject *object, const char *key)
{
  JsonNode *node = json_object_get_member (object, key);

  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}
