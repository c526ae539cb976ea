/* SPDX-License-Identifier: BSD-3-Clause */
/* The time loop: preemptions by real signals, resumed runs, errors of a rank, scopes, callbacks of the configuration.
 */
#define _XOPEN_SOURCE 700

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

/* A run whose state is a sum over the steps, and which loses its machine at one of them. */
typedef struct Run {
  double sum;
  reprieve_checkpoint* state;
  reprieve_config* config;
  reprieve_handler* handler;
} Run;

static Run new_run(void) {
  const Run run = {0, NULL, test_config(), NULL};
  return run;
}

static void start(Run* run, const char* directory) {
  if (run->state == NULL) {
    CHECK_OK(reprieve_checkpoint_create(&run->state));
    CHECK_OK(reprieve_add_replicated(run->state, "sum", REPRIEVE_DOUBLE, &run->sum, 0, NULL, NULL));
  }
  CHECK_OK(reprieve_handler_open(MPI_COMM_WORLD, run->state, directory, run->config, &run->handler));
}

static void finish(Run* run) {
  CHECK_OK(reprieve_handler_close(&run->handler));
  CHECK_OK(reprieve_checkpoint_destroy(&run->state));
  CHECK_OK(reprieve_config_destroy(&run->config));
}

static void start_anew(Run* run, const char* directory) {
  finish(run);
  *run = new_run();
  start(run, directory);
}

static void pause_us(long microseconds) {
  const struct timespec time = {0, 1000 * microseconds};
  nanosleep(&time, NULL); /* a signal may end it early */
}

static double sum_to(int steps) { return 0.5 * steps * (steps - 1); }

/* A step, at which every rank adds the step number; long enough for a signal to be noticed within the loop. */
static void step(Run* run, int signal_at, int signalled_rank) {
  const int now = (int)reprieve_total_run_calls(run->handler);
  if (now == signal_at && test_rank() == signalled_rank) {
    raise(SIGUSR1);
  }
  run->sum += now;
  pause_us(2000);
}

enum { kSteps = 60 };

static int make_steps(Run* run, int signal_at, int signalled_rank) {
  int status = REPRIEVE_ERROR_INTERNAL;
  while (reprieve_next_step(run->handler, kSteps, &status)) {
    step(run, signal_at, signalled_rank);
  }
  return status;
}

static void preempted_and_resumed(void) {
  Run run = new_run();
  reprieve_notice notice;
  reprieve_checkpoint_info info;
  int code = 0;
  int restored = 7;
  const int last = test_size() - 1;
  start(&run, test_path("c"));
  CHECK_OK(reprieve_restored_from(run.handler, &restored, &info));
  CHECK(restored == 0 && info.path[0] == '\0');
  uint64_t steps = 7;
  CHECK_OK(reprieve_already_finished(run.handler, &restored, &steps));
  CHECK(restored == 0 && steps == 0);
  CHECK_USAGE("reprieve_preempted", reprieve_preemption_notice(run.handler, &notice));
  CHECK_USAGE("REPRIEVE_PREEMPTED", reprieve_exit_code(run.handler, &code));
  CHECK(code == -1);
  CHECK_STATUS(REPRIEVE_PREEMPTED, make_steps(&run, 5, last));
  CHECK(strstr(reprieve_last_error_message(), "the state is saved in") != NULL);
  CHECK_SAME_MESSAGE();
  const uint64_t saved_at = reprieve_total_run_calls(run.handler);
  CHECK(saved_at > 5 && saved_at < kSteps);
  CHECK(run.sum == sum_to((int)saved_at));
  CHECK(reprieve_preempted(run.handler) == 1);
  CHECK_OK(reprieve_preemption_notice(run.handler, &notice));
  CHECK(notice.rank == last && strstr(notice.source, "SIGUSR1") != NULL && notice.host[0] != '\0');
  CHECK(notice.has_deadline == 0);
  CHECK_OK(reprieve_exit_code(run.handler, &code));
  CHECK(code == 42);
  CHECK_USAGE("make a new one", reprieve_step_begin(run.handler));
  finish(&run);
  CHECK_STATUS(REPRIEVE_ERROR_USAGE, reprieve_step_begin(run.handler)); /* closed */

  run = new_run();
  start(&run, test_path("c"));
  CHECK_OK(reprieve_restored_from(run.handler, &restored, &info));
  CHECK(restored == 1 && info.run_calls == saved_at && strcmp(info.reason, "preemption") == 0);
  CHECK(info.files_directory[0] == '\0');
  CHECK(reprieve_total_run_calls(run.handler) == saved_at && run.sum == sum_to((int)saved_at));
  CHECK(reprieve_preempted(run.handler) == 0);
  CHECK_STATUS(REPRIEVE_OK, make_steps(&run, -1, 0));
  CHECK(run.sum == sum_to(kSteps) && reprieve_total_run_calls(run.handler) == kSteps);
  CHECK(reprieve_next_step(run.handler, kSteps, NULL) == 0);
  finish(&run);
}

