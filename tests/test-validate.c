/* SPDX-License-Identifier: MIT */
/* Measured runs: the reader, rows as settings, errors and orders, predictions of a small file. */
#include "validate.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

static char *
write_file (const char *text)
{
  g_autofree char *directory = g_dir_make_tmp ("psi-validate-XXXXXX", NULL);
  char *file = g_build_filename (directory, "runs.csv", NULL);

  g_assert_true (g_file_set_contents (file, text, -1, NULL));
  return file;
}

static void
remove_file (char *file)
{
  g_autofree char *directory = g_path_get_dirname (file);

  g_remove (file);
  g_rmdir (directory);
  g_free (file);
}

static PsiRunTable *
load (const char *text, GError **error)
{
  char *file = write_file (text);
  PsiRunTable *table = psi_run_table_load (file, error);

  remove_file (file);
  return table;
}

static void
test_cells (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiRunTable) table = load ("notes,id,peak_bytes,step_time_s\r\n"
                                        "\"a, \"\"b\"\"\nc\",R1,1e9,\r\n"
                                        ",R2,,x\n\n",
                                        &error);

  g_assert_no_error (error);
  g_assert_cmpuint (table->runs->len, ==, 2);
  const PsiMeasuredRun *first = table->runs->pdata[0], *second = table->runs->pdata[1];
  g_assert_cmpstr (psi_run_cell (table, first, PSI_RUN_NOTES), ==, "a, \"b\"\nc");
  g_assert_cmpstr (psi_run_cell (table, first, PSI_RUN_ID), ==, "R1");
  g_assert_cmpfloat (psi_run_number (table, first, PSI_RUN_PEAK_BYTES), ==, 1e9);
  g_assert_true (isnan (psi_run_number (table, first, PSI_RUN_STEP_TIME_S)));
  g_assert_true (isnan (psi_run_number (table, second, PSI_RUN_STEP_TIME_S)));
  g_assert_cmpstr (psi_run_cell (table, second, PSI_RUN_GROUP), ==, "");
  g_assert_cmpuint (first->line, ==, 2);
  g_assert_cmpuint (second->line, ==, 4);

  g_autoptr (GString) line = g_string_new (NULL);
  psi_run_append_cell (line, psi_run_cell (table, first, PSI_RUN_NOTES));
  g_assert_cmpstr (line->str, ==, "\"a, \"\"b\"\"\nc\"");
}

static void
test_bad_files (void)
{
  static const struct
  {
    const char *text, *message;
  } cases[] = {
    { "a,b\n1,2\n", "*:1: no column 'id'*" },
    { "id,b\n1\n", "*:2: 1 cells, but the header has 2*" },
    { "id,b\n1,\"2\n", "*:2: a quote that does not close its cell*" },
    { "id,b\n", "*no rows*" },
    { "", "*no rows*" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiRunTable) table = load (cases[i].text, &error);

      g_assert_null (table);
      g_assert_error (error, PSI_RUNS_ERROR, PSI_RUNS_ERROR_SYNTAX);
      g_assert_true (g_pattern_match_simple (cases[i].message, error->message));
    }
}

static void
test_errors (void)
{
  const double values[] = { -0.1, 0.3, 0.2, -0.4, 0.0 };
  g_autoptr (GArray) list = g_array_new (FALSE, FALSE, sizeof (double));
  PsiErrors errors;

  g_array_append_vals (list, values, G_N_ELEMENTS (values));
  psi_validate_errors (list, &errors);
  g_assert_cmpuint (errors.n, ==, 5);
  g_assert_cmpfloat_with_epsilon (errors.mean, 0.2, 1e-12);
  g_assert_cmpfloat_with_epsilon (errors.median, 0.2, 1e-12);
  g_assert_cmpfloat_with_epsilon (errors.bias, 0.0, 1e-12);
  g_assert_cmpfloat_with_epsilon (errors.p90, 0.36, 1e-12);
  g_array_set_size (list, 0);
  psi_validate_errors (list, &errors);
  g_assert_true (isnan (errors.mean) && isnan (errors.p90));
}

