// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the programs of these tests have in common.

#include <mpi.h>

#include <iostream>
#include <string>

namespace reprieve::test {

struct World {
  World() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  int rank = 0;
  int size = 1;
};

/// Rank 0 prints a line.
inline void tell(const World& world, const std::string& text) {
  if (world.rank == 0) {
    std::cout << text << std::endl;
  }
}

/// The text that all ranks have, or one that says that they do not have the same.
inline std::string agreed(const std::string& mine) {
  int size = static_cast<int>(mine.size());
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::string of_rank_0 = mine;
  of_rank_0.resize(static_cast<std::size_t>(size));
  MPI_Bcast(of_rank_0.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD);
  int different = mine == of_rank_0 ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &different, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return different != 0 ? "different outcomes, of rank 0: " + of_rank_0 : of_rank_0;
}

}  // namespace reprieve::test