static void explicit_steps(void) {
  Run run = new_run();
  start(&run, test_path("c"));
  CHECK_USAGE("no step is open", reprieve_step_end(run.handler));
  CHECK_OK(reprieve_save_if_preempted(run.handler));
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(reprieve_step_begin(run.handler));
    CHECK(reprieve_total_run_calls(run.handler) == (uint64_t)i);
    CHECK_USAGE("a step is open", reprieve_step_begin(run.handler));
    CHECK_USAGE("made again after a restart", reprieve_save_if_preempted(run.handler));
    CHECK_OK(reprieve_step_end(run.handler));
    CHECK_OK(reprieve_save_if_preempted(run.handler));
  }
  /* A loop that the program leaves by itself; the last step is not over. */
  int status = REPRIEVE_ERROR_INTERNAL;
  while (reprieve_next_step(run.handler, REPRIEVE_NO_LIMIT, &status)) {
    if (reprieve_total_run_calls(run.handler) == 10) {
      break;
    }
  }
  CHECK_OK(status);
  CHECK_OK(reprieve_handler_finish(run.handler));
  CHECK(reprieve_total_run_calls(run.handler) == 11);
  finish(&run);
}

static void a_rank_fails(void) {
  Run run = new_run();
  const int last = test_size() - 1;
  int status = REPRIEVE_OK;
  start(&run, test_path("c"));
  while (reprieve_next_step(run.handler, 1000, &status)) {
    if (reprieve_total_run_calls(run.handler) == 4 && test_rank() == last) {
      CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "the pressure is negative",
                  reprieve_fail(run.handler, "the pressure is negative"));
      status = REPRIEVE_ERROR_CLUSTER;
      break;
    }
    pause_us(1000);
  }
  CHECK(status == REPRIEVE_ERROR_CLUSTER);
  CHECK(strstr(reprieve_last_error_message(), "the pressure is negative") != NULL);
  CHECK(reprieve_last_error_origin_rank() == last);
  CHECK_SAME_MESSAGE();
  CHECK_USAGE("make a new one", reprieve_save_if_preempted(run.handler));
  start_anew(&run, test_path("c"));
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "no message", reprieve_fail(run.handler, NULL)); /* all ranks at once */
  CHECK_SAME_MESSAGE();
  CHECK(reprieve_last_error_origin_rank() == 0);
  finish(&run);
}

static void scopes(void) {
  Run run = new_run();
  int code = 0;
  int status = REPRIEVE_OK;
  start(&run, test_path("c"));
  CHECK_USAGE("no scope is open", reprieve_scope_end(run.handler));
  CHECK_USAGE("there is no mode", reprieve_scope_begin_with(run.handler, 7));
  CHECK_OK(reprieve_scope_begin(run.handler));
  CHECK_OK(reprieve_scope_begin_with(run.handler, REPRIEVE_SCOPE_SAVE_AT_END));
  while (reprieve_next_step(run.handler, 40, &status)) {
    step(&run, 2, 0);
  }
  CHECK_OK(status); /* only marked */
  CHECK(reprieve_preempted(run.handler) == 1);
  CHECK_OK(reprieve_scope_end(run.handler));
  CHECK_STATUS(REPRIEVE_PREEMPTED, reprieve_scope_end(run.handler));
  CHECK_OK(reprieve_exit_code(run.handler, &code));
  CHECK(code == 42 && run.sum == sum_to(40));
  /* A scope that is left open is ended by the close. */
  start_anew(&run, test_path("c"));
  CHECK(reprieve_total_run_calls(run.handler) == 40);
  CHECK_OK(reprieve_scope_begin_with(run.handler, REPRIEVE_SCOPE_SAVE_AT_END));
  while (reprieve_next_step(run.handler, 80, &status)) {
    step(&run, 42, 0);
  }
  CHECK_STATUS(REPRIEVE_PREEMPTED, reprieve_handler_close(&run.handler));
  CHECK(run.handler != NULL);
  CHECK_OK(reprieve_exit_code(run.handler, &code));
  finish(&run);
}

