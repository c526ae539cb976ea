// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests of the trainer have in common: one small training that is started, disturbed, resumed, and compared
/// with the same training left alone.

#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "e2e/limits.hpp"
#include "support/process.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {

using Options = std::vector<std::string>;

namespace trainer {

/// 200 steps: enough for an accuracy that a broken state would not reach.
inline const Options kTraining{"--epochs", "10", "--steps-per-epoch", "20"};

inline MpiCommand training_command(int ranks, const std::filesystem::path& checkpoints,
                                   const std::filesystem::path& summary, const Options& options) {
  const Options paths{"--checkpoint-dir", checkpoints.string(), "--summary", summary.string()};
  return {.ranks = ranks,
          .arguments = joined({program("reprieve-trainer")}, joined(kTraining, joined(paths, options)))};
}

inline std::string train_undisturbed(int ranks) {
  const TemporaryDirectory directory;
  const std::filesystem::path summary = directory / "summary.json";
  Mpirun job(training_command(ranks, directory / "checkpoints", summary, {}));
  if (job.wait(kHang) != 0) {
    throw std::runtime_error("the undisturbed training failed: " + job.err());
  }
  return nlohmann::json::parse(read_text(summary)).at("state_digest");
}

/// Whether a process has a handler of its own for a signal.
inline bool handles(pid_t pid, int signal) {
  std::istringstream status(read_text("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:")) {
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1U) != 0;
    }
  }
  return false;
}

inline void wait_for(Mpirun& job, const std::string& what, const std::function<bool()>& happened) {
  static_cast<void>(wait_until([&] { return happened() || !job.running(); }, kHang));
  if (!happened()) {
    throw std::runtime_error("waited in vain for " + what + "; the job's output:\n" + job.out() + job.err());
  }
}

}  // namespace trainer

/// Options of a job that is to be stopped: left alone, it would last more than 20 s.
inline Options slow(const Options& more = {}) { return joined({"--step-delay-ms", "100"}, more); }

class TrainerTest : public ::testing::Test {
 protected:
  struct Result {
    int code = -1;  ///< of mpirun; -1: it hung
    std::string out;
    std::string err;
    nlohmann::json summary;  ///< null if the run wrote none
  };

  /// The command that trains in `checkpoints_`, again or from where it stopped.
  [[nodiscard]] MpiCommand command(int ranks, const Options& options = {}) const {
    return trainer::training_command(ranks, checkpoints_, summary_, options);
  }

  [[nodiscard]] std::unique_ptr<Mpirun> start(const MpiCommand& command) const {
    std::filesystem::remove(summary_);
    return std::make_unique<Mpirun>(command);
  }
  [[nodiscard]] std::unique_ptr<Mpirun> start(int ranks, const Options& options = {}) const {
    return start(command(ranks, options));
  }

  /// Starts a slow training that saves every few steps, and waits until it has saved @p saves times.
  [[nodiscard]] std::unique_ptr<Mpirun> start_and_wait(int ranks, std::size_t saves = 1) const {
    const std::size_t before = events("save_finished").size();
    auto job = start(ranks, slow({"--checkpoint-every", "4"}));
    wait_for_events(*job, "save_finished", before + saves);
    return job;
  }

  /// Waits for the end of a job.
  [[nodiscard]] Result finish(Mpirun& job) const {
    wait_for_end(job);
    const int code = job.exit_code().value_or(-1);
    const std::string summary = read_text(summary_);
    return {code, job.out(), job.err(), summary.empty() ? nlohmann::json() : nlohmann::json::parse(summary)};
  }

  /// Open MPI 4.1.4 hangs at its end, with no rank left, now and then when a rank was killed while it connected to
  /// mpirun (apps/reprieve/supervisor/processes.hpp); a person would kill it.
  static void wait_for_end(Mpirun& job) {
    const auto end = std::chrono::steady_clock::now() + kHang;
    while (!job.wait(kHungLauncher) && std::chrono::steady_clock::now() < end) {
      // Ranks that have ended this moment leave mpirun its time.
      if (job.descendants().empty() && !job.wait(kHungLauncher)) {
        job.send(SIGKILL);
      }
    }
  }

  [[nodiscard]] Result run(int ranks, const Options& options = {}) const { return finish(*start(ranks, options)); }

