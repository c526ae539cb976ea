/* SPDX-License-Identifier: BSD-3-Clause */
/* A solver in C, in a program whose main part is in Fortran: it adds what it has to the state of the program, and makes
 * the steps. Called by mixed_test.f90. */

#include <mpi.h>

#include "reprieve/reprieve.h"

int solver_register(reprieve_checkpoint* state);
int solver_run(MPI_Fint fortran_comm, reprieve_checkpoint* state, const char* directory, int steps);
void solver_set(double value);
double solver_sum(void);

static double memory[4];

void solver_set(double value) {
  for (int i = 0; i < 4; ++i) {
    memory[i] = value;
  }
}

double solver_sum(void) { return memory[0] + memory[1] + memory[2] + memory[3]; }

int solver_register(reprieve_checkpoint* state) {
  const int64_t shape[] = {4};
  return reprieve_add_per_rank(state, "solver", REPRIEVE_DOUBLE, memory, 1, shape, NULL, NULL, NULL);
}

int solver_run(MPI_Fint fortran_comm, reprieve_checkpoint* state, const char* directory, int steps) {
  reprieve_config* config = NULL;
  reprieve_handler* handler = NULL;
  int status = reprieve_config_create(&config);
  if (status == REPRIEVE_OK) {
    status = reprieve_config_set(config, "log.level", "error");
  }
  if (status == REPRIEVE_OK) {
    status = reprieve_handler_open(MPI_Comm_f2c(fortran_comm), state, directory, config, &handler);
  }
  while (status == REPRIEVE_OK && reprieve_next_step(handler, (uint64_t)steps, &status)) {
    solver_set(memory[0] + 1);
    status = reprieve_request_checkpoint(handler);
  }
  if (handler != NULL) {
    const int closed = reprieve_handler_close(&handler);
    status = status == REPRIEVE_OK ? closed : status;
  }
  const int destroyed = reprieve_config_destroy(&config);
  return status == REPRIEVE_OK ? destroyed : status;
}
