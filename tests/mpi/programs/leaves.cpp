// SPDX-License-Identifier: BSD-3-Clause
// leaves [alone]: all ranks leave with 42, as after the save for a notice; or rank 0 does, while the others stay for
// ever.

#include <mpi.h>
#include <unistd.h>

#include <cstdio>

#include "reprieve/termination_config.hpp"

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const bool alone = argc > 1;
  while (alone && rank > 0) {
    pause();
  }
  std::printf("rank %d leaves\n", rank);
  reprieve::leave_together(
      {.comm = alone ? MPI_COMM_SELF : MPI_COMM_WORLD, .exit_code = 42, .notice = {}, .checkpoint = ""});
}