  /// Waits for the end of a job that had a notice: all ranks must have left together, with a checkpoint.
  [[nodiscard]] Result expect_preempted(Mpirun& job) const {
    Result result = finish(job);
    EXPECT_EQ(result.code, 42) << result.out << result.err;
    if (result.summary.is_null()) {
      ADD_FAILURE() << "no summary";
      return result;
    }
    EXPECT_EQ(result.summary["status"], "preempted");
    const std::filesystem::path saved = checkpoints_ / ("ckpt-" + result.summary["run_calls"].dump() + ".h5");
    EXPECT_EQ(result.summary["preemption"]["checkpoint"], saved.string());
    EXPECT_EQ(checkpoint_files().back(), saved);
    expect_tidy_directory();
    return result;
  }

  /// Resumes from the newest checkpoint at full speed: the run must end in the same state as an undisturbed one.
  Result expect_same_end(int ranks, const Options& options = {}) const {
    const auto checkpoints = checkpoint_files();
    const nlohmann::json newest =
        checkpoints.empty() ? nlohmann::json() : nlohmann::json(checkpoints.back().filename().string());
    Result result = run(ranks, options);
    check_same_end(result, ranks);
    EXPECT_EQ(result.summary.value("restored_from", nlohmann::json("no summary")), newest);
    return result;
  }

  /// The same of a run that has ended, from whichever checkpoint it resumed.
  void check_same_end(const Result& result, int ranks) const {
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    ASSERT_FALSE(result.summary.is_null());
    EXPECT_EQ(result.summary["status"], "finished");
    EXPECT_EQ(result.summary["run_calls"], 200);
    EXPECT_EQ(result.summary["state_digest"], undisturbed_digest(ranks)) << result.out << result.err;
    expect_tidy_directory();
  }

  /// The state in which the training ends if nothing disturbs it.
  static std::string undisturbed_digest(int ranks) {
    return remembered("reprieve-trainer", std::to_string(ranks), [&] { return trainer::train_undisturbed(ranks); });
  }

  /// The events of this name, of all runs in `checkpoints_`.
  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& name) const {
    return events_of(read_text(checkpoints_ / "events.jsonl"), name);
  }

  /// Waits until there are so many. @throws std::runtime_error if the job ends before
  void wait_for_events(Mpirun& job, const std::string& name, std::size_t count) const {
    trainer::wait_for(job, "event " + name, [&] { return events(name).size() >= count; });
  }

  /// Waits until a rank handles a signal itself. @throws std::runtime_error if the job ends before
  static void wait_for_handler(Mpirun& job, int rank, int signal) {
    trainer::wait_for(job, "a signal handler", [&] {
      const auto ranks = job.ranks();
      const auto found = ranks.find(rank);
      return found != ranks.end() && trainer::handles(found->second, signal);
    });
  }

  /// The committed checkpoints, oldest first.
  [[nodiscard]] std::vector<std::filesystem::path> checkpoint_files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& [number, file] : checkpoints_in(checkpoints_)) {
      files.push_back(file);
    }
    return files;
  }

  /// Every committed checkpoint must be valid.
  void expect_sound_checkpoints() const {
    if (!checkpoint_files().empty()) {
      Process tool({{program("reprieve"), "verify", checkpoints_.string()}});
      EXPECT_EQ(tool.wait(kHang), 0) << tool.out() << tool.err();
    }
  }

  /// Besides, nothing temporary may be left.
  void expect_tidy_directory() const {
    expect_sound_checkpoints();
    for (const auto& entry : std::filesystem::directory_iterator(checkpoints_)) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == "events.jsonl" || name == ".reprieve.lock" || name == ".reprieve.directory" ||
                  name == ".reprieve.recycled" || name == ".reprieve.workers" || name.ends_with(".h5") ||
                  name.find(".corrupt") != std::string::npos)
          << name;
    }
  }

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
  [[nodiscard]] std::chrono::milliseconds random_time(std::chrono::milliseconds longest) {
    return std::chrono::milliseconds(std::uniform_int_distribution<std::int64_t>(0, longest.count())(random_));
  }

  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

inline std::string ranks_text(const ::testing::TestParamInfo<int>& ranks) {
  return std::to_string(ranks.param) + "Ranks";
}

}  // namespace reprieve::test
