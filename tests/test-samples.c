/* SPDX-License-Identifier: MIT */
/* Reading samples: what the bench programs write, logs of nccl-tests in text and JSON, and what is wrong with broken
 * files, by line. */
#include "samples.h"

#include <glib/gstdio.h>

static char *folder;

static char *
write_file (const char *name, const char *text)
{
  char *file = g_build_filename (folder, name, NULL);
  g_assert_true (g_file_set_contents (file, text, -1, NULL));
  return file;
}

static PsiSamples *
read_text (const char *name, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *file = write_file (name, text);
  PsiSamples *samples = psi_samples_new ();
  psi_samples_read (samples, file, NULL, &error);
  g_assert_no_error (error);
  return samples;
}

/* The message without the folder. */
static char *
refuse (const char *name, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *file = write_file (name, text);
  g_autoptr (PsiSamples) samples = psi_samples_new ();

  g_assert_false (psi_samples_read (samples, file, NULL, &error));
  g_assert_cmpuint (samples->curves->len + samples->gemms->len + samples->values->len, ==, 0);
  g_assert_null (strchr (error->message, '\n'));
  const char *at = strstr (error->message, name);
  return g_strdup (at ? at : error->message);
}

#define START "{\"record\": \"start\", \"psisim_samples\": 1, \"backend\": \"cuda\"}\n"
#define GEMM                                                                                                           \
  "{\"record\": \"gemm\", \"dtype\": \"bf16\", \"pass\": \"weight\", \"batch\": 2, \"m\": 10, \"n\": 20, \"k\": 30, "  \
  "\"sweep\": 1, \"time_ns\": 1234.5, \"p10_ns\": 1200, \"p90_ns\": 1300, \"throttle\": 32}\n"

static void
test_lines (void)
{
  g_autoptr (PsiSamples) samples = read_text (
      "a.jsonl", START GEMM
      "\n"
      "{\"record\": \"copy\", \"what\": \"to_host\", \"memory\": \"pinned\", \"bytes\": 4096, \"moved_bytes\": 4096, "
      "\"time_ns\": 7}\n"
      "{\"record\": \"copy\", \"what\": \"axpy\", \"bytes\": 4096, \"moved_bytes\": 12288, \"time_ns\": 7}\n"
      "{\"record\": \"collective\", \"op\": \"all-reduce\", \"ranks\": 8, \"nodes\": 2, \"bytes\": 16, \"time_ns\": "
      "9}\n"
      "{\"record\": \"launch\", \"what\": \"graph\", \"time_ns\": 800}\n"
      "{\"record\": \"memory\", \"what\": \"context\", \"bytes\": 500000000}\n"
      "{\"record\": \"something new\", \"x\": 1}\n"
      "{\"record\": \"gemm\", \"dtype\": \"bf16\", \"pass\": \"wei");

  g_assert_cmpuint (samples->gemms->len, ==, 1);
  const PsiGemmSample *gemm = &g_array_index (samples->gemms, PsiGemmSample, 0);
  g_assert_cmpstr (gemm->dtype, ==, "bf16");
  g_assert_cmpstr (gemm->pass, ==, "weight");
  g_assert_cmpint (gemm->batch * 1000000 + gemm->m * 10000 + gemm->n * 100 + gemm->k, ==, 2102030);
  g_assert_cmpfloat (gemm->time_ns, ==, 1234.5);
  g_assert_cmpuint (gemm->sweep, ==, 1);
  g_assert_cmpuint (samples->n_throttled, ==, 1);

  g_assert_cmpuint (samples->curves->len, ==, 3);
  const PsiCurveSample *curves = &g_array_index (samples->curves, PsiCurveSample, 0);
  g_assert_cmpstr (curves[0].curve, ==, "to_host_pinned");
  g_assert_cmpstr (curves[1].curve, ==, "axpy");
  g_assert_cmpint (curves[1].bytes, ==, 12288); /* read and written */
  g_assert_cmpfloat (curves[1].p90_ns, ==, 7);
  g_assert_cmpstr (curves[2].curve, ==, "all_reduce");
  g_assert_cmpuint (curves[2].n_ranks * 10 + curves[2].n_nodes, ==, 82);

  g_assert_cmpuint (samples->values->len, ==, 2);
  g_assert_cmpstr (g_array_index (samples->values, PsiValueSample, 0).name, ==, "launch_graph_ns");
  g_assert_cmpfloat (g_array_index (samples->values, PsiValueSample, 1).value, ==, 5e8);
  g_assert_cmpstr (json_object_get_string_member (samples->provenance, "backend"), ==, "cuda");
}

