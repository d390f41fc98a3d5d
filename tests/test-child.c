/* SPDX-License-Identifier: MIT */
/* Programs that psisim starts: what they read, and that they need not. */
#include "child.h"

/* Both ways through a program that copies its input, and the word of one that refuses before it reads any. */
static void
test_input (void)
{
  const char *const copies[] = { "cat", NULL }, *const refuses[] = { "sh", "-c", "echo no >&2; exit 3", NULL };
  g_autofree char *input = g_strnfill (1 << 20, 'x');
  g_autofree char *output = NULL, *errors = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GSubprocess) copier = psi_child_new (copies, G_SUBPROCESS_FLAGS_STDOUT_PIPE, input, &error);

  g_assert_no_error (error);
  g_assert_true (g_subprocess_communicate_utf8 (copier, NULL, NULL, &output, NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpstr (output, ==, input);
  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GSubprocess) refuser = psi_child_new (refuses, G_SUBPROCESS_FLAGS_STDERR_PIPE, input, &error);

      g_clear_pointer (&errors, g_free);
      g_assert_true (g_subprocess_communicate_utf8 (refuser, NULL, NULL, NULL, &errors, &error));
      g_assert_no_error (error);
      g_assert_cmpstr (errors, ==, "no\n");
      g_assert_cmpint (g_subprocess_get_exit_status (refuser), ==, 3);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cli/child/input", test_input);
  return g_test_run ();
}