/* What goes wrong in the last step of one rank reaches all, by whichever loop. */
static void the_last_step_fails(void) {
  const int last = test_size() - 1;
  int status = REPRIEVE_OK;
  Run run = new_run();
  start(&run, test_path("c"));
  CHECK_OK(reprieve_step_begin(run.handler));
  if (test_rank() == last) {
    status = reprieve_fail(run.handler, "the last step failed");
  } else {
    CHECK_OK(reprieve_step_end(run.handler));
    status = reprieve_handler_finish(run.handler);
  }
  CHECK(status == REPRIEVE_ERROR_CLUSTER && reprieve_last_error_origin_rank() == last);
  CHECK_SAME_MESSAGE();
  /* The close tells it too, to those who do not finish. */
  start_anew(&run, test_path("d"));
  CHECK_OK(reprieve_step_begin(run.handler));
  if (test_rank() == last) {
    CHECK_STATUS(REPRIEVE_ERROR_CLUSTER, reprieve_fail(run.handler, "the last step failed"));
    CHECK_OK(reprieve_handler_close(&run.handler));
  } else {
    CHECK_OK(reprieve_step_end(run.handler));
    CHECK_STATUS(REPRIEVE_ERROR_CLUSTER, reprieve_handler_close(&run.handler));
  }
  CHECK(run.handler == NULL);
  finish(&run);
}

/* ---- Callbacks of the configuration. ---- */

static int exits = 0;
static int files = 0;
static volatile sig_atomic_t lost = 0;

static int keep_running(MPI_Comm comm, int exit_code, const char* checkpoint_path, void* user) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  CHECK(size == test_size() && exit_code == 75 && strstr(checkpoint_path, ".h5") != NULL);
  *(int*)user += 1;
  return 0;
}

static int fail_to_leave(MPI_Comm comm, int exit_code, const char* checkpoint_path, void* user) {
  (void)comm;
  (void)exit_code;
  (void)checkpoint_path;
  (void)user;
  return reprieve_callback_error("no way out");
}

static int save_files(const char* write_directory, uint64_t number, int is_chief, void* user) {
  char path[kPathSize];
  CHECK(is_chief == (test_rank() == 0) && number > 0);
  snprintf(path, sizeof path, "%s/notes.txt", write_directory);
  FILE* file = fopen(path, "w");
  if (file == NULL || fclose(file) != 0) {
    return reprieve_callback_error("cannot write notes.txt");
  }
  *(int*)user += 1;
  return 0;
}

static int watch(char* message, size_t message_size, double* time_left_s, void* user) {
  (void)user;
  CHECK(message_size > 10 && message[0] == '\0' && *time_left_s < 0);
  if (lost) {
    snprintf(message, message_size, "the node is wanted back");
    *time_left_s = 0.001;
  }
  return lost ? 1 : 0;
}

/* Fails each time: that is a warning. */
static int copy_elsewhere(const char* checkpoint, void* user) {
  FILE* file = fopen(checkpoint, "rb");
  CHECK(test_rank() == 0 && strstr(checkpoint, ".h5") != NULL && file != NULL && fclose(file) == 0);
  *(uint64_t*)user += 1;
  return reprieve_callback_error("no network");
}