/* A CPU core that was shared: CPU time counts for products, wall time for messages. */
static void
test_contended (void)
{
  g_autoptr (PsiSamples) samples =
      read_text ("b.jsonl", "{\"record\": \"gemm\", \"dtype\": \"fp32\", \"pass\": \"forward\", \"m\": 1, \"n\": 1, "
                            "\"k\": 1, \"time_ns\": 300, "
                            "\"cpu_ns\": 100}\n"
                            "{\"record\": \"gemm\", \"dtype\": \"fp32\", \"pass\": \"forward\", \"m\": 2, \"n\": 1, "
                            "\"k\": 1, \"time_ns\": 102, "
                            "\"cpu_ns\": 100}\n"
                            "{\"record\": \"collective\", \"op\": \"all_reduce\", \"ranks\": 2, \"bytes\": 16, "
                            "\"time_ns\": 900, \"cpu_ns\": 100}\n");
  g_assert_cmpfloat (g_array_index (samples->gemms, PsiGemmSample, 0).time_ns, ==, 100);
  g_assert_cmpfloat (g_array_index (samples->gemms, PsiGemmSample, 1).time_ns, ==, 102);
  g_assert_cmpfloat (g_array_index (samples->curves, PsiCurveSample, 0).time_ns, ==, 900);
  g_assert_cmpuint (samples->n_contended, ==, 1);
}

#define HEADER                                                                                                         \
  "#                                                              out-of-place                       in-place\n"       \
  "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "     \
  "#wrong\n"                                                                                                           \
  "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"

static const char nccl_log[] =
    "$ mpirun ./build/all_gather_perf -b 8 -e 64M\n"
    "# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807\n"
    "# Collective test starting: all_gather_perf\n"
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 67108864 step: 2(factor) warmup iters: 1 iters: 20\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid  11 on    node-a device  0 [0000:07:00] NVIDIA H200\n"
    "#  Rank  1 Group  0 Pid  12 on    node-a device  1 [0000:0a:00] NVIDIA H200\n"
    "#  Rank  2 Group  0 Pid  13 on    node-b device  0 [0000:07:00] NVIDIA H200\n"
    "node-a:11:11 [0] NCCL INFO 24 coll channels\n" HEADER
    "[1,0]<stdout>:           0             0     float    none      -1     3.10    0.00    0.00      0     3.00    "
    "0.00    0.00      0\n"
    "          96             8     float    none      -1    40.12    0.00    0.00      0    38.85    0.00    0.00     "
    " 0\n"
    "    67108864       5592405     float    none      -1    500.5  134.08   89.39      0    499.0  134.48   89.65    "
    "N/A\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 44.7\n"
    "12 lines of something else\n";

static void
test_nccl_text (void)
{
  g_autoptr (PsiSamples) samples = read_text ("log.txt", nccl_log);
  const PsiCurveSample *curves = &g_array_index (samples->curves, PsiCurveSample, 0);

  g_assert_cmpuint (samples->curves->len, ==, 2); /* zero bytes say nothing */
  for (guint i = 0; i < 2; i++)
    {
      g_assert_cmpstr (curves[i].curve, ==, "all_gather");
      g_assert_cmpuint (curves[i].n_ranks, ==, 3);
      g_assert_cmpuint (curves[i].n_nodes, ==, 2);
    }
  g_assert_cmpint (curves[0].bytes, ==, 96);
  g_assert_cmpfloat (curves[0].time_ns, ==, 40120);
  g_assert_cmpfloat (curves[1].time_ns, ==, 500500);
  g_assert_cmpstr (json_object_get_string_member (samples->provenance, "gpu"), ==, "NVIDIA H200");
}

