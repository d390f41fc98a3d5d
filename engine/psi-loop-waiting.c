/* SPDX-License-Identifier: MIT */
/* What a deadlock looks like. */
#include "psi-loop.h"

char *
psi_loop_describe_waiting (const PsiLoop *loop)
{
  GString *text = g_string_new ("deadlock: ");
  static const char *const partners[] = {
    [PSI_OP_SEND] = "send", [PSI_OP_RECV] = "receive", [PSI_OP_COLLECTIVE] = "collective", [PSI_OP_SERVE] = "turn"
  };
  guint shown = 0;

  for (guint32 i = 0; i < loop->n_streams && shown < 4; i++)
    {
      const PsiStream *stream = &loop->streams[i];

      if (stream->state != PSI_HEAD_BLOCKED && stream->state != PSI_HEAD_POSTED)
        continue;
      g_string_append_printf (text, "%srank %u stream %u op %u (step %u)", shown > 0 ? "; " : "", loop->details[i].rank,
                              stream->index, stream->position, stream->iteration);
      if (stream->state == PSI_HEAD_POSTED)
        g_string_append_printf (text, " waits for its partner in a %s", partners[stream->ops[stream->position].kind]);
      else
        for (guint32 j = loop->first_stream[loop->details[i].rank]; j < loop->first_stream[loop->details[i].rank + 1];
             j++)
          if (stream->index < PSI_LOOP_FAR ? loop->streams[j].waiters >> stream->index & 1
                                           : loop->details[i].blocked_on == j)
            g_string_append_printf (text, " waits for stream %u", loop->streams[j].index);
      shown++;
    }
  for (guint32 i = 0; i < loop->n_streams && shown < 4; i++)
    if (loop->streams[i].state == PSI_HEAD_BUSY)
      {
        g_string_append_printf (text,
                                "%srank %u stream %u op %u (step %u) waits for bytes on a link that carries nothing",
                                shown > 0 ? "; " : "", loop->details[i].rank, loop->streams[i].index,
                                loop->streams[i].position, loop->streams[i].iteration);
        shown++;
      }
  return g_string_free (text, FALSE);
}