static void callbacks(void) {
  Run run = new_run();
  reprieve_checkpoint_info info;
  int restored = 0;
  uint64_t copies = 0;
  exits = files = 0;
  lost = 0;
  CHECK_OK(reprieve_config_set(run.config, "termination.restart_code", "75"));
  CHECK_OK(reprieve_config_set(run.config, "termination.poll_interval_s", "0.01"));
  CHECK_OK(reprieve_config_set_exit_fn(run.config, keep_running, &exits));
  CHECK_OK(reprieve_config_set_save_fn(run.config, save_files, &files));
  CHECK_OK(reprieve_config_set_watcher_fn(run.config, watch, NULL));
  CHECK_OK(reprieve_config_set_after_commit_fn(run.config, copy_elsewhere, &copies));
  CHECK_OK(reprieve_config_load_json(run.config, reprieve_config_json(run.config))); /* keeps the functions */
  start(&run, test_path("c"));
  int status = REPRIEVE_OK;
  while (reprieve_next_step(run.handler, REPRIEVE_NO_LIMIT, &status)) {
    step(&run, -1, 0);
    lost = test_rank() == 0 && reprieve_total_run_calls(run.handler) >= 5;
    int done = exits;
    MPI_Bcast(&done, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (done > 0) {
      break;
    }
  }
  CHECK_OK(status);
  CHECK(exits >= 1 && files >= 1);
  lost = 0;
  CHECK_OK(reprieve_handler_close(&run.handler));
  CHECK(copies == (test_rank() == 0 ? (uint64_t)files : 0));

  CHECK_OK(reprieve_config_set_watcher_fn(run.config, NULL, NULL));
  CHECK_OK(reprieve_config_set_save_fn(run.config, NULL, NULL));
  CHECK_OK(reprieve_config_set_after_commit_fn(run.config, NULL, NULL));
  CHECK_OK(reprieve_config_set_exit_fn(run.config, fail_to_leave, NULL));
  CHECK_OK(reprieve_handler_open(MPI_COMM_WORLD, run.state, test_path("c"), run.config, &run.handler));
  CHECK_OK(reprieve_restored_from(run.handler, &restored, &info));
  CHECK(restored == 1 && strstr(info.files_directory, ".files") != NULL);
  const int now = (int)reprieve_total_run_calls(run.handler);
  while (reprieve_next_step(run.handler, REPRIEVE_NO_LIMIT, &status)) {
    step(&run, now + 1, 0);
  }
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "the exit function failed: no way out", status);
  finish(&run);
}

static uint64_t own_steps(void* user) { return *(const uint64_t*)user; }

/* A program with a step count of its own, which leaves the loop by itself. */
static void loops_of_the_programs_own(void) {
  Run run = new_run();
  reprieve_save_report report;
  uint64_t steps = 0;
  int saved = 7;
  int code = 0;
  int status = REPRIEVE_OK;
  CHECK_OK(reprieve_config_set(run.config, "termination.save_every_steps", "100"));
  CHECK_OK(reprieve_config_set_exit(run.config, REPRIEVE_EXIT_LATER));
  CHECK_OK(reprieve_config_set_step_fn(run.config, own_steps, &steps));
  CHECK_OK(reprieve_checkpoint_create(&run.state));
  CHECK_OK(reprieve_add_replicated(run.state, "steps", REPRIEVE_UINT64, &steps, 0, NULL, NULL));
  start(&run, test_path("c"));
  CHECK_OK(reprieve_last_save(run.handler, &saved, NULL));
  CHECK(saved == 0);
  while (!reprieve_preempted(run.handler) && steps < 100000) {
    steps += 50; /* sub-cycles */
    if (steps == 500 && test_rank() == 0) {
      raise(SIGUSR1);
    }
    status = reprieve_save_if_preempted(run.handler);
    CHECK_OK(status);
    pause_us(2000);
  }
  CHECK(reprieve_preempted(run.handler) == 1 && steps >= 500 && steps < 100000);
  CHECK_OK(reprieve_exit_code(run.handler, &code));
  CHECK(code == 42);
  CHECK_OK(reprieve_last_save(run.handler, &saved, &report));
  CHECK(saved == 1 && report.number == steps && strstr(report.path, ".h5") != NULL);
  CHECK(report.size_bytes >= sizeof steps && report.seconds > 0 && report.blocked_seconds > 0);
  CHECK_USAGE("pass the address", reprieve_last_save(run.handler, NULL, NULL));
  finish(&run);
}

