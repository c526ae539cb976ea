// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests of the handler have in common: a small program under a handler.

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "reprieve/reprieve.hpp"
#include "support/mpi_test.hpp"

namespace reprieve::test {

/// A program with a replicated counter and a distributed array, in which the notice comes at a step of a rank's own.
class Program {
 public:
  explicit Program(const std::filesystem::path& directory) : directory_(directory) {
    config.exit_fn = throw_preempted;
    config.peer_timeout = std::chrono::seconds(20);
    config.error_timeout = std::chrono::seconds(20);
    config.poll_interval = std::chrono::milliseconds(1);
    const auto mine = static_cast<std::uint64_t>(world_rank());
    checkpoint_.add_replicated("counter", counter);
    checkpoint_.add_distributed(
        "field", field.data(),
        {.global_shape = {4 * static_cast<std::uint64_t>(world_size())}, .offset = {4 * mine}, .extent = {4}});
  }

  /// To register more before the start.
  [[nodiscard]] Checkpoint& checkpoint() { return checkpoint_; }

  void start(MPI_Comm comm = MPI_COMM_WORLD) { handler.emplace(comm, checkpoint_, directory_, config, options); }

  /// Runs until @p steps are done in all. Before the step with its number, `before_step` is called.
  void run(
      int steps, const std::function<void(int)>& before_step = [](int) {}) {
    while (handler->total_run_calls() < static_cast<std::uint64_t>(steps)) {
      before_step(static_cast<int>(handler->total_run_calls()));
      handler->run([this] { step(); });
    }
  }

  void step() {
    std::this_thread::sleep_for(step_time);
    ++counter;
    for (std::size_t i = 0; i < field.size(); ++i) {
      field[i] = field[i] * 1.5 + world_rank() + static_cast<double>(i);
    }
  }

  TerminationConfig config;
  ManagerOptions options;
  std::chrono::microseconds step_time{200};
  int counter = 0;
  std::array<double, 4> field{};
  std::optional<PreemptionCheckpointHandler> handler;

 private:
  std::filesystem::path directory_;
  Checkpoint checkpoint_;
};

inline int last_rank() { return world_size() - 1; }

/// For Program::run(): the signal of a notice before that step, to one rank or to all. No rank begins that step
/// before the signal.
inline std::function<void(int)> notice_at(int step, std::optional<int> rank = {}) {
  return [=](int at) {
    if (at == step) {
      if (world_rank() == rank.value_or(world_rank())) {
        std::raise(SIGTERM);
      }
      MPI_Barrier(MPI_COMM_WORLD);
    }
  };
}

/// A program whose checkpoints are in a directory of its own.
class ProgramTest : public testing::Test {
 protected:
  const SharedTemporaryDirectory directory;
  Program program{directory / "run"};
};

/// MPI_THREAD_MULTIPLE.
inline bool all_threads_may_use_mpi() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  return provided == MPI_THREAD_MULTIPLE;
}

/// Every rank has the value of rank 0.
template <class T>
void expect_same_on_all_ranks(T value) {
  auto of_rank_0 = static_cast<std::int64_t>(value);
  MPI_Bcast(&of_rank_0, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  EXPECT_EQ(of_rank_0, static_cast<std::int64_t>(value));
}

/// Runs the program to the end without a notice and returns its field.
inline std::array<double, 4> uninterrupted(int steps) {
  const SharedTemporaryDirectory directory;
  Program program(directory / "reference");
  program.step_time = std::chrono::microseconds(0);
  program.start();
  program.run(steps);
  EXPECT_EQ(program.counter, steps);
  return program.field;
}

}  // namespace reprieve::test