static void
test_tau (void)
{
  const double x[] = { 1, 2, 3, 4 }, same[] = { 10, 20, 30, 40 }, back[] = { 4, 3, 2, 1 }, flat[] = { 1, 1, 1, 1 };
  const double ties[] = { 1, 1, 2, 3 };

  g_assert_cmpfloat (psi_validate_tau (x, same, 4), ==, 1);
  g_assert_cmpfloat (psi_validate_tau (x, back, 4), ==, -1);
  g_assert_true (isnan (psi_validate_tau (x, flat, 4)));
  g_assert_cmpfloat_with_epsilon (psi_validate_tau (x, ties, 4), 5 / sqrt (30), 1e-12);
}

#define HEADER                                                                                                         \
  "id,group,source,model,family,layers,hidden,heads,kv_heads,ffn,activation,norm,vocab,tied,experts,sequence,machine," \
  "gpus,gpus_per_node,internode_gbps_per_gpu,precision,optimizer,framework,tp,sp,pp,vpp,dp,zero,schedule,micro_batch," \
  "global_batch,recompute,attention,outcome,step_time_s,peak_bytes,memory_kind,tight,notes\n"

static void
test_settings (void)
{
  g_autoptr (PsiRunTable) table = load (
      HEADER "R1,g,s,Mixtral,mixtral,4,512,8,8,1024,swiglu,rmsnorm,1000,no,4,128,a100-sxm-80,8,8,400,mxfp8,adamw,"
             "nanotron,2,yes,2,1,2,1,none,1,8,none,flash,ok,1,,unknown,yes,hidden_dropout=0.25; "
             "expert_tp=1; dense_ffn=2048; moe_layers=3 dense_layers=1; shared_expert_ffn=512; deterministic=yes\n",
      NULL);
  g_autoptr (GPtrArray) assumptions = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiSettings) settings = psi_validate_settings (table, table->runs->pdata[0], assumptions, &error);

  g_assert_no_error (error);
  g_assert_cmpstr (psi_settings_text (settings, PSI_KEY_MODEL), ==, "custom");
  g_assert_cmpstr (psi_settings_text (settings, PSI_KEY_FAMILY), ==, "moe");
  g_assert_cmpstr (psi_settings_text (settings, PSI_KEY_PRECISION), ==, "mxfp8");
  g_assert_cmpstr (psi_settings_text (settings, PSI_KEY_OPTIMIZER), ==, "adam");
  g_assert_cmpstr (psi_settings_text (settings, PSI_KEY_FRAMEWORK), ==, "nanotron");
  g_assert_true (psi_settings_bool (settings, PSI_KEY_SEQUENCE_PARALLEL));
  g_assert_true (psi_settings_bool (settings, PSI_KEY_DETERMINISTIC));
  g_assert_cmpfloat (psi_settings_real (settings, PSI_KEY_DROPOUT), ==, 0.25);
  g_assert_cmpint (psi_settings_count (settings, PSI_KEY_EXPERT_TP), ==, 1);
  g_assert_cmpint (psi_settings_count (settings, PSI_KEY_DENSE_FFN), ==, 2048);
  g_assert_cmpint (psi_settings_count (settings, PSI_KEY_DENSE_LAYERS), ==, 1);
  g_assert_cmpint (psi_settings_count (settings, PSI_KEY_SHARED_FFN), ==, 512);
  g_assert_cmpfloat_with_epsilon (psi_settings_real (settings, PSI_KEY_INTERNODE), 50e9, 1);
  g_assert_false (psi_settings_has (settings, PSI_KEY_SCHEDULE));
  g_assert_false (psi_settings_has (settings, PSI_KEY_VPP));

  g_assert_false (psi_settings_has (settings, PSI_KEY_NETWORK));

  /* Notes name a network; a machine that has none such keeps its own. */
  g_autoptr (PsiRunTable) clouds =
      load ("id,model,machine,notes\nR1,gpt2,h100-sxm-80,EFA rate 3200 Gb/s\nR2,gpt2,b200-sxm,EFA rate 3200 Gb/s\n"
            "R3,gpt2,h100-sxm-80,MP mode DEFAULT\nR4,gpt2,a100-sxm-80,4 x 100 Gb/s Omni-Path per node\n",
            NULL);
  g_autoptr (PsiSettings) efa = psi_validate_settings (clouds, clouds->runs->pdata[0], assumptions, &error);
  g_assert_cmpstr (psi_settings_text (efa, PSI_KEY_NETWORK), ==, "efa");
  g_autoptr (PsiSettings) omnipath = psi_validate_settings (clouds, clouds->runs->pdata[3], assumptions, &error);
  g_assert_cmpstr (psi_settings_text (omnipath, PSI_KEY_NETWORK), ==, "omnipath");
  for (guint i = 1; i < 3; i++)
    {
      g_autoptr (PsiSettings) own = psi_validate_settings (clouds, clouds->runs->pdata[i], assumptions, &error);
      g_assert_no_error (error);
      g_assert_false (psi_settings_has (own, PSI_KEY_NETWORK));
    }

  /* The source says whose fork of a framework it is, if there is a framework at all. */
  g_autoptr (PsiRunTable) forks =
      load ("id,source,model,machine,framework\nR1,bigscience-a100,gpt2,a100,Megatron-DeepSpeed\n"
            "R2,vtrain,gpt2,a100,Megatron-DeepSpeed\nR3,bigscience-a100,gpt2,a100,\n",
            NULL);
  const char *const fork_names[] = { "bigscience", "megatron-deepspeed", "pytorch" };
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (PsiSettings) fork = psi_validate_settings (forks, forks->runs->pdata[i], assumptions, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (psi_settings_text (fork, PSI_KEY_FRAMEWORK), ==, fork_names[i]);
    }

  /* What the scripts of a fork say where the row does not. */
  g_autoptr (PsiRunTable) scripts = load ("id,model,machine,framework,tied\nR1,gpt2,a100,Megatron-LM fork,\n"
                                          "R2,gpt2,a100,Megatron-LM fork,yes\nR3,gpt2,a100,Megatron-LM,\n",
                                          NULL);
  static const int untied[] = { 1, 0, -1 };
  for (guint i = 0; i < G_N_ELEMENTS (untied); i++)
    {
      g_autoptr (PsiSettings) script = psi_validate_settings (scripts, scripts->runs->pdata[i], assumptions, &error);

      g_assert_no_error (error);
      g_assert_cmpint (psi_settings_has (script, PSI_KEY_TIED), ==, untied[i] >= 0);
      if (untied[i] >= 0)
        g_assert_cmpint (psi_settings_bool (script, PSI_KEY_TIED), ==, !untied[i]);
    }

  /* A name stands for the dimensions where there are none. */
  g_autoptr (PsiRunTable) named = load ("id,model,machine,plan\nR1,gpt2-xl,a100,dp\n", NULL);
  g_autoptr (PsiSettings) preset = psi_validate_settings (named, named->runs->pdata[0], assumptions, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (psi_settings_text (preset, PSI_KEY_MODEL), ==, "gpt2-xl");
}

