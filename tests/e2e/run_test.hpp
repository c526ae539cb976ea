// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests of `reprieve run` have in common: small simulations (programs/steps.cpp) under it.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace reprieve::test {

/// An mpirun under `reprieve run --json`.
class SupervisedMpirun : public Mpirun {
 public:
  using Mpirun::Mpirun;

  /// The events that were shown so far, or those of one name.
  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& name = "") const;

  /// Waits until so many events of that name were shown.
  [[nodiscard]] bool wait_for_event(const std::string& name, std::size_t count = 1);

  /// Everything that was shown, for messages.
  [[nodiscard]] std::string all_output() const { return out() + err(); }
};

class RunTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 2;
  static constexpr auto kLimit = std::chrono::seconds(120);

  /// How the simulation is started.
  struct Simulation {
    int steps = 60;
    int step_ms = 20;
    std::vector<std::string> faults = {};   ///< see programs/steps.cpp
    std::vector<std::string> options = {};  ///< of `reprieve run`
    std::vector<std::string> mpirun_options = {};
    Environment environment = {};
  };

  [[nodiscard]] std::unique_ptr<SupervisedMpirun> start(const Simulation& simulation) const;

  /// `e2e_steps` and its arguments.
  [[nodiscard]] std::vector<std::string> program_arguments(const Simulation& simulation) const;

  /// Starts it and waits until the ranks are ready and some steps are done.
  [[nodiscard]] std::unique_ptr<SupervisedMpirun> start_and_wait(const Simulation& simulation) const;

  /// Expects that the run ends with the code and leaves no process behind.
  static void expect_end(SupervisedMpirun& run, int code);

  /// Expects that the run saved itself: code 42, a checkpoint, and a record that says so.
  void expect_saved(SupervisedMpirun& run) const;

  /// Runs the simulation again, to its end, and compares its digest with that of an undisturbed run.
  void expect_same_end(Simulation simulation) const;

  /// What an undisturbed run prints at its end.
  static std::string end_of(int steps);

  [[nodiscard]] std::filesystem::path checkpoints() const { return directory_ / "checkpoints"; }

  TemporaryDirectory directory_;
};

}  // namespace reprieve::test