/* Excerpts without a head: what they measured follows from the ratio of the bandwidths. */
static void
test_nccl_guess (void)
{
  g_autoptr (PsiSamples) samples = read_text (
      "excerpt.txt",
      HEADER "  1048576  262144  float  sum  -1   100.0   10.49   18.35   0   100.0   10.49   18.35   0\n" /* 1.75 */
             "# Avg bus bandwidth\n" HEADER
             "  1048576  262144  float  sum  -1   100.0   100.0   87.50   0   100.0   100.0   87.50   0\n");
  const PsiCurveSample *curves = &g_array_index (samples->curves, PsiCurveSample, 0);
  g_assert_cmpstr (curves[0].curve, ==, "all_reduce");
  g_assert_cmpuint (curves[0].n_ranks, ==, 8);
  g_assert_cmpstr (curves[1].curve, ==, "reduce_scatter");
  g_assert_cmpuint (curves[1].n_ranks, ==, 8);

  /* All-gather and all-to-all look alike; the name of the file helps, or the caller. */
  const char *open =
      HEADER "  1048576  262144  float  none  -1   100.0   100.0   87.50   0   100.0   100.0   87.50   0\n";
  g_autofree char *message = refuse ("open.txt", open);
  g_assert_nonnull (strstr (message, "--op"));
  g_autoptr (PsiSamples) named = read_text ("alltoall-8.txt", open);
  g_assert_cmpstr (g_array_index (named->curves, PsiCurveSample, 0).curve, ==, "all_to_all");
  g_autofree char *file = write_file ("open2.txt", open);
  g_autoptr (PsiSamples) given = psi_samples_new ();
  g_assert_true (psi_samples_read (given, file, "all_gather", NULL));
  g_assert_cmpstr (g_array_index (given->curves, PsiCurveSample, 0).curve, ==, "all_gather");
}

static void
test_nccl_json (void)
{
  g_autoptr (PsiSamples) samples = read_text (
      "log.json",
      "{\"version\": 3, \"args\": [\"./build/reduce_scatter_perf\", \"-g\", \"8\"],\n"
      " \"config\": {\"nthreads\": 1, \"ngpus\": 8, \"devices\": [\n"
      "   {\"rank\": 0, \"hostname\": \"a\", \"device_info\": \"NVIDIA B200\"}, {\"rank\": 8, \"hostname\": \"b\"}]},\n"
      " \"results\": [{\"size\": 1024, \"count\": 16, \"type\": \"float\", \"redop\": \"sum\", \"root\": \"    -1\",\n"
      "   \"out_of_place\": {\"time\": 12.5, \"alg_bw\": 0.08, \"bus_bw\": 0.07, \"nwrong\": 0},\n"
      "   \"in_place\": {\"time\": 11.5}}]}\n");
  const PsiCurveSample *curve = &g_array_index (samples->curves, PsiCurveSample, 0);
  g_assert_cmpstr (curve->curve, ==, "reduce_scatter");
  g_assert_cmpuint (curve->n_ranks, ==, 16);
  g_assert_cmpuint (curve->n_nodes, ==, 2);
  g_assert_cmpfloat (curve->time_ns, ==, 12500);
}