/* One run that fits, one that cannot, one that is no plan at all. */
static void
test_predictions (void)
{
  char *file = write_file (
      HEADER "small,g,a,GPT,gpt,4,512,8,8,2048,gelu,layernorm,50304,yes,,128,a100-sxm-80,1,8,,bf16,adam,Megatron,1,no,"
             "1,1,1,0,none,1,1,none,flash,ok,0.1,1e9,allocated,yes,steady_bytes=1e9\n"
             "large,g,a,GPT,gpt,48,16384,128,128,65536,gelu,layernorm,50304,yes,,128,a100-sxm-80,1,8,,bf16,adam,"
             "Megatron,1,no,1,1,1,0,none,1,1,none,flash,oom,,,,yes,\n"
             "wrong,g,b,GPT,gpt,4,512,8,8,2048,gelu,layernorm,50304,yes,,128,a100-sxm-80,8,8,,bf16,adam,Megatron,3,no,"
             "1,1,1,0,none,1,1,none,flash,ok,0.1,1e9,allocated,no,\n");
  const PsiValidateOptions all = { NULL, FALSE }, strict = { NULL, TRUE };
  const char *const nobody[] = { "c", NULL };
  const PsiValidateOptions none = { nobody, FALSE };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiValidation) validation = psi_validate (file, &all, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (validation->predictions->len, ==, 3);
  const PsiPrediction *small = validation->predictions->pdata[0], *wrong = validation->predictions->pdata[2];
  g_assert_null (small->failure);
  g_assert_cmpfloat (small->peak_bytes, >, small->steady_bytes);
  g_assert_cmpfloat_with_epsilon (small->memory_error, small->peak_bytes / 1e9 - 1, 1e-12);
  g_assert_cmpfloat_with_epsilon (small->time_error, small->step_time_s / 0.1 - 1, 1e-12);
  g_assert_nonnull (wrong->failure);
  g_assert_null (strstr (wrong->failure, "wrong")); /* who prints it names the row */
  g_assert_true (isnan (wrong->step_time_s));

  g_assert_cmpuint (validation->scores->len, ==, 3);
  const PsiSourceScore *score = &g_array_index (validation->scores, PsiSourceScore, 0);
  g_assert_cmpstr (score->source, ==, "a");
  /* One measured time, 0.1 s, and its band. */
  g_assert_cmpfloat (small->low_s, <, small->step_time_s);
  g_assert_cmpfloat (small->step_time_s, <, small->high_s);
  g_assert_cmpuint (score->n_banded, ==, 1);
  g_assert_cmpfloat (score->inside, ==, small->low_s <= 0.1 && 0.1 <= small->high_s);
  g_assert_cmpfloat_with_epsilon (score->width, (small->high_s - small->low_s) / small->step_time_s, 1e-12);
  g_assert_true (isnan (g_array_index (validation->scores, PsiSourceScore, 1).inside));
  g_assert_cmpuint (score->verdicts[0][0], ==, 1);
  g_assert_cmpuint (score->verdicts[1][1], ==, 1);
  g_assert_cmpuint (g_array_index (validation->scores, PsiSourceScore, 1).n_failed, ==, 1);
  g_assert_cmpstr (g_array_index (validation->scores, PsiSourceScore, 2).source, ==, "all");

  g_autofree char *csv = psi_validation_to_csv (validation);
  g_auto (GStrv) lines = g_strsplit (csv, "\n", -1);
  g_assert_cmpstr (lines[0], ==,
                   "id,predicted_step_time_s,predicted_peak_bytes,predicted_outcome,step_time_error,memory_error");
  g_assert_true (g_str_has_prefix (lines[1], "small,"));
  g_assert_true (strstr (lines[2], ",oom,,") != NULL);
  g_assert_cmpstr (lines[3], ==, "wrong,,,,,");

  g_autoptr (PsiValidation) tight = psi_validate (file, &strict, NULL);
  g_assert_cmpuint (tight->predictions->len, ==, 2);
  g_assert_null (psi_validate (file, &none, &error));
  g_assert_error (error, PSI_RUNS_ERROR, PSI_RUNS_ERROR_SYNTAX);
  remove_file (file);
}

