// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests of `reprieve run` have in common: small simulations (programs/field.cpp) under it.

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/json_page.hpp"
#include "support/process.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {

/// Steps of a run that is not over by itself.
inline constexpr int kEndless = 100'000;

/// An mpirun under `reprieve run --json`.
class SupervisedMpirun : public Mpirun {
 public:
  using Mpirun::Mpirun;

  /// The events that were shown so far, or those of one name.
  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& name = "") const {
    return events_of(err(), name);
  }

  /// Waits until so many events of that name were shown.
  [[nodiscard]] bool wait_for_event(const std::string& name, std::size_t count = 1) {
    return wait_until([&] { return events(name).size() >= count || !running(); }, std::chrono::seconds(120)) &&
           events(name).size() >= count;
  }

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
    std::vector<std::string> faults = {};   ///< see programs/field.cpp
    std::vector<std::string> options = {};  ///< of `reprieve run`
    std::vector<std::string> mpirun_options = {};
    Environment environment = {};
  };

  [[nodiscard]] std::unique_ptr<SupervisedMpirun> start(const Simulation& simulation) const {
    return std::make_unique<SupervisedMpirun>(MpiCommand{.ranks = kRanks,
                                                         .arguments = program_arguments(simulation),
                                                         .mpirun_options = simulation.mpirun_options,
                                                         .launch_prefix = supervisor(simulation),
                                                         .environment = simulation.environment});
  }

  /// `reprieve run` and its options.
  [[nodiscard]] static std::vector<std::string> supervisor(const Simulation& simulation) {
    return joined(joined({program("reprieve"), "run", "--json"}, simulation.options), {"--"});
  }

  /// `e2e_field` and its arguments.
  [[nodiscard]] std::vector<std::string> program_arguments(const Simulation& simulation) const {
    return joined({program("e2e_field"), checkpoints().string(), std::to_string(simulation.steps),
                   std::to_string(simulation.step_ms)},
                  simulation.faults);
  }

  /// Starts it and waits until the ranks are ready and some steps are done.
  [[nodiscard]] std::unique_ptr<SupervisedMpirun> start_and_wait(const Simulation& simulation) const {
    auto run = start(simulation);
    EXPECT_TRUE(run->wait_for_event("ready")) << run->all_output();
    return run;
  }

  /// Expects that the run ends with the code and leaves no process behind.
  static void expect_end(SupervisedMpirun& run, int code) {
    EXPECT_EQ(run.wait(kLimit), code) << run.all_output();
    EXPECT_TRUE(run.wait_for_descendants(std::chrono::seconds(10))) << run.all_output();
  }

  /// Expects that the run saved itself: code 42, a checkpoint, and a record that says so.
  void expect_saved(SupervisedMpirun& run, int code = 42) const {
    expect_end(run, code);
    ASSERT_EQ(run.events("exit").size(), 1U) << run.all_output();
    EXPECT_TRUE(std::filesystem::exists(run.events("exit").back()["checkpoint"].get<std::string>()));
    ASSERT_EQ(run.events("end").size(), 1U) << run.all_output();
    EXPECT_EQ(run.events("end").back()["result"], "saved");
  }

  /// Runs the simulation again, to its end, and compares its digest with that of an undisturbed run.
  void expect_same_end(Simulation simulation) const {
    simulation.faults.clear();
    simulation.step_ms = 0;
    const auto run = start(simulation);
    expect_end(*run, 0);
    EXPECT_THAT(run->out(), ::testing::HasSubstr(end_of(simulation.steps)));
  }

  /// What an undisturbed run prints at its end.
  static std::string end_of(int steps) {
    std::uint64_t total = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      std::uint64_t value = i;
      for (std::uint64_t step = 1; step <= static_cast<std::uint64_t>(steps); ++step) {
        value = value * 6364136223846793005ULL + step + i;
      }
      total += value * (2 * i + 1);
    }
    return "digest " + std::to_string(total) + " ";
  }

  [[nodiscard]] std::filesystem::path checkpoints() const { return directory_ / "checkpoints"; }

  /// What a command of the tool prints of the directory.
  [[nodiscard]] std::string shown_by(const std::string& command, const std::vector<std::string>& options = {}) const {
    Process tool({.arguments = joined({program("reprieve"), command, checkpoints().string()}, options)});
    EXPECT_EQ(tool.wait(kLimit), 0) << tool.out() << tool.err();
    return tool.out();
  }
  /// What `ls` and `status` tell of the copy of the newest checkpoint, which must be of that name.
  [[nodiscard]] nlohmann::json copy_of(const std::filesystem::path& file) const {
    const auto listed = nlohmann::json::parse(shown_by("ls", {"--json"}));
    const auto status = nlohmann::json::parse(shown_by("status", {"--json"}));
    JsonPage().expect("ls", listed);
    JsonPage().expect("status", status);
    nlohmann::json copy = status["runs"][0]["copy"];
    EXPECT_EQ(copy["file"], file.string());
    copy.erase("file");
    EXPECT_EQ(listed["checkpoints"].back()["copy"], copy);
    return copy;
  }

  TemporaryDirectory directory_;
};

}  // namespace reprieve::test
