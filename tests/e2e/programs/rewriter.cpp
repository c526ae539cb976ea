// SPDX-License-Identifier: BSD-3-Clause
// e2e_rewriter DIR: restores the newest checkpoint in DIR and checks every element of it, prints "restored NUMBER" (0:
// there was none), then saves checkpoints without end until it is killed, each "committed NUMBER" when it is. Every
// element of a state is the number of its checkpoint, so that a mixture of two would be seen.

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <vector>

#include "reprieve/reprieve.hpp"

namespace {

void run(const char* directory) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  constexpr std::uint64_t kPart = (5U << 17U) + 11;  // 5 MiB, not a whole number of pages
  std::vector<std::uint64_t> field(kPart);
  std::vector<std::uint64_t> small(100);
  reprieve::Checkpoint checkpoint;
  checkpoint.add_distributed(
      "field", field.data(),
      {{kPart * static_cast<std::uint64_t>(size)}, {kPart * static_cast<std::uint64_t>(rank)}, {kPart}});
  checkpoint.add_per_rank("small", small);
  reprieve::ManagerOptions options;
  options.max_to_keep = 1;
  options.io = reprieve::FileIo::direct;
  reprieve::CheckpointManager manager(MPI_COMM_WORLD, checkpoint, directory, options);
  std::uint64_t number = 0;
  if (const auto restored = manager.restore_or_initialize()) {
    number = restored->number;
    const auto is_right = [number](std::uint64_t value) { return value == number; };
    if (!std::all_of(field.begin(), field.end(), is_right) || !std::all_of(small.begin(), small.end(), is_right)) {
      throw std::runtime_error("the checkpoint holds values of another one");
    }
  }
  if (rank == 0) {
    std::cout << "restored " << number << std::endl;
  }
  while (true) {
    ++number;
    std::fill(field.begin(), field.end(), number);
    std::fill(small.begin(), small.end(), number);
    manager.save(number);
    if (rank == 0) {
      std::cout << "committed " << number << std::endl;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: e2e_rewriter DIR\n";
    return 2;
  }
  MPI_Init(&argc, &argv);
  try {
    run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "e2e_rewriter: " << error.what() << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return 0;
}
