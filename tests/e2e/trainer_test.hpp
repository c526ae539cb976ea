// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests of the trainer have in common: one small training that is started, disturbed, resumed, and compared
/// with the same training left alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "e2e/limits.hpp"
#include "support/process.hpp"

namespace reprieve::test {

using Options = std::vector<std::string>;

/// Options of a job that is to be stopped: left alone, it would last more than 20 s.
Options slow(const Options& more = {});

class TrainerTest : public ::testing::Test {
 protected:
  struct Result {
    int code = -1;  ///< of mpirun; -1: it hung
    std::string out;
    std::string err;
    nlohmann::json summary;  ///< null if the run wrote none
  };

  /// The command that trains in `checkpoints_`, again or from where it stopped.
  [[nodiscard]] MpiCommand command(int ranks, const Options& options = {}) const;

  [[nodiscard]] std::unique_ptr<Mpirun> start(const MpiCommand& command) const;
  [[nodiscard]] std::unique_ptr<Mpirun> start(int ranks, const Options& options = {}) const;

  /// Starts a slow training that saves every few steps, and waits until it has saved @p saves times.
  [[nodiscard]] std::unique_ptr<Mpirun> start_and_wait(int ranks, std::size_t saves = 1) const;

  /// Waits for the end of a job.
  [[nodiscard]] Result finish(Mpirun& job) const;
  static void wait_for_end(Mpirun& job);

  [[nodiscard]] Result run(int ranks, const Options& options = {}) const { return finish(*start(ranks, options)); }

  /// Waits for the end of a job that had a notice: all ranks must have left together, with a checkpoint.
  [[nodiscard]] Result expect_preempted(Mpirun& job) const;

  /// Resumes from the newest checkpoint at full speed: the run must end in the same state as an undisturbed one.
  Result expect_same_end(int ranks, const Options& options = {}) const;

  /// The same of a run that has ended, from whichever checkpoint it resumed.
  void check_same_end(const Result& result, int ranks) const;

  /// The state in which the training ends if nothing disturbs it. It is run once for every build and number of ranks:
  /// the other tests, which are processes of their own, find the digest in a file.
  static std::string undisturbed_digest(int ranks);

  /// The events of this name, of all runs in `checkpoints_`.
  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& name) const;

  /// Waits until there are so many. @throws std::runtime_error if the job ends before
  void wait_for_events(Mpirun& job, const std::string& name, std::size_t count) const;

  /// Waits until a rank handles a signal itself. @throws std::runtime_error if the job ends before
  static void wait_for_handler(Mpirun& job, int rank, int signal);

  /// The committed checkpoints, oldest first.
  [[nodiscard]] std::vector<std::filesystem::path> checkpoint_files() const;

  /// Every committed checkpoint must be valid.
  void expect_sound_checkpoints() const;

  /// Besides, nothing temporary may be left.
  void expect_tidy_directory() const;

  TemporaryDirectory directory_;
  std::filesystem::path checkpoints_ = directory_ / "checkpoints";
  std::filesystem::path summary_ = directory_ / "summary.json";
};

/// Tests that run on every number of ranks.
class TrainerOnRanks : public TrainerTest, public ::testing::WithParamInterface<int> {
 protected:
  [[nodiscard]] static int ranks() { return GetParam(); }

  /// Another one on each call, but the same ones every time that the test runs.
  [[nodiscard]] int random_rank() { return std::uniform_int_distribution(0, ranks() - 1)(random_); }
  [[nodiscard]] std::chrono::milliseconds random_time(std::chrono::milliseconds longest);

  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

inline std::string ranks_text(const ::testing::TestParamInfo<int>& ranks) {
  return std::to_string(ranks.param) + "Ranks";
}

/// Instantiates a suite of TrainerOnRanks.
#define REPRIEVE_ON_RANKS(Suite) INSTANTIATE_TEST_SUITE_P(Trainer, Suite, ::testing::Values(1, 2, 3, 4, 8), ranks_text)

}  // namespace reprieve::test
