/* SPDX-License-Identifier: BSD-3-Clause */
/* What only the world outside can break: full disks, missing rights, MPI itself. The code of
 * each is the same on every rank, what was saved before stays, and where ranks are still there the next save works. */
#define _XOPEN_SOURCE 700

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { kElements = 1 << 16 };

/* A manager with half a megabyte of state on each rank. */
typedef struct Job {
  double* data;
  Parts parts;
} Job;

static void fill(double* data, double value) {
  for (int i = 0; i < kElements; ++i) {
    data[i] = value + i;
  }
}

static Job new_job(void) {
  const int64_t elements = kElements;
  Job job = {malloc(kElements * sizeof(double)), test_parts()};
  CHECK(job.data != NULL);
  fill(job.data, 1);
  CHECK_OK(reprieve_add_per_rank(job.parts.state, "data", REPRIEVE_DOUBLE, job.data, 1, &elements, NULL, NULL, NULL));
  return job;
}

static void open_job(Job* job) { CHECK_OK(test_open_manager(&job->parts)); }

static void end_job(Job* job) {
  test_end(&job->parts);
  free(job->data);
}

/* Where even root may make no directory. */
static void no_permission_to_open(void) {
  Job job = new_job();
  CHECK_ERROR(REPRIEVE_ERROR_PERMISSION, "/sys/reprieve-checkpoints",
              reprieve_handler_open(MPI_COMM_WORLD, job.parts.state, "/sys/reprieve-checkpoints", job.parts.config,
                                    &job.parts.handler));
  CHECK_SAME_MESSAGE();
  CHECK(job.parts.handler == NULL);
  end_job(&job);
}

static void pause_ms(long milliseconds) {
  const struct timespec time = {0, 1000000 * milliseconds};
  nanosleep(&time, NULL);
}

/* All communicators that MPI has to give are in use. The program's own way of dealing with errors, to end all ranks, is
 * not that of the library. */
static void mpi_that_fails(void) {
  enum { kMost = 100000 };
  if (test_size() > 1) {
    return; /* with others, Open MPI 4.1 writes to freed memory when it has run out (ompi_comm_nextcid) */
  }
  MPI_Comm* taken = malloc(kMost * sizeof *taken);
  int count = 0;
  Job job = new_job();
  CHECK(taken != NULL);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  while (count < kMost && MPI_Comm_dup(MPI_COMM_WORLD, &taken[count]) == MPI_SUCCESS) {
    ++count;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  CHECK(count > 0 && count < kMost);
  CHECK_ERROR(REPRIEVE_ERROR_MPI, "MPI_Comm_dup failed: ", test_open_handler(&job.parts));
  CHECK(job.parts.handler == NULL);
  CHECK_STATUS(REPRIEVE_ERROR_MPI, test_open_manager(&job.parts));
  while (count > 0) {
    MPI_Comm_free(&taken[--count]);
  }
  free(taken);
  MPI_Errhandler after;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
  CHECK(after == MPI_ERRORS_ARE_FATAL);
  open_job(&job);
  CHECK_OK(reprieve_manager_save(job.parts.manager, 1));
  end_job(&job);
}

static void communicator_of_the_wrong_kind(void) {
  MPI_Comm half;
  MPI_Comm between;
  Job job = new_job();
  if (test_size() > 1) {
    MPI_Comm_split(MPI_COMM_WORLD, test_rank() == 0, test_rank(), &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, test_rank() == 0 ? 1 : 0, 7, &between);
    CHECK_USAGE("intercommunicator",
                reprieve_manager_open(between, job.parts.state, test_path("c"), job.parts.config, &job.parts.manager));
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
  }
  end_job(&job);
}

/* ---- Ranks that fail while the others wait for them. ---- */

typedef struct Abort {
  int calls;
  int exit_code;
  int size;
} Abort;

/* Comes to where the others wait. Another program would end the job. */
static void let_the_others_go(MPI_Comm comm, int exit_code, void* user) {
  Abort* seen = user;
  ++seen->calls;
  seen->exit_code = exit_code;
  MPI_Comm_size(comm, &seen->size);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void peers_that_are_stuck(void) {
  Abort seen = {0, 0, 0};
  Job job = new_job();
  CHECK_OK(reprieve_config_set(job.parts.config, "termination.error_timeout_s", "1"));
  /* The others are left alone at the end. */
  CHECK_OK(reprieve_config_set(job.parts.config, "termination.peer_timeout_s", "2"));
  CHECK_OK(reprieve_config_set(job.parts.config, "log.level", "off"));
  CHECK_OK(reprieve_config_set(job.parts.config, "log.other_ranks", "off"));
  CHECK_OK(reprieve_config_set_abort_fn(job.parts.config, let_the_others_go, &seen));
  CHECK_OK(test_open_handler(&job.parts));
  CHECK_OK(reprieve_step_begin(job.parts.handler));
  if (test_rank() == test_size() - 1) {
    CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "the matrix is singular",
                reprieve_fail(job.parts.handler, "the matrix is singular"));
    CHECK(seen.calls == (test_size() > 1 ? 1 : 0));
    CHECK(seen.calls == 0 || (seen.exit_code == 1 && seen.size == test_size()));
  } else {
    MPI_Barrier(MPI_COMM_WORLD); /* a collective call of the program's: it waits for the rank that failed */
    CHECK(seen.calls == 0);
    CHECK_OK(reprieve_step_end(job.parts.handler));
  }
  if (test_rank() == test_size() - 1) {
    CHECK_OK(reprieve_handler_close(&job.parts.handler)); /* it has told its error */
  } else {
    CHECK_STATUS(REPRIEVE_ERROR_UNRESPONSIVE, reprieve_handler_close(&job.parts.handler));
  }
  end_job(&job);
}

/* The save is made all the same, and the ranks leave when it is done. */
static void grace_that_is_far_too_short(void) {
  Job job = new_job();
  reprieve_notice notice;
  reprieve_save_report report;
  int saved = 0;
  int status = REPRIEVE_OK;
  CHECK_OK(reprieve_config_set(job.parts.config, "termination.grace_period_s", "0.000001"));
  CHECK_OK(test_open_handler(&job.parts));
  while (reprieve_next_step(job.parts.handler, 100000, &status)) {
    if (test_rank() == 0 && reprieve_total_run_calls(job.parts.handler) == 3) {
      raise(SIGUSR1);
    }
    pause_ms(1);
  }
  CHECK_STATUS(REPRIEVE_PREEMPTED, status);
  CHECK_OK(reprieve_preemption_notice(job.parts.handler, &notice));
  CHECK(notice.has_deadline == 1 && notice.time_left_s < 0);
  CHECK_OK(reprieve_last_save(job.parts.handler, &saved, &report));
  CHECK(saved == 1 && report.number == reprieve_total_run_calls(job.parts.handler));
  end_job(&job);
}

const Test fault_tests[] = {{"no_permission_to_open", no_permission_to_open},
                            {"mpi_that_fails", mpi_that_fails},
                            {"communicator_of_the_wrong_kind", communicator_of_the_wrong_kind},
                            {"peers_that_are_stuck", peers_that_are_stuck},
                            {"grace_that_is_far_too_short", grace_that_is_far_too_short},
                            {NULL, NULL}};
