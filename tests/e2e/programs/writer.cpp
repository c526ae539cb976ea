// SPDX-License-Identifier: BSD-3-Clause
// e2e_writer DIR VARIANT NUMBER...: saves a state with variables of every kind as the checkpoints NUMBER... in DIR.
// VARIANT is "plain", or names what is not as in the plain state (see `vary`), or is "hold": the plain state, and then
// the process keeps the directory until it is killed.

#include <mpi.h>
#include <unistd.h>

#include <complex>
#include <cstdint>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "reprieve/reprieve.hpp"

namespace {

struct Node {
  std::int64_t number;
  std::uint64_t next;  // an address
};

}  // namespace

template <>
inline constexpr bool reprieve::enable_record<Node> = true;

namespace {

struct State {
  State(int rank, int size) : layout{{8, 100}, {first_row(rank, size), 0}, {rows(rank, size), 100}} {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = 0.5 * static_cast<double>(i);
    }
    weights[500] = 12345.678;  // found in the file by tests that corruption it
    field.assign(layout.extent[0] * 100, 1.0);
    counts.assign(static_cast<std::size_t>(rank) + 3, rank);
  }

  static std::uint64_t first_row(int rank, int size) {
    return 8 * static_cast<std::uint64_t>(rank) / static_cast<std::uint64_t>(size);
  }
  static std::uint64_t rows(int rank, int size) { return first_row(rank + 1, size) - first_row(rank, size); }

  std::int64_t position = 42;
  bool done = false;
  std::string name = "digits";
  std::vector<double> weights = std::vector<double>(1000);
  std::vector<float> narrow_weights = std::vector<float>(1000);
  std::vector<std::complex<double>> spectrum = std::vector<std::complex<double>>(10, {1.0, -1.0});
  reprieve::DistributedLayout layout;
  std::vector<double> field;
  std::vector<std::int32_t> counts;
  std::minstd_rand engine{7};
  std::vector<Node> nodes;
};

/// Changes values, or shapes of vectors.
void vary(State& state, const std::string& variant, int rank, int size) {
  if (variant == "weights") {
    state.weights[7] += 0.25;
    state.weights[9] -= 1.5;
  } else if (variant == "nan") {
    state.weights[3] = std::numeric_limits<double>::quiet_NaN();
  } else if (variant == "field" && rank == size - 1) {
    state.field[state.field.size() - 83] += 1e-6;  // the global index [7, 17]
  } else if (variant == "counts" && rank == size - 1) {
    state.counts[2] -= 10;
  } else if (variant == "rank_shape" && rank == size - 1) {
    state.counts.push_back(0);
  } else if (variant == "shape") {
    state.weights.resize(999);
  } else if (variant == "several") {
    state.done = true;
    state.name = "digitz";
    state.spectrum[4] += std::complex<double>(3.0, 4.0);
    state.engine.seed(8);
  } else if (variant == "nodes") {
    state.nodes = {{1, 0x7f0000001000}, {2, 0x7f0000001010}, {3, 0}};
  } else if (variant == "nodes_in_other_order") {
    state.nodes = {{2, 0x7f0000001010}, {1, 0x7f0000001000}, {3, 0}};
  } else if (variant == "nodes_elsewhere") {
    state.nodes = {{1, 0x7f0000101000}, {2, 0x7f0000101010}, {259, 0}};
  }
}

/// Registers the state; some variants change what is registered.
void add(reprieve::Checkpoint& checkpoint, State& state, const std::string& variant) {
  checkpoint.add_replicated("position", state.position);
  checkpoint.add_replicated("done", state.done);
  if (variant == "kind") {
    checkpoint.add_per_rank("name", state.name);
  } else if (variant != "missing") {
    checkpoint.add_replicated("name", state.name);
  }
  if (variant == "type") {
    checkpoint.add_replicated("model/weights", state.narrow_weights);
  } else {
    checkpoint.add_replicated("model/weights", state.weights);
  }
  checkpoint.add_replicated("spectrum", state.spectrum);
  checkpoint.add_distributed("field", state.field.data(), state.layout);
  checkpoint.add_per_rank("counts", state.counts);
  checkpoint.add_per_rank("engine", state.engine);
  if (!state.nodes.empty()) {
    checkpoint.add_per_rank("nodes", state.nodes);
  }
}

void write(const std::string& directory, const std::string& variant, const std::vector<std::uint64_t>& numbers) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  State state(rank, size);
  vary(state, variant, rank, size);
  reprieve::Checkpoint checkpoint;
  add(checkpoint, state, variant);
  reprieve::ManagerOptions options;
  options.max_to_keep = 0;
  reprieve::CheckpointManager manager(MPI_COMM_WORLD, checkpoint, directory, options);
  for (const std::uint64_t number : numbers) {
    reprieve::CheckpointManager::SaveRequest request;
    request.number = number;
    request.run_calls = 10 * number;
    request.reason.message = "by the test";
    manager.save(request);
  }
  if (variant == "hold") {
    std::cout << "holding" << std::endl;
    while (true) {
      ::pause();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: e2e_writer DIR VARIANT NUMBER...\n";
    return 2;
  }
  MPI_Init(&argc, &argv);
  try {
    std::vector<std::uint64_t> numbers;
    for (int i = 3; i < argc; ++i) {
      numbers.push_back(std::stoull(argv[i]));
    }
    write(argv[1], argv[2], numbers);
  } catch (const std::exception& error) {
    std::cerr << "e2e_writer: " << error.what() << '\n';
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
