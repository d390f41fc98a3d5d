/* SPDX-License-Identifier: MIT */
/* main() of train-host and train-cuda: flags in, ranks forked, JSON Lines out. Exit 0 done, 1 failed, 2 wrong usage,
 * 77 no device. */
#include "train-device.h"
#include "train-reference.h"
#include "train-report.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_NO_DEVICE 77

/* Look for devices in a child, since a device library must not be started before ranks are forked. */
static bool
has_device (void)
{
  pid_t child = fork ();
  int status = 0;

  if (child == 0)
    {
      const char *reason = "";
      int n = train_device_count (&reason);

      if (n == 0)
        fprintf (stderr, "train-%s: no device: %s\n", train_device_name, reason);
      _exit (n > 0 ? 0 : EXIT_NO_DEVICE);
    }
  return child > 0 && waitpid (child, &status, 0) == child && WIFEXITED (status) && WEXITSTATUS (status) == 0;
}

/* Fork one process per rank and wait for all. The first to fail ends the others. */
static bool
run_ranks (const TrainRun *run, TrainError *error)
{
  TrainShared *shared = run->shared;
  int n_ranks = run->plan->schedule->n_ranks, n_started = 0, n_left;
  pid_t parent = getpid (), *children = train_new ((size_t) n_ranks, sizeof (pid_t));

  fflush (NULL);
  for (; n_started < n_ranks; n_started++)
    {
      children[n_started] = fork ();
      if (children[n_started] < 0)
        {
          train_shared_stop (shared, "cannot start rank %d: %s", n_started, strerror (errno));
          break;
        }
      if (children[n_started] > 0)
        continue;
      prctl (PR_SET_PDEATHSIG, SIGKILL);
      if (getppid () != parent)
        _exit (1);
      train_run_rank (run, n_started);
      _exit (0);
    }
  for (n_left = n_started; n_left > 0; n_left--)
    {
      int status = 0, rank = 0;
      pid_t child = waitpid (-1, &status, 0);

      while (rank < n_started && children[rank] != child)
        rank++;
      if (rank == n_started)
        break;
      children[rank] = 0;
      if (WIFSIGNALED (status))
        train_shared_stop (shared, "rank %d was killed by signal %d (%s)", rank, WTERMSIG (status),
                           strsignal (WTERMSIG (status)));
      else if (WEXITSTATUS (status) != 0)
        train_shared_stop (shared, "rank %d ended with status %d", rank, WEXITSTATUS (status));
      for (int other = 0; other < n_started && atomic_load (&shared->stopped); other++)
        if (children[other] > 0)
          kill (children[other], SIGKILL);
    }
  free (children);
  return !atomic_load (&shared->stopped) || train_fail (error, "%s", shared->error);
}

/* All parameters in part order, from where the ranks left them; false if replicas differ. */
static bool
collect (const TrainRun *run, float *final)
{
  bool equal = true;

  for (int i = 0; i < run->plan->schedule->n_parts; i++)
    {
      const TrainSharedPart *part = &run->shared->parts[i];

      for (int holder = 1; holder < run->plan->n_holders[i] && run->options->zero < 3; holder++)
        equal = equal && memcmp (part->final, part->given[run->plan->n_steps % 2] + (size_t) holder * part->n,
                                 part->n * sizeof (float)) == 0;
      memcpy (final, part->final, part->n * sizeof (float));
      final += part->n;
    }
  return equal;
}

static bool
write_parameters (const char *path, const float *final, size_t n, TrainError *error)
{
  FILE *file = fopen (path, "wb");

  if (file == NULL || fwrite (final, sizeof (float), n, file) != n)
    train_fail (error, "cannot write '%s': %s", path, strerror (errno));
  if (file != NULL && fclose (file) != 0)
    train_fail (error, "cannot write '%s': %s", path, strerror (errno));
  return error->text[0] == '\0';
}

/* |a - b| / |b| in the 2-norm must not exceed the tolerance; 0 asks for equal bits. */
static bool
compare_parameters (const TrainOptions *options, const float *final, size_t n, TrainError *error)
{
  FILE *file = fopen (options->compare_path, "rb");
  float *other = train_new (n + 1, sizeof (float));
  double difference = 0.0, norm = 0.0;
  size_t n_read = file != NULL ? fread (other, sizeof (float), n + 1, file) : 0;

  if (file != NULL)
    fclose (file);
  for (size_t i = 0; i < n; i++)
    {
      difference += pow ((double) final[i] - (double) other[i], 2);
      norm += pow ((double) other[i], 2);
    }
  free (other);
  if (n_read != n)
    return train_fail (error, "cannot compare with '%s': it has not %zu parameters", options->compare_path, n);
  difference = sqrt (difference / norm);
  fprintf (stderr, "relative difference from %s: %.3g\n", options->compare_path, difference);
  return difference <= options->tolerance || train_fail (error, "parameters differ from '%s' by %.3g, allowed: %g",
                                                         options->compare_path, difference, options->tolerance);
}

