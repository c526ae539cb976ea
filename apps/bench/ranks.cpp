// SPDX-License-Identifier: BSD-3-Clause
#include "ranks.hpp"

#include "cluster/communicator.hpp"

namespace reprieve::bench {

using cluster::check_mpi;

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

void meet(MPI_Comm comm) { check_mpi(MPI_Barrier(comm), "MPI_Barrier"); }

double greatest(MPI_Comm comm, double mine) {
  double all = 0;
  check_mpi(MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, comm), "MPI_Allreduce");
  return all;
}

}  // namespace reprieve::bench