/* nanotron logs what the allocator of the first rank holds: an unknown counter of its runs is that one, not of others.
 */
static void
test_unknown_counter (void)
{
#define RUN                                                                                                            \
  ",g,a,Llama,llama,8,1024,8,8,4096,swiglu,rmsnorm,32000,no,,1024,h100-sxm-80,4,8,400,bf16,adam,%s,2,yes,2,1,1,0,"     \
  "none,1,4,none,flash,ok,1,1e9,%s,yes,\n"
  g_autofree char *rows = g_strdup_printf (HEADER "a" RUN "b" RUN "c" RUN "d" RUN, "nanotron", "unknown", "nanotron",
                                           "allocated", "nanotron", "reserved", "Megatron", "unknown");
  char *file = write_file (rows);
  const PsiValidateOptions all = { NULL, FALSE };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiValidation) validation = psi_validate (file, &all, &error);
  double bytes[4];

  g_assert_no_error (error);
  for (guint i = 0; i < 4; i++)
    bytes[i] = ((const PsiPrediction *) validation->predictions->pdata[i])->peak_bytes;
  g_assert_cmpfloat (bytes[0], >, bytes[1]);
  g_assert_cmpfloat (bytes[0], <=, bytes[2]);
  g_assert_cmpfloat (fmod (bytes[0], 2 << 20), ==, 0);
  g_assert_cmpfloat (fmod (bytes[3], 2 << 20), !=, 0);
  remove_file (file);
}

/* A recipe of Megatron-Bridge that does not say what it recomputes recomputes what it takes to fit; with the word
 * `none`, and under other frameworks, whose default is none, it does not. */
