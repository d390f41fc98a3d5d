/* SPDX-License-Identifier: MIT */
/* Numbers and strings are put straight into the file's buffer: a million events take well under a second. */
#include "timeline.h"

#include "out-file.h"

struct _PsiTimeline
{
  PsiOutFile *file;
  gboolean has_events;
};

static inline void
put_bytes (PsiTimeline *timeline, const char *bytes, gsize length)
{
  psi_out_file_put (timeline->file, bytes, length);
}

#define PUT(timeline, literal) put_bytes (timeline, literal, sizeof (literal) - 1)

static void
put_unsigned (PsiTimeline *timeline, guint64 value)
{
  char digits[24];
  guint at = sizeof digits;

  do
    digits[--at] = (char) ('0' + value % 10);
  while ((value /= 10) > 0);
  put_bytes (timeline, digits + at, sizeof digits - at);
}

static void
put_number (PsiTimeline *timeline, gint64 value)
{
  if (value < 0)
    PUT (timeline, "-");
  put_unsigned (timeline, value < 0 ? 0 - (guint64) value : (guint64) value);
}

static gint64
whole_ns (gint64 time_ps)
{
  return time_ps / 1000 - (time_ps % 1000 < 0);
}

static void
put_us (PsiTimeline *timeline, gint64 time_ns)
{
  guint64 size = time_ns < 0 ? 0 - (guint64) time_ns : (guint64) time_ns;
  guint rest = (guint) (size % 1000);
  const char decimals[] = { '.', (char) ('0' + rest / 100), (char) ('0' + rest / 10 % 10), (char) ('0' + rest % 10) };

  if (time_ns < 0)
    PUT (timeline, "-");
  put_unsigned (timeline, size / 1000);
  if (rest > 0)
    put_bytes (timeline, decimals, sizeof decimals);
}

static void
put_text (PsiTimeline *timeline, const char *text)
{
  g_autofree char *valid = NULL;
  const char *plain = text;

  if (!g_utf8_validate (text, -1, NULL))
    plain = text = valid = g_utf8_make_valid (text, -1);
  PUT (timeline, "\"");
  for (; *text != '\0'; text++)
    {
      char escape[8];

      if (*text != '"' && *text != '\\' && (guchar) *text >= 0x20 && *text != 0x7f)
        continue;
      put_bytes (timeline, plain, (gsize) (text - plain));
      put_bytes (timeline, escape, (gsize) g_snprintf (escape, sizeof escape, "\\u%04x", (guint) (guchar) *text));
      plain = text + 1;
    }
  put_bytes (timeline, plain, (gsize) (text - plain));
  PUT (timeline, "\"");
}

static void
put_values (PsiTimeline *timeline, const PsiTimelineValue *values, guint n_values)
{
  PUT (timeline, ",\"args\":{");
  for (guint i = 0; i < n_values; i++)
    {
      if (i > 0)
        PUT (timeline, ",");
      put_text (timeline, values[i].name);
      PUT (timeline, ":");
      if (values[i].text != NULL)
        put_text (timeline, values[i].text);
      else
        put_number (timeline, values[i].number);
    }
  PUT (timeline, "}");
}

/* {"ph":"X","pid":0,"tid":1 */
static void
begin_event (PsiTimeline *timeline, const char *phase, guint process)
{
  if (timeline->has_events)
    PUT (timeline, ",\n");
  timeline->has_events = TRUE;
  PUT (timeline, "{\"ph\":\"");
  put_bytes (timeline, phase, 1);
  PUT (timeline, "\",\"pid\":");
  put_unsigned (timeline, process);
}

static void
put_track (PsiTimeline *timeline, guint track)
{
  PUT (timeline, ",\"tid\":");
  put_unsigned (timeline, track);
}

static void
put_name (PsiTimeline *timeline, const char *name)
{
  PUT (timeline, ",\"name\":");
  put_text (timeline, name);
}

static void
put_time (PsiTimeline *timeline, gint64 time_ps)
{
  PUT (timeline, ",\"ts\":");
  put_us (timeline, whole_ns (time_ps));
}

PsiTimeline *
psi_timeline_open (const char *path, GError **error)
{
  PsiOutFile *file = psi_out_file_open (path, error);

  if (file == NULL)
    return NULL;
  PsiTimeline *timeline = g_new0 (PsiTimeline, 1);
  timeline->file = file;
  PUT (timeline, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  return timeline;
}

void
psi_timeline_abandon (PsiTimeline *timeline)
{
  if (timeline != NULL)
    psi_out_file_abandon (timeline->file);
  g_free (timeline);
}

gboolean
psi_timeline_close (PsiTimeline *timeline, GError **error)
{
  PUT (timeline, "\n]}\n");
  PsiOutFile *file = g_steal_pointer (&timeline->file);
  psi_timeline_abandon (timeline);
  return psi_out_file_close (file, error);
}

static void
put_metadata (PsiTimeline *timeline, guint process, const guint *track, const char *kind, const PsiTimelineValue *value)
{
  begin_event (timeline, "M", process);
  if (track != NULL)
    put_track (timeline, *track);
  put_name (timeline, kind);
  put_values (timeline, value, 1);
  PUT (timeline, "}");
}

void
psi_timeline_process (PsiTimeline *timeline, guint process, const char *name, guint order)
{
  const PsiTimelineValue called = { "name", name, 0 }, sorted = { "sort_index", NULL, order };

  put_metadata (timeline, process, NULL, "process_name", &called);
  put_metadata (timeline, process, NULL, "process_sort_index", &sorted);
}

void
psi_timeline_track (PsiTimeline *timeline, guint process, guint track, const char *name, guint order)
{
  const PsiTimelineValue called = { "name", name, 0 }, sorted = { "sort_index", NULL, order };

  put_metadata (timeline, process, &track, "thread_name", &called);
  put_metadata (timeline, process, &track, "thread_sort_index", &sorted);
}

void
psi_timeline_slice (PsiTimeline *timeline, guint process, guint track, gint64 start_ps, gint64 end_ps, const char *name,
                    const char *category, const PsiTimelineValue *values, guint n_values)
{
  begin_event (timeline, "X", process);
  put_track (timeline, track);
  put_time (timeline, start_ps);
  PUT (timeline, ",\"dur\":");
  put_us (timeline, whole_ns (end_ps) - whole_ns (start_ps));
  put_name (timeline, name);
  PUT (timeline, ",\"cat\":");
  put_text (timeline, category);
  if (n_values > 0)
    put_values (timeline, values, n_values);
  PUT (timeline, "}");
}

void
psi_timeline_counter (PsiTimeline *timeline, guint process, const char *name, gint64 time_ps,
                      const PsiTimelineValue *values, guint n_values)
{
  begin_event (timeline, "C", process);
  put_time (timeline, time_ps);
  put_name (timeline, name);
  put_values (timeline, values, n_values);
  PUT (timeline, "}");
}

void
psi_timeline_arrow (PsiTimeline *timeline, guint process, guint track, gint64 time_ps, gboolean head, guint64 id,
                    const char *name)
{
  begin_event (timeline, head ? "f" : "s", process);
  put_track (timeline, track);
  put_time (timeline, time_ps);
  put_name (timeline, name);
  PUT (timeline, ",\"cat\":\"message\",\"id\":");
  put_unsigned (timeline, id);
  if (head)
    PUT (timeline, ",\"bp\":\"e\"");
  PUT (timeline, "}");
}
