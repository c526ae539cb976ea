// SPDX-License-Identifier: BSD-3-Clause
// A loop over the C interface that asks for no status: reports a failure in its third step, and "done" if its loop ends
// as one does that has made all steps.

#include <mpi.h>

#include <cstdio>

#include "reprieve/reprieve.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  reprieve_checkpoint* state = nullptr;
  reprieve_handler* handler = nullptr;
  reprieve_checkpoint_create(&state);
  if (reprieve_handler_open(MPI_COMM_WORLD, state, argv[1], nullptr, &handler) != REPRIEVE_OK) {
    reprieve_abort();
  }
  int steps = 0;
  while (reprieve_next_step(handler, 10, nullptr) != 0) {
    if (++steps == 3) {
      reprieve_fail(handler, "the solver diverges");
    }
  }
  std::puts("done");
  reprieve_handler_close(&handler);
  reprieve_checkpoint_destroy(&state);
  MPI_Finalize();
  return 0;
}