static void
test_broken (void)
{
  static const struct
  {
    const char *name, *text, *message;
  } cases[] = {
    { "empty.txt", " \n", "empty.txt: file is empty" },
    { "prose.txt", "hello\nworld\n", "prose.txt: neither samples of psisim nor a table of nccl-tests" },
    { "cut.jsonl", START GEMM "{\"record\": \"gemm\", \"dt\n" GEMM, "cut.jsonl:3: not a JSON object" },
    { "time.jsonl", START "{\"record\": \"launch\", \"what\": \"graph\", \"time_ns\": -1}\n",
      "time.jsonl:2: 'time_ns' is -1, allowed are 0.001 to 1e+12" },
    { "text.jsonl", START "\n{\"record\": \"copy\", \"what\": \"axpy\", \"bytes\": \"big\", \"time_ns\": 1}\n",
      "text.jsonl:3: 'bytes' is not a number" },
    { "memory.jsonl",
      START "{\"record\": \"copy\", \"what\": \"to_host\", \"memory\": [], \"bytes\": 1, \"time_ns\": 1}\n",
      "memory.jsonl:2: 'memory' is missing or not a text" },
    { "miss.jsonl", "{\"record\": \"collective\", \"op\": \"all_reduce\", \"bytes\": 8, \"time_ns\": 1}\n",
      "miss.jsonl:1: 'ranks' is missing" },
    { "op.jsonl", "{\"record\": \"collective\", \"op\": \"gossip\", \"ranks\": 2, \"bytes\": 8, \"time_ns\": 1}\n",
      "op.jsonl:1: 'op': unknown collective 'gossip'" },
    { "new.jsonl", "{\"record\": \"start\", \"psisim_samples\": 9}\n",
      "new.jsonl:1: 'psisim_samples' is 9, allowed are 1 to 1" },
    { "short.txt", HEADER "1024 256 float sum -1 12.5 0.08\n", "short.txt:4: 7 columns, but the header has 13" },
    { "word.txt", HEADER "1024 256 float sum -1 fast 0.08 0.07 0 1 1 1 0\n",
      "word.txt:4: size or time is not a number" },
    { "other.json", "{\"a\": 1}\n", NULL },
    { "array.json", "{\"results\": [{\"size\": 1}]}", "array.json: result 0: size or time is not a number" },
    { "bad.json", "{\n\"results\": [}\n", "bad.json:2: not valid JSON" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *message = refuse (cases[i].name, cases[i].text);
      if (cases[i].message)
        g_assert_cmpstr (message, ==, cases[i].message);
    }
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiSamples) samples = psi_samples_new ();
  g_assert_false (psi_samples_read (samples, "/proc/no-such-file", NULL, &error));
  g_assert_cmpstr (error->message, ==, "/proc/no-such-file: no such file");
}

static void
test_names (void)
{
  static const char *const same[] = { "all-reduce", "all_reduce", "AllReduce", "allreduce_perf" };
  for (guint i = 0; i < G_N_ELEMENTS (same); i++)
    g_assert_cmpstr (psi_samples_operation (same[i]), ==, "all_reduce");
  g_assert_cmpstr (psi_samples_operation ("sendrecv"), ==, "send_recv");
  g_assert_null (psi_samples_operation ("reduced"));
}

static void
remove_folder (void)
{
  GDir *dir = g_dir_open (folder, 0, NULL);
  for (const char *name = g_dir_read_name (dir); name; name = g_dir_read_name (dir))
    {
      g_autofree char *file = g_build_filename (folder, name, NULL);
      g_unlink (file);
    }
  g_dir_close (dir);
  g_rmdir (folder);
  g_free (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  folder = g_dir_make_tmp ("psisim-samples-XXXXXX", NULL);
  g_test_add_func ("/traces/samples/lines", test_lines);
  g_test_add_func ("/traces/samples/contended", test_contended);
  g_test_add_func ("/traces/samples/nccl-text", test_nccl_text);
  g_test_add_func ("/traces/samples/nccl-guess", test_nccl_guess);
  g_test_add_func ("/traces/samples/nccl-json", test_nccl_json);
  g_test_add_func ("/traces/samples/broken", test_broken);
  g_test_add_func ("/traces/samples/names", test_names);
  int status = g_test_run ();
  remove_folder ();
  return status;
}