static void requested_and_periodic_checkpoints(void) {
  Run run = new_run();
  reprieve_checkpoint_info info;
  uint64_t finished_at = 0;
  int finished = 0;
  int restored = 0;
  int status = REPRIEVE_OK;
  CHECK_OK(reprieve_config_set(run.config, "directory", test_path("configured")));
  CHECK_OK(reprieve_config_set(run.config, "termination.save_every_steps", "10"));
  start(&run, NULL);
  while (reprieve_next_step(run.handler, 15, &status)) {
    step(&run, -1, 0);
  }
  CHECK_OK(status);
  CHECK_OK(reprieve_handler_close(&run.handler));

  /* The loop came to its end, so the close has saved its last step. */
  start(&run, NULL);
  CHECK_OK(reprieve_already_finished(run.handler, &finished, &finished_at));
  CHECK(finished == 1 && finished_at == 15);
  CHECK_OK(reprieve_restored_from(run.handler, &restored, &info));
  CHECK(restored == 1 && info.run_calls == 15 && strcmp(info.reason, "user") == 0);
  CHECK_OK(reprieve_begin_phase(run.handler));
  if (test_rank() == test_size() - 1) {
    CHECK_OK(reprieve_request_checkpoint(run.handler));
  }
  while (reprieve_next_step(run.handler, 19, &status)) {
    pause_us(20000);
  }
  CHECK_OK(status);
  CHECK_OK(reprieve_handler_close(&run.handler));
  start(&run, NULL);
  CHECK_OK(reprieve_restored_from(run.handler, &restored, &info));
  CHECK(restored == 1 && info.run_calls == 19 && strcmp(info.reason, "user") == 0);
  finish(&run);
}

static int work(MPI_Comm ranks, void* user) {
  int size = 0;
  int all = 0;
  if (MPI_Comm_size(ranks, &size) != MPI_SUCCESS ||
      MPI_Allreduce(&size, &all, 1, MPI_INT, MPI_SUM, ranks) != MPI_SUCCESS) {
    return reprieve_callback_error("MPI failed");
  }
  *(int*)user = all;
  return REPRIEVE_OK;
}

static int fail_to_work(MPI_Comm ranks, void* user) {
  (void)ranks;
  (void)user;
  return reprieve_callback_error("the mesh is empty");
}

/* Deaths: tests/e2e/resilient_test.cpp. */
static void a_resilient_body(void) {
  const int spares = test_size() > 1 ? 1 : 0;
  const int expected = test_size() - spares;
  int sum = 0;
  int worked = -1;
  CHECK_OK(reprieve_run_resilient(MPI_COMM_WORLD, spares, 1, work, &sum, &worked));
  CHECK(worked == (test_rank() < expected ? 1 : 0));
  CHECK(sum == worked * expected * expected);
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "the mesh is empty",
              reprieve_run_resilient(MPI_COMM_WORLD, 0, 1, fail_to_work, NULL, NULL));
  CHECK_USAGE("leave 0 to work", reprieve_run_resilient(MPI_COMM_WORLD, test_size(), 1, work, &sum, NULL));
  CHECK_USAGE("body is NULL", reprieve_run_resilient(MPI_COMM_WORLD, 0, 1, NULL, NULL, NULL));
}

const Test loop_tests[] = {{"preempted_and_resumed", preempted_and_resumed},
                           {"explicit_steps", explicit_steps},
                           {"a_rank_fails", a_rank_fails},
                           {"scopes", scopes},
                           {"the_last_step_fails", the_last_step_fails},
                           {"callbacks", callbacks},
                           {"loops_of_the_programs_own", loops_of_the_programs_own},
                           {"requested_and_periodic_checkpoints", requested_and_periodic_checkpoints},
                           {"a_resilient_body", a_resilient_body},
                           {NULL, NULL}};
