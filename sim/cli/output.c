/* SPDX-License-Identifier: MIT */
/* How a command speaks: its result to stdout, all at once, and everything else to stderr, one line each. */
#include "commands.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Names of files and values of flags may hold anything; a message is one line of printable UTF-8. */
static void
print_line (const char *prefix, const char *message)
{
  g_autofree char *valid = g_utf8_make_valid (message, -1);
  GString *line = g_string_new (prefix);

  for (const char *p = valid; *p != '\0'; p = g_utf8_next_char (p))
    g_string_append_unichar (line, g_unichar_iscntrl (g_utf8_get_char (p)) ? '?' : g_utf8_get_char (p));
  g_string_append_c (line, '\n');
  fputs (line->str, stderr);
  g_string_free (line, TRUE);
}

int
psi_output_write (const char *text)
{
  gsize length = strlen (text);

  if (fwrite (text, 1, length, stdout) == length && fflush (stdout) == 0)
    return 0;
  /* Whoever closed the pipe, as `head` does, has what it wanted and needs no message. */
  if (errno != EPIPE)
    {
      g_autofree char *message = g_strdup_printf ("cannot write the result: %s", g_strerror (errno));

      print_line ("psisim: ", message);
    }
  return 1;
}

void
psi_append_json_number (GString *out, const char *key, double value)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append_printf (out, ", \"%s\": %s", key,
                          isfinite (value) ? g_ascii_formatd (number, sizeof number, "%.9g", value) : "null");
}

int
psi_fail (const GError *error)
{
  print_line ("psisim: ", error->message);
  return error->domain == PSI_USAGE_ERROR || g_str_has_prefix (error->message, "--") ? 2 : 1;
}

void
psi_warn (const PsiArguments *arguments, const char *message)
{
  if (!arguments->given[PSI_OPTION_QUIET])
    print_line ("psisim: warning: ", message);
}

/* ---- Progress ---- */

static struct
{
  GThread *thread;
  GMutex mutex;
  GCond cond;
  gboolean over;
  char *what;
} progress;

static gpointer
show_progress (gpointer unused)
{
  gboolean shown = FALSE;
  gint64 start_us = g_get_monotonic_time ();

  g_mutex_lock (&progress.mutex);
  while (!progress.over)
    if (!g_cond_wait_until (&progress.cond, &progress.mutex, g_get_monotonic_time () + G_USEC_PER_SEC) &&
        !progress.over)
      {
        fprintf (stderr, "\r\033[Kpsisim: %s, %d s", progress.what,
                 (int) ((g_get_monotonic_time () - start_us) / G_USEC_PER_SEC));
        fflush (stderr);
        shown = TRUE;
      }
  g_mutex_unlock (&progress.mutex);
  if (shown)
    fputs ("\r\033[K", stderr);
  return NULL;
}

void
psi_progress_begin (const PsiArguments *arguments, const char *what)
{
  if (arguments->given[PSI_OPTION_QUIET] || !isatty (STDERR_FILENO))
    return;
  g_assert (progress.thread == NULL);
  progress.over = FALSE;
  progress.what = g_strdup (what);
  progress.thread = g_thread_new ("progress", show_progress, NULL);
}

void
psi_progress_end (void)
{
  if (progress.thread == NULL)
    return;
  g_mutex_lock (&progress.mutex);
  progress.over = TRUE;
  g_cond_signal (&progress.cond);
  g_mutex_unlock (&progress.mutex);
  g_thread_join (g_steal_pointer (&progress.thread));
  g_clear_pointer (&progress.what, g_free);
}
