// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests have in common that disturb a field (e2e/programs/field.cpp), or a program that obeys.

#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "faults/valid_checkpoints.hpp"
#include "support/process.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {

class FieldTest : public testing::Test {
 protected:
  using Options = std::vector<std::string>;

  /// Longer than anything lasts, unless it hangs.
  static constexpr std::chrono::seconds kLimit{120};

  [[nodiscard]] std::filesystem::path checkpoints() const { return directory_ / "checkpoints"; }

  [[nodiscard]] MpiCommand command(int ranks, int steps, int step_ms, const Options& options = {}) const {
    const Options words{program("e2e_field"), checkpoints().string(), std::to_string(steps), std::to_string(step_ms)};
    return {.ranks = ranks, .arguments = joined(words, options), .directory = directory_.path()};
  }
  [[nodiscard]] std::unique_ptr<Mpirun> start(int ranks, int steps, int step_ms, const Options& options = {}) const {
    return std::make_unique<Mpirun>(command(ranks, steps, step_ms, options));
  }

  /// Waits until rank 0 has done so many steps.
  static void wait_for_step(Mpirun& job, int step) {
    const std::string line = "step " + std::to_string(step) + "\n";
    const bool seen = wait_until([&] { return job.out().find(line) != std::string::npos || !job.running(); }, kLimit);
    ASSERT_TRUE(seen && job.out().find(line) != std::string::npos) << job.out() << job.err();
  }

  /// Waits for the end of mpirun and returns its code; a launcher that hangs (as Open MPI's can after a death) is
  /// killed once its ranks are gone.
  static int end_of(Mpirun& job) {
    bool started = false;
    const auto is_over = [&] {
      const bool lives = !job.ranks().empty();
      started = started || lives;
      return !job.running() || (started && !lives);
    };
    const bool ended = wait_until(is_over, kLimit);
    EXPECT_TRUE(ended) << "still running\n" << job.err();
    if (ended && !job.wait(std::chrono::seconds(20))) {
      job.send(SIGKILL);
    }
    const auto code = job.wait(std::chrono::seconds(20));
    EXPECT_TRUE(job.wait_for_descendants(std::chrono::seconds(20))) << "processes are left";
    return code.value_or(-1);
  }

  /// Every checkpoint is valid; returns how many there are.
  int expect_sound_checkpoints() const { return static_cast<int>(expect_valid_checkpoints(checkpoints()).size()); }

  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& name) const {
    return events_of(read_text(checkpoints() / "events.jsonl"), name);
  }

  /// The line with the digest in the output.
  static std::string digest_in(const std::string& output) {
    const auto begin = output.find("digest ");
    return begin == std::string::npos ? "no digest" : output.substr(begin, output.find('\n', begin) - begin);
  }
  /// That of an undisturbed run.
  static std::string digest_of(int steps, const Options& options = {}) {
    const TemporaryDirectory directory;
    Command command{.arguments = {program("e2e_field"), directory / "c", std::to_string(steps), "0"},
                    .environment = {{"OMPI_MCA_ess_singleton_isolated", "1"}},  // one rank needs no mpirun
                    .directory = directory.path()};
    for (const std::string& option : options) {
      if (option.starts_with("elements=")) {
        command.arguments.push_back(option);
      }
    }
    Process job(command);
    EXPECT_EQ(job.wait(kLimit), 0) << job.err();
    return digest_in(job.out());
  }

  /// Starts once more without disturbance, which must resume from a checkpoint and come to the same end.
  void expect_same_end(int ranks, int steps, const Options& options = {}) const {
    const std::size_t restored = events("restore").size();
    const auto job = start(ranks, steps, 0, options);
    EXPECT_EQ(job->wait(kLimit), 0) << job->err();
    EXPECT_GT(events("restore").size(), restored) << "began again";
    EXPECT_EQ(digest_in(job->out()), digest_of(steps, options));
  }

  TemporaryDirectory directory_;
};

/// A program that does what it is told, one thing at a time.
class ByOrder {
 public:
  /// @param option  of the program, or nothing
  explicit ByOrder(const std::filesystem::path& directory, const std::string& option = "")
      : job_({.ranks = 2, .arguments = {program("faults_by_order"), orders_.path(), directory, option}}) {}

  /// What came of the opening of the directory.
  [[nodiscard]] std::string opened() { return answer(0); }

  /// Waits for it.
  [[nodiscard]] bool has_ended() {
    return wait_until([&] { return !job_.running(); }, kLimit);
  }
  /// The same of all its processes.
  [[nodiscard]] bool has_left_nothing() { return job_.wait_for_descendants(kLimit); }

  std::string operator()(const std::string& order) {
    const std::filesystem::path file = orders_ / std::to_string(++given_);
    std::ofstream(std::filesystem::path(file).concat(".new")) << order << '\n';
    std::filesystem::rename(std::filesystem::path(file).concat(".new"), file);
    return answer(given_);
  }

 private:
  std::string answer(std::size_t number) {
    std::vector<std::string> lines;
    const bool came = wait_until(
        [&] {
          lines.clear();
          std::istringstream stream(job_.out());
          for (std::string line; std::getline(stream, line) && !stream.eof();) {
            lines.push_back(line);
          }
          return lines.size() > number || !job_.running();
        },
        kLimit);
    EXPECT_TRUE(came) << "hangs\n" << job_.err();
    return lines.size() > number ? lines[number] : "nothing: " + job_.err();
  }

  static constexpr std::chrono::seconds kLimit{60};

  TemporaryDirectory orders_;
  std::size_t given_ = 0;
  Mpirun job_;
};

}  // namespace reprieve::test