static void
test_unstated (void)
{
  char *file = write_file (
      HEADER "open,g,a,Llama,llama,32,4096,32,32,11008,swiglu,rmsnorm,32000,no,,4096,a100-sxm-80,8,8,400,bf16,adam,"
             "Megatron-Bridge,1,no,1,1,8,3,none,4,32,,flash,ok,,,,yes,\n"
             "said,g,a,Llama,llama,32,4096,32,32,11008,swiglu,rmsnorm,32000,no,,4096,a100-sxm-80,8,8,400,bf16,adam,"
             "Megatron-Bridge,1,no,1,1,8,3,none,4,32,none,flash,oom,,,,yes,\n"
             "other,g,a,Llama,llama,32,4096,32,32,11008,swiglu,rmsnorm,32000,no,,4096,a100-sxm-80,8,8,400,bf16,adam,"
             "torchtitan,1,no,1,1,8,3,none,4,32,,flash,oom,,,,yes,\n"
             "never,g,a,Llama,llama,80,8192,64,64,28672,swiglu,rmsnorm,32000,no,,4096,a100-sxm-80,8,8,400,bf16,adam,"
             "Megatron-Bridge,1,no,1,1,8,0,none,4,32,,flash,oom,,,,yes,\n");
  const PsiValidateOptions all = { NULL, FALSE };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiValidation) validation = psi_validate (file, &all, &error);

  g_assert_no_error (error);
  const PsiPrediction *open = validation->predictions->pdata[0], *said = validation->predictions->pdata[1],
                      *other = validation->predictions->pdata[2], *never = validation->predictions->pdata[3];
  g_assert_cmpint (open->outcome, ==, PSI_OUTCOME_OK);
  g_assert_cmpint (said->outcome, ==, PSI_OUTCOME_OOM);
  g_assert_cmpint (other->outcome, ==, PSI_OUTCOME_OOM);
  g_assert_cmpint (never->outcome, ==, PSI_OUTCOME_OOM);
  g_assert_cmpfloat (open->step_time_s, >, said->step_time_s);
  const char *last = open->assumptions->pdata[open->assumptions->len - 1];
  g_assert_nonnull (strstr (last, "recipes of this framework choose: "));
  remove_file (file);
}

/* Measured cells that say nothing are named, each with what is allowed. */
static void
test_doubts (void)
{
  char *file = write_file ("id,model,machine,gpus,outcome,step_time_s,peak_bytes,memory_kind\n"
                           "none,gpt2,a100,8,fail,0.1,3e9,reserved\n"
                           "empty,gpt2,a100,8,,,,\n"
                           "time,gpt2,a100,8,ok,-0.1,,\n"
                           "bytes,gpt2,a100,8,ok,0.1,nan,\n"
                           "kind,gpt2,a100,8,ok,0.1,3e9,GiB\n"
                           "outcome,gpt2,a100,8,fine,,,\n");
  static const char *const doubts[] = { NULL,
                                        NULL,
                                        "step_time_s: '-0.1' is not a number of seconds above 0",
                                        "peak_bytes: 'nan' is not a number of bytes above 0",
                                        "memory_kind: 'GiB' is not one of allocated, reserved, device, "
                                        "allocated-last-rank, unknown",
                                        "outcome: 'fine' is not one of ok, oom, fail" };
  const PsiValidateOptions all = { NULL, FALSE };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiValidation) validation = psi_validate (file, &all, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (validation->predictions->len, ==, G_N_ELEMENTS (doubts));
  for (guint i = 0; i < G_N_ELEMENTS (doubts); i++)
    {
      const PsiPrediction *prediction = validation->predictions->pdata[i];

      g_assert_cmpstr (prediction->doubt, ==, doubts[i]);
      g_assert_null (prediction->failure);
    }
  remove_file (file);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sim/validate/cells", test_cells);
  g_test_add_func ("/sim/validate/bad-files", test_bad_files);
  g_test_add_func ("/sim/validate/errors", test_errors);
  g_test_add_func ("/sim/validate/tau", test_tau);
  g_test_add_func ("/sim/validate/settings", test_settings);
  g_test_add_func ("/sim/validate/predictions", test_predictions);
  g_test_add_func ("/sim/validate/unstated", test_unstated);
  g_test_add_func ("/sim/validate/unknown-counter", test_unknown_counter);
  g_test_add_func ("/sim/validate/doubts", test_doubts);
  return g_test_run ();
}
