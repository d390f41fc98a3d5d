/* SPDX-License-Identifier: MIT */
#include "framework-memory.h"
#include "keys.h"

#include <string.h>

/* The choices of the key and the rows of the table are the same words. */
static void
test_names (void)
{
  g_auto (GStrv) words = g_strsplit (psi_keys[PSI_KEY_FRAMEWORK].choices, " ", -1);
  guint n = 0;

  for (; psi_frameworks[n].name != NULL; n++)
    {
      g_assert_true (g_strv_contains ((const char *const *) words, psi_frameworks[n].name));
      g_assert_true (psi_framework_find (psi_frameworks[n].name) == &psi_frameworks[n]);
      g_assert_cmpuint (strlen (psi_frameworks[n].summary), <=, 90);
      g_assert_cmpfloat (psi_frameworks[n].host_low, >, 0);
      g_assert_cmpfloat (psi_frameworks[n].host_low, <=, 1);
      g_assert_cmpfloat (psi_frameworks[n].host_high, >=, 1);
    }
  g_assert_cmpuint (n, ==, g_strv_length (words));
  g_assert_null (psi_framework_find ("caffe"));
}

static void
test_guess (void)
{
  static const struct
  {
    const char *text, *name;
  } cases[] = { { "Megatron-DeepSpeed", "megatron-deepspeed" },
                { "Megatron-DeepSpeed bigscience-a100 tied embeddings", "bigscience" },
                { "Megatron-LM", "megatron" },
                { "Megatron-LM 2021-05", "megatron-2.1" },
                { "Megatron-LM narayanan21 defaults of Megatron-LM 2021", "megatron-2021" },
                { "DeepSpeed ZeRO-3 (+Megatron-LM model) Megatron-LM 2021 defaults", "deepspeed-2021" },
                { "Megatron-Bridge / Megatron-Core", "megatron-bridge" },
                { "megatron-core (dev container)", "megatron-core" },
                { "Aleph Alpha internal (Megatron-like)", "megatron-eager" },
                { "Aleph Alpha internal (Megatron-like) kernel: flash_attention2 + RMS kernel", "megatron-eager-rms" },
                { "torchtitan (FSDP2)", "torchtitan" },
                { "torchtitan (FSDP2) torch.compile; AsyncTP", "torchtitan-async-tp" },
                { "torchtitan (FSDP2) seq_len 8192 from train_configs/llama3_8b.toml", "torchtitan-2024" },
                { "llm-foundry/Composer FSDP1 + flash attention", "composer" },
                { "OneFlow 2021-05", "oneflow" },
                { "PyTorch FSDP1", "pytorch" } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_assert_cmpstr (psi_framework_guess (cases[i].text)->name, ==, cases[i].name);
  g_assert_null (psi_framework_guess ("my own loop"));
}

/* Each has a row of its own or, if it says so, that of another which has one. */
static void
test_memory (void)
{
  for (guint i = 0; psi_frameworks[i].name != NULL; i++)
    {
      const PsiFramework *framework = &psi_frameworks[i];
      const char *shared = framework->memory;

      g_assert_cmpstr (psi_framework_memory (framework)->name, ==, shared != NULL ? shared : framework->name);
      g_assert_true (shared == NULL || psi_framework_find (shared)->megatron == framework->megatron);
    }
  g_assert_cmpstr (psi_framework_memory (NULL)->name, ==, "pytorch");
  g_assert_true (psi_framework_memory_of_base (TRUE) == psi_framework_memory (psi_framework_find ("megatron")));
  g_assert_true (psi_framework_memory_of_base (FALSE) == psi_framework_memory (NULL));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/workload/framework/names", test_names);
  g_test_add_func ("/workload/framework/guess", test_guess);
  g_test_add_func ("/workload/framework/memory", test_memory);
  return g_test_run ();
}
