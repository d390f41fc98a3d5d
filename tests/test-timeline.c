/* SPDX-License-Identifier: MIT */
/* Timeline files to the byte, read back by a JSON parser, and what goes wrong while writing. */
#include "out-file.h"
#include "timeline.h"

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <string.h>
#include <sys/stat.h>

#define MS G_GINT64_CONSTANT (1000000000)

typedef struct
{
  char *directory, *path;
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer unused)
{
  fixture->directory = g_dir_make_tmp ("psi-timeline-XXXXXX", NULL);
  fixture->path = g_build_filename (fixture->directory, "a.json", NULL);
}

static guint
count_files (const char *directory)
{
  g_autoptr (GDir) dir = g_dir_open (directory, 0, NULL);
  guint n = 0;

  while (g_dir_read_name (dir) != NULL)
    n++;
  return n;
}

static void
tear_down (Fixture *fixture, gconstpointer unused)
{
  g_unlink (fixture->path);
  g_rmdir (fixture->directory);
  g_free (fixture->path);
  g_free (fixture->directory);
}

static void
test_bytes (Fixture *fixture, gconstpointer unused)
{
  const PsiTimelineValue values[] = { { "micro_batch", NULL, -3 }, { "note", "a\"b\\\n\xff", 0 } };
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;
  PsiTimeline *timeline = psi_timeline_open (fixture->path, &error);

  g_assert_no_error (error);
  psi_timeline_process (timeline, 2, "rank 0", 5);
  psi_timeline_track (timeline, 2, 1, "compute", 0);
  psi_timeline_slice (timeline, 2, 1, 1999, MS + 999, "F0", "forward", values, 2);
  psi_timeline_slice (timeline, 2, 1, -1500, 0, "cut", "forward", NULL, 0);
  psi_timeline_counter (timeline, 2, "memory", 2 * MS, values, 1);
  psi_timeline_arrow (timeline, 2, 1, 0, FALSE, 7, "message");
  psi_timeline_arrow (timeline, 3, 1, 1000, TRUE, 7, "message");
  /* Nothing is in place before the end. */
  g_assert_false (g_file_test (fixture->path, G_FILE_TEST_EXISTS));
  g_assert_true (psi_timeline_close (timeline, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (count_files (fixture->directory), ==, 1);

  g_assert_true (g_file_get_contents (fixture->path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_assert_cmpstr (lines[0], ==, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  g_assert_cmpstr (lines[1], ==, "{\"ph\":\"M\",\"pid\":2,\"name\":\"process_name\",\"args\":{\"name\":\"rank 0\"}},");
  /* Both ends rounded down to whole nanoseconds. */
  g_assert_cmpstr (lines[5], ==,
                   "{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":0.001,\"dur\":999.999,\"name\":\"F0\",\"cat\":\"forward\","
                   "\"args\":{\"micro_batch\":-3,\"note\":\"a\\u0022b\\u005c\\u000a\xef\xbf\xbd\"}},");
  g_assert_cmpstr (
      lines[6], ==,
      "{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":-0.002,\"dur\":0.002,\"name\":\"cut\",\"cat\":\"forward\"},");
  g_assert_cmpstr (lines[7], ==,
                   "{\"ph\":\"C\",\"pid\":2,\"ts\":2000,\"name\":\"memory\",\"args\":{\"micro_batch\":-3}},");
  g_assert_cmpstr (lines[9], ==,
                   "{\"ph\":\"f\",\"pid\":3,\"tid\":1,\"ts\":0.001,\"name\":\"message\",\"cat\":\"message\",\"id\":7,"
                   "\"bp\":\"e\"}");
  g_assert_cmpstr (lines[10], ==, "]}");
}

/* More than one buffer, read by a real parser. */
static void
test_many (Fixture *fixture, gconstpointer unused)
{
  enum
  {
    N = 20000
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (JsonParser) parser = json_parser_new ();
  PsiTimeline *timeline = psi_timeline_open (fixture->path, &error);

  g_assert_no_error (error);
  for (guint i = 0; i < N; i++)
    psi_timeline_slice (timeline, 1 + i % 7, 1, i * MS, (i + 1) * MS, "F", "forward", NULL, 0);
  g_assert_true (psi_timeline_close (timeline, &error));
  g_assert_true (json_parser_load_from_file (parser, fixture->path, &error));
  g_assert_no_error (error);
  JsonArray *events =
      json_object_get_array_member (json_node_get_object (json_parser_get_root (parser)), "traceEvents");
  g_assert_cmpuint (json_array_get_length (events), ==, N);
  JsonObject *last = json_array_get_object_element (events, N - 1);
  g_assert_cmpfloat (json_object_get_double_member (last, "ts"), ==, (N - 1) * 1000.0);
  g_assert_cmpint (json_object_get_int_member (last, "pid"), ==, 1 + (N - 1) % 7);
}

static void
test_abandoned (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (PsiTimeline) timeline = psi_timeline_open (fixture->path, NULL);

  g_assert_nonnull (timeline);
  psi_timeline_abandon (g_steal_pointer (&timeline));
  g_assert_cmpuint (count_files (fixture->directory), ==, 0);
}

static void
test_cannot_open (Fixture *fixture, gconstpointer unused)
{
  g_autofree char *path = g_build_filename (fixture->directory, "no", "a.json", NULL);
  g_autofree char *wanted = g_strdup_printf ("cannot write '%s': No such file or directory", path);
  g_autoptr (GError) error = NULL;

  g_assert_null (psi_timeline_open (path, &error));
  g_assert_error (error, PSI_OUT_FILE_ERROR, PSI_OUT_FILE_ERROR_WRITE);
  g_assert_cmpstr (error->message, ==, wanted);
}

/* A full disk is an error, and a device stays a device. */
static void
test_full (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  GStatBuf status;

  if (g_stat ("/dev/full", &status) != 0 || !S_ISCHR (status.st_mode))
    {
      g_test_skip ("there is no /dev/full");
      return;
    }
  g_assert_false (psi_out_file_write ("/dev/full", "text", 4, &error));
  g_assert_error (error, PSI_OUT_FILE_ERROR, PSI_OUT_FILE_ERROR_WRITE);
  g_assert_cmpstr (error->message, ==, "cannot write '/dev/full': No space left on device");
  g_assert_cmpint (g_stat ("/dev/full", &status), ==, 0);
  g_assert_true (S_ISCHR (status.st_mode));
}

/* A file that was there is replaced as a whole; its permissions follow the umask. */
static void
test_replaced (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;
  g_autofree char *large = g_strnfill (1 << 20, 'x');

  g_assert_true (psi_out_file_write (fixture->path, large, 1 << 20, &error));
  g_assert_true (psi_out_file_write (fixture->path, "short", 5, &error));
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (fixture->path, &text, NULL, NULL));
  g_assert_cmpstr (text, ==, "short");
  g_assert_cmpuint (count_files (fixture->directory), ==, 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, function) g_test_add (path, Fixture, NULL, set_up, function, tear_down)
  ADD ("/traces/timeline/bytes", test_bytes);
  ADD ("/traces/timeline/many", test_many);
  ADD ("/traces/timeline/abandoned", test_abandoned);
  ADD ("/traces/timeline/cannot-open", test_cannot_open);
  ADD ("/traces/out-file/full", test_full);
  ADD ("/traces/out-file/replaced", test_replaced);
#undef ADD
  return g_test_run ();
}
