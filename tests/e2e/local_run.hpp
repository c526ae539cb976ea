// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A program that takes node-local copies, killed and started again: what the tests of them have in common.

#include <signal.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "e2e/limits.hpp"
#include "support/run_directory.hpp"
#include "tool_test.hpp"

namespace reprieve::test {

constexpr int kLocalSteps = 500;

/// How often a run saves, and how long its steps are.
struct Pace {
  int save_every_steps = 0;
  int step_delay_ms = 0;
};

class LocalRun : public ToolTest {
 protected:
  [[nodiscard]] std::vector<std::string> heat(const std::string& checkpoints, Pace pace) const {
    return joined(
        {program("reprieve-heat"), "--checkpoint-dir", checkpoints, "--summary", summary_},
        words_of("--grid 19,17,23 --modes 2,1,1 --steps " + std::to_string(kLocalSteps) + " --checkpoint-every " +
                 std::to_string(pace.save_every_steps) + " --step-delay-ms " + std::to_string(pace.step_delay_ms)));
  }

  [[nodiscard]] Environment with_local_copies() const {
    return {{"REPRIEVE_CHECKPOINTS_LOCAL_DIRECTORY", local_.path().string()},
            {"REPRIEVE_CHECKPOINTS_LOCAL_EVERY_S", std::to_string(every_s_)},
            {"REPRIEVE_CHECKPOINTS_LOCAL_PARTNER", has_partners_ ? "true" : "false"},
            {"REPRIEVE_CHECKPOINTS_LOCAL_DOMAINS", domains_},
            {"REPRIEVE_CHECKPOINTS_EMERGENCY_SAVE_AFTER_S", std::to_string(emergency_after_s_)}};
  }

  [[nodiscard]] std::unique_ptr<Mpirun> start(int ranks, Pace pace = {}) const {
    return std::make_unique<Mpirun>(
        MpiCommand{.ranks = ranks, .arguments = heat(checkpoints_, pace), .environment = with_local_copies()});
  }

  /// The newest step of which all parts lie in this directory; 0 if there is none.
  [[nodiscard]] int newest_copy(const std::filesystem::path& local) const {
    int newest = 0;
    if (std::filesystem::exists(checkpoints_)) {
      const nlohmann::json list = tool_json({"ls", checkpoints_, "--local", local});
      for (const nlohmann::json& copy : list.at("local")) {
        if (copy.contains("step") && copy.at("parts") == copy.at("ranks")) {
          newest = std::max(newest, copy.at("step").get<int>());
        }
      }
    }
    return newest;
  }

  /// Kills all ranks when a copy of a step after @p step is complete. Returns the newest that was left.
  int kill_after(Mpirun& job, int step) const {
    EXPECT_TRUE(wait_until([&] { return newest_copy(local_.path()) > step || !job.running(); }, kHang));
    job.send_to_ranks(SIGKILL);
    EXPECT_TRUE(job.wait(kHang)) << job.out() << job.err();
    return newest_copy(local_.path());
  }

  /// The digest at the end, on any number of ranks, of a run that was not disturbed.
  [[nodiscard]] nlohmann::json undisturbed() const {
    return remembered("reprieve-heat", std::to_string(kLocalSteps), [this] {
      Mpirun job({.ranks = 2, .arguments = heat(directory_ / "undisturbed", {})});
      EXPECT_EQ(job.wait(kHang), 0) << job.out() << job.err();
      return nlohmann::json::parse(read_text(summary_)).at("digest").get<std::string>();
    });
  }

  void expect_same_end(Mpirun& job) const {
    EXPECT_EQ(job.wait(kHang), 0) << job.out() << job.err();
    const nlohmann::json end = nlohmann::json::parse(read_text(summary_));
    EXPECT_EQ(end.at("step"), kLocalSteps);
    EXPECT_EQ(end.at("digest"), undisturbed());
  }

  /// The same of a start on so many ranks that knows nothing of node-local copies.
  void expect_same_end_without_copies(int ranks) const {
    Mpirun job({.ranks = ranks, .arguments = heat(checkpoints_, {})});
    expect_same_end(job);
  }

  /// What the log of the checkpoint directory says of this kind.
  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& kind) const {
    return events_of(read_text(checkpoints_ + "/events.jsonl"), kind);
  }
  /// The newest restore; null if there is none.
  [[nodiscard]] nlohmann::json last_restore() const {
    const auto all = events("restore");
    return all.empty() ? nlohmann::json() : all.back();
  }

  /// Removes what is in a directory.
  static void clear(const std::filesystem::path& directory) {
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      std::filesystem::remove_all(entry.path());
    }
  }

  const TemporaryDirectory local_{"/dev/shm"};
  bool has_partners_ = false;
  std::string domains_;  ///< the file that names what fails together
  double emergency_after_s_ = 1;
  double every_s_ = 0.02;
  std::string checkpoints_ = directory_ / "checkpoints";
  std::string summary_ = directory_ / "summary.json";
};

}  // namespace reprieve::test