static bool
check_zero (const TrainOptions *options, const TrainSchedule *schedule, TrainError *error)
{
  if (options->zero == 0)
    return true;
  if (!schedule->whole)
    return train_fail (error, "--zero: '%d' needs a schedule in which every rank holds every part", options->zero);
  if (schedule->updates && options->zero < 3)
    return train_fail (error, "--zero: '%d' needs lists without U words, allowed: 0 and 3", options->zero);
  if (!schedule->updates && options->update > TRAIN_UPDATE_SYNCHRONOUS)
    return train_fail (error, "--zero: '%d' with --update %s needs lists with U words", options->zero,
                       train_update_names[options->update]);
  return true;
}

static bool
finish (TrainRun *run, const double *losses, const float *final, bool replicas_equal, TrainError *error)
{
  size_t n = 0;

  for (int i = 0; i < run->model->n_parts; i++)
    n += run->model->parts[i].n_parameters;
  train_report_end (stdout, run, losses, final, replicas_equal);
  if (!replicas_equal)
    return train_fail (error, "ranks that hold the same part ended with different parameters");
  if (run->options->parameters_path != NULL && !write_parameters (run->options->parameters_path, final, n, error))
    return false;
  return run->options->compare_path == NULL || compare_parameters (run->options, final, n, error);
}

static bool
train (TrainOptions *options, TrainError *error)
{
  TrainSchedule *schedule = NULL;
  TrainPlan *plan = NULL;
  DataSet *data = NULL;
  TrainModel *model = NULL;
  TrainRun run = { .options = options };
  float *final = NULL;
  double *losses = NULL;
  int n_batches = options->workers > 0 ? options->workers : 1, n_workers = n_batches;
  int n_parts = options->stages > 0 ? options->stages : 1;
  size_t n_parameters = 0;
  bool good = true;

  if (options->schedule_path != NULL)
    {
      TrainPlanFlags flags =
          (options->zero == 3 ? TRAIN_PLAN_OWNED : 0) | (options->unchecked ? TRAIN_PLAN_UNCHECKED : 0);

      schedule = train_schedule_load (options->schedule_path, error);
      if (schedule != NULL && schedule->n_ranks == 1)
        options->zero = 0;
      if (schedule != NULL && options->zero >= 2) /* gathers and reductions go block by block */
        train_schedule_split (schedule, options->blocks);
      good = schedule != NULL && check_zero (options, schedule, error) &&
             (plan = train_plan_new (schedule, options->steps, options->update, flags, error)) != NULL &&
             (options->zero == 0 || plan->n_versions == 2 ||
              train_fail (error, "--zero: '%d' keeps two versions of the parameters, the lists need %d", options->zero,
                          plan->n_versions));
      if (good)
        {
          n_batches = plan->n_batches;
          n_workers = options->workers > 0 ? options->workers : plan->n_workers;
          n_parts = options->stages > 0 && options->reference ? options->stages : schedule->n_parts;
        }
    }
  if (options->blocks == 0)
    options->blocks = n_parts;
  if (good && options->blocks < n_parts)
    good = train_fail (error, "--blocks: '%d' is fewer than the %d parts", options->blocks, n_parts);
  run.plan = plan;
  good = good && train_run_set_batches (&run, n_batches, error) &&
         (data = data_set_open (options->data, options->width, options->seed, error)) != NULL;
  if (good)
    {
      model = train_model_new (n_parts, options->blocks, options->width, options->uneven, data);
      run.data = data;
      run.model = model;
      for (int i = 0; i < n_parts; i++)
        n_parameters += model->parts[i].n_parameters;
      final = train_new (n_parameters, sizeof (float));
      train_device_prepare ();
    }
  if (good && options->reference)
    {
      TrainUpdate update = options->update == TRAIN_UPDATE_FILE ? TRAIN_UPDATE_SYNCHRONOUS : options->update;

      losses = train_new ((size_t) options->steps, sizeof (double));
      train_report_begin (stdout, &run, update);
      train_reference (&run, update, n_workers, losses, final);
      train_report_losses (stdout, &run, losses);
      good = finish (&run, losses, final, true, error);
    }
  else if (good)
    {
      run.shared = train_shared_new (plan, model, run.max_rows, options->zero > 0, options->timeout_s, error);
      good = run.shared != NULL;
      if (good)
        train_report_begin (stdout, &run, options->update);
      good = good && run_ranks (&run, error);
      if (good)
        train_report_run (stdout, &run);
      good = good && finish (&run, NULL, final, collect (&run, final), error);
    }
  train_shared_free (run.shared);
  free (run.batch_rows);
  free (run.batch_first);
  free (losses);
  free (final);
  train_model_free (model);
  data_set_free (data);
  train_plan_free (plan);
  train_schedule_free (schedule);
  return good;
}

int
main (int argc, char **argv)
{
  TrainOptions options;
  TrainError error = { "" };
  bool help, good;

  if (!train_options_parse (argc, argv, &options, &help, &error))
    {
      fprintf (stderr, "train-%s: %s\n", train_device_name, error.text);
      train_options_clear (&options);
      return 2;
    }
  if (help)
    {
      train_options_help (argv[0]);
      return 0;
    }
  if (!has_device ())
    return EXIT_NO_DEVICE;
  good = train (&options, &error);
  if (!good)
    {
      fflush (stdout);
      fprintf (stderr, "train-%s: %s\n", train_device_name, error.text);
    }
  train_options_clear (&options);
  return good ? 0 : 1;
}
