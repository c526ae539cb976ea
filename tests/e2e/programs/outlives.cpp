// SPDX-License-Identifier: BSD-3-Clause
// e2e_outlives DIR NEAR: a manager that lives longer than MPI, with a node-local copy on its way to the partners. Each
// rank says that it is on a host of its own.

#include <mpi.h>

#include <cstdio>
#include <iostream>
#include <vector>

#include "reprieve/reprieve.hpp"

/// In place of MPI's own, which the library asks for the name of its host.
extern "C" int MPI_Get_processor_name(char* name, int* length) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  *length = std::snprintf(name, MPI_MAX_PROCESSOR_NAME, "node%d", rank);
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: e2e_outlives DIR NEAR\n";
    return 2;
  }
  MPI_Init(&argc, &argv);
  std::vector<double> values(std::size_t{1} << 20U);
  reprieve::Checkpoint state;
  state.add_per_rank("values", values);
  reprieve::ManagerOptions options;
  options.local_directory = argv[2];
  options.local_partner = true;
  reprieve::CheckpointManager manager(MPI_COMM_WORLD, state, argv[1], options);
  if (!manager.local_copy()) {
    return 1;
  }
  return MPI_Finalize();
}
