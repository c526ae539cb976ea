// SPDX-License-Identifier: BSD-3-Clause
// A program that catches nothing, as the first program of most people.
//   e2e_unhandled DIRECTORY [MISTAKE]   makes three steps with a checkpoint after each

#include <unistd.h>

#include <reprieve/reprieve.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct State {
  std::vector<double> field = std::vector<double>(8, 1.0);
  std::vector<float> narrow = std::vector<float>(8, 1.0F);
  std::uint64_t seed = 7;
};

void describe(reprieve::Checkpoint& checkpoint, State& state, const std::string& mistake, int rank, int ranks) {
  const auto all = static_cast<std::uint64_t>(ranks) * (mistake == "shape" ? 9 : 8);
  const std::string name = mistake == "name" ? "feild" : "field";
  const auto mine = static_cast<std::uint64_t>(rank) * 8;
  if (mistake == "type") {
    checkpoint.add_distributed(name, state.narrow, reprieve::DistributedLayout{{all}, {mine}, {8}});
  } else {
    checkpoint.add_distributed(name, state.field, reprieve::DistributedLayout{{all}, {mine}, {8}});
  }
  checkpoint.add_per_rank("seed", state.seed);
  if (mistake == "twice") {
    checkpoint.add_per_rank("seed", state.seed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  reprieve::watch_signals();
  MPI_Init(&argc, &argv);
  const std::string directory = argc > 1 ? argv[1] : "";
  const std::string mistake = argc > 2 ? argv[2] : "";
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  State state;
  reprieve::Checkpoint checkpoint;
  describe(checkpoint, state, mistake, rank, ranks);
  {
    reprieve::TerminationConfig config;
    config.save_every_steps = 1;
    if (mistake == "preempted") {
      config.exit_fn = reprieve::throw_preempted;
    }
    reprieve::PreemptionCheckpointHandler handler(MPI_COMM_WORLD, checkpoint, directory, config);
    const auto end = handler.total_run_calls() + (mistake == "preempted" ? 100 : 3);
    while (handler.total_run_calls() < end) {
      handler.run([&] {
        state.field[0] += 1;
        if (mistake == "step" && rank == 1) {
          throw std::runtime_error("the pressure is negative");
        }
        if (mistake == "preempted") {
          raise(SIGTERM);
          usleep(20'000);
        }
      });
      if (mistake == "outside" && rank == 1) {
        throw std::runtime_error("the mesh is empty");
      }
    }
  }
  MPI_Finalize();
  return 0;
}
