/* SPDX-License-Identifier: BSD-3-Clause */
/* The same as consumer.cpp, in C: every step adds to every element its global index. */
#define _POSIX_C_SOURCE 200809L

#include <mpi.h>
#include <reprieve/reprieve.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { kRows = 60, kColumns = 10 };

static void advance(double* field, int first, int rows) {
  const struct timespec time = {0, 20000000};
  for (int i = 0; i < rows * kColumns; ++i) {
    field[i] += first * kColumns + i;
  }
  nanosleep(&time, NULL);
}

static int is_right(const double* field, int first, int rows, double steps) {
  for (int i = 0; i < rows * kColumns; ++i) {
    if (field[i] != steps * (first * kColumns + i)) {
      return 0;
    }
  }
  return 1;
}

/* Returns the code of the first call that failed. */
static int simulate(double* field, int rank, int first, int rows, uint64_t steps) {
  const int64_t shape[] = {kRows, kColumns}, offset[] = {first, 0}, extent[] = {rows, kColumns};
  reprieve_checkpoint* state = NULL;
  reprieve_handler* handler = NULL;
  reprieve_checkpoint_create(&state);
  reprieve_add_distributed(state, "field", REPRIEVE_DOUBLE, field, 2, shape, offset, extent, NULL);
  int status = reprieve_handler_open(MPI_COMM_WORLD, state, "checkpoints", NULL, &handler);
  if (rank == 0 && status == REPRIEVE_OK) {
    printf("begins at step %llu\n", (unsigned long long)reprieve_total_run_calls(handler));
  }
  while (status == REPRIEVE_OK && reprieve_next_step(handler, steps, &status)) {
    const unsigned long long step = reprieve_total_run_calls(handler) + 1;
    advance(field, first, rows);
    if (rank == 0 && step % 10 == 0) {
      printf("process %d did step %llu\n", (int)getpid(), step);
      fflush(stdout);
    }
  }
  if (status != REPRIEVE_OK) {
    fprintf(stderr, "%s\n", reprieve_last_error_message());
  }
  reprieve_handler_close(&handler);
  reprieve_checkpoint_destroy(&state);
  return status;
}

int main(int argc, char** argv) {
  const uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 200;
  int rank = 0, size = 1, right = 0;
  reprieve_watch_signals();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int first = kRows * rank / size;
  const int rows = kRows * (rank + 1) / size - first;
  double* field = calloc((size_t)(rows * kColumns), sizeof(double));
  const int status = simulate(field, rank, first, rows, steps);
  right = status == REPRIEVE_OK && is_right(field, first, rows, (double)steps);
  MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("finished, and %s\n", right ? "right" : "wrong");
  }
  free(field);
  MPI_Finalize();
  return right ? 0 : 1;
}
