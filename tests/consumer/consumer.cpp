// SPDX-License-Identifier: BSD-3-Clause
// A small program of a user: the ten lines of the README, made complete. Every step adds to every element its global
// index, so that the end tells whether each step was done once.

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <reprieve/reprieve.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t kRows = 60;
constexpr std::uint64_t kColumns = 10;

struct Part {
  std::uint64_t first_row;
  std::uint64_t rows;
};

Part my_part(std::uint64_t rank, std::uint64_t ranks) {
  const std::uint64_t first = kRows * rank / ranks;
  return {first, kRows * (rank + 1) / ranks - first};
}

double index_of(const Part& part, std::size_t element) {
  return static_cast<double>(part.first_row * kColumns + element);
}

void advance(std::vector<double>& field, const Part& part) {
  for (std::size_t i = 0; i < field.size(); ++i) {
    field[i] += index_of(part, i);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

bool is_right(const std::vector<double>& field, const Part& part, std::uint64_t steps) {
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (field[i] != static_cast<double>(steps) * index_of(part, i)) {
      return false;
    }
  }
  return true;
}

/// Returns whether the field is right after @p steps steps, on every rank.
bool simulate(int rank, int ranks, std::uint64_t steps) {
  const Part part = my_part(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(ranks));
  std::vector<double> field(part.rows * kColumns);
  reprieve::Checkpoint state;
  state.add_distributed(
      "field", field,
      {.global_shape = {kRows, kColumns}, .offset = {part.first_row, 0}, .extent = {part.rows, kColumns}});

  reprieve::PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state, "checkpoints");
  if (rank == 0) {
    std::cout << "begins at step " << handler.total_run_calls() << std::endl;
  }
  while (handler.total_run_calls() < steps) {
    handler.run([&] { advance(field, part); });
    if (rank == 0 && handler.total_run_calls() % 10 == 0) {
      std::cout << "process " << getpid() << " did step " << handler.total_run_calls() << std::endl;
    }
  }
  handler.finish();
  int right = is_right(field, part, steps) ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return right == 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t steps = argc > 1 ? std::stoull(argv[1]) : 200;
  reprieve::watch_signals();
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool right = simulate(rank, ranks, steps);
  if (rank == 0) {
    std::cout << (right ? "finished, and right" : "finished, and wrong") << std::endl;
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
