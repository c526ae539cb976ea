// SPDX-License-Identifier: BSD-3-Clause
// Settings from outside of the program: the environment of rank 0, read by handlers and managers themselves.

#include <cstdlib>

#include "handler_fixture.hpp"
#include "manager_fixture.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Variables of some ranks for one test.
class EnvironmentTest : public ManagerTest {
 protected:
  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    names_.push_back(name);
  }
  /// As launchers do it that forward nothing: the others even have something else.
  void set_on_rank_0(const std::string& name, const std::string& value) {
    set(name, world_rank() == 0 ? value : "not looked at");
  }
  void TearDown() override {
    for (const auto& name : names_) {
      ::unsetenv(name.c_str());
    }
    ManagerTest::TearDown();
  }

  /// Without the hidden files.
  [[nodiscard]] Names checkpoint_names() const {
    Names found = names();
    std::erase_if(found, [](const std::string& name) { return name.starts_with('.'); });
    return found;
  }

  SeenError error_of_starting(const TerminationConfig& config = {}) {
    return same_error_on_all_ranks(
        [&] { const PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state.checkpoint, directory, config); });
  }

 private:
  std::vector<std::string> names_;
};

/// The program of the README: it says nothing but its directory.
void ten_lines(const fs::path& directory, const TerminationConfig& config = {}, const ManagerOptions& options = {}) {
  int counter = 0;
  Checkpoint checkpoint;
  checkpoint.add_replicated("counter", counter);
  PreemptionCheckpointHandler handler(MPI_COMM_WORLD, checkpoint, directory, config, options);
  while (handler.total_run_calls() < 40) {
    handler.run([&] { ++counter; });
  }
}

TEST_F(EnvironmentTest, GoesBeforeTheCodeOfTheTenLineProgram) {
  set_on_rank_0("REPRIEVE_TERMINATION_SAVE_EVERY_STEPS", "10");
  set_on_rank_0("REPRIEVE_CHECKPOINTS_MAX_TO_KEEP", "2");
  TerminationConfig config;
  config.save_every_steps = 7;  // a default only
  ten_lines(directory, config);
  EXPECT_EQ(checkpoint_names(), (Names{"ckpt-20.h5", "ckpt-30.h5"}));
}

TEST_F(EnvironmentTest, OneSwitchTurnsItOff) {
  set("REPRIEVE_TERMINATION_SAVE_EVERY_STEPS", "10");
  set("REPRIEVE_DIRECTORY", (temporary / "elsewhere").string());
  set("REPRIEVE_CHECKPOINTS_MAX_TO_KEEPS", "a mistake that nobody reads");
  TerminationConfig config;
  config.save_every_steps = 15;
  ten_lines(directory, config, {.read_environment = false});
  EXPECT_EQ(checkpoint_names(), (Names{"ckpt-15.h5", "ckpt-30.h5"}));
  EXPECT_FALSE(fs::exists(temporary / "elsewhere"));
}

TEST_F(EnvironmentTest, WhatAProgramSetsAfterItHasAppliedItGoesBefore) {
  set("REPRIEVE_TERMINATION_SAVE_EVERY_STEPS", "10");
  set("REPRIEVE_CHECKPOINTS_MAX_TO_KEEP", "2");
  Settings settings;
  apply_environment(settings);
  settings.termination.save_every_steps = 15;  // its command line
  ten_lines(directory, settings.termination, settings.manager);
  EXPECT_EQ(checkpoint_names(), (Names{"ckpt-15.h5", "ckpt-30.h5"}));
}

TEST_F(EnvironmentTest, AHandlerOnAManagerOfTheProgramsReadsItToo) {
  set_on_rank_0("REPRIEVE_TERMINATION_RESTART_CODE", "77");
  set_on_rank_0("REPRIEVE_CHECKPOINTS_MAX_TO_KEEP", "1");
  CheckpointManager manager = open();
  EXPECT_EQ(manager.options().max_to_keep, 1U);
  TerminationConfig config;
  config.restart_code = 76;
  config.exit_fn = throw_preempted;
  config.termination_watcher_fn = [] { return WatchResult(true); };
  config.poll_interval = std::chrono::milliseconds(1);
  PreemptionCheckpointHandler handler(MPI_COMM_WORLD, manager, config);
  int code = 0;
  try {
    for (int i = 0; i < 100'000; ++i) {
      handler.run([] { std::this_thread::sleep_for(std::chrono::microseconds(100)); });
    }
  } catch (const Preempted& preempted) {
    code = preempted.exit_code();
  }
  EXPECT_EQ(code, 77);
}

TEST_F(EnvironmentTest, MistakesOfRankZeroAreErrorsOnAllRanks) {
  set_on_rank_0("REPRIEVE_TERMINATION_GRACE_PERIOD_S", "soon");
  set_on_rank_0("REPRIEVE_CHECKPOINT_MAX_TO_KEEP", "3");
  set_on_rank_0("REPRIEVE_DIR", "x");
  set_on_rank_0("REPRIEVE_SAVE_EVERY_STEPS", "3");
  EXPECT_THAT(
      error_of_starting(),
      is_error(ErrorCode::config, "REPRIEVE_TERMINATION_GRACE_PERIOD_S: found \"soon\"; allowed: a number from 0",
               "REPRIEVE_CHECKPOINT_MAX_TO_KEEP: unknown; did you mean REPRIEVE_CHECKPOINTS_MAX_TO_KEEP?",
               "REPRIEVE_DIR: unknown; did you mean REPRIEVE_DIRECTORY?",
               "REPRIEVE_SAVE_EVERY_STEPS: unknown; did you mean REPRIEVE_TERMINATION_SAVE_EVERY_STEPS?"));
  EXPECT_FALSE(fs::exists(directory));
}

TEST_F(EnvironmentTest, LessSafetyIsLogged) {
  set_on_rank_0("REPRIEVE_CHECKPOINTS_DURABLE", "false");
  set_on_rank_0("REPRIEVE_CHECKPOINTS_VERIFY_ON_RESTORE", "false");
  testing::internal::CaptureStderr();
  ten_lines(directory);
  const std::string log = testing::internal::GetCapturedStderr();
  if (world_rank() == 0) {
    EXPECT_THAT(log, AllOf(HasSubstr("warning] REPRIEVE_CHECKPOINTS_DURABLE=false: "),
                           HasSubstr("warning] REPRIEVE_CHECKPOINTS_VERIFY_ON_RESTORE=false: ")));
  }
}

/// Two parts of a program with directories of their own: the second would take the checkpoints of the first for its
/// own.
TEST_F(EnvironmentTest, TheDirectoryIsForTheFirstOneOfTheProgram) {
  set_on_rank_0("REPRIEVE_DIRECTORY", (temporary / "outside").string());
  // The first of this process: other tests have switched the environment off, or named no directory.
  for (int start = 0; start < 2; ++start) {
    const CheckpointManager first(MPI_COMM_WORLD, state.checkpoint, "first-directory-of-this-process");
    EXPECT_EQ(first.directory(), temporary / "outside");
    const CheckpointManager second(MPI_COMM_WORLD, state.checkpoint, directory);
    EXPECT_EQ(second.directory(), directory);
    EXPECT_THAT(same_error_on_all_ranks(
                    [&] { CheckpointManager(MPI_COMM_WORLD, state.checkpoint, "first-directory-of-this-process"); }),
                is_error(ErrorCode::usage, "REPRIEVE_DIRECTORY"));
  }
}

TEST_F(EnvironmentTest, HandlersThatWereGivenDifferentSettingsSaySo) {
  REPRIEVE_NEEDS_RANKS(2);
  TerminationConfig config;
  config.save_every_steps = world_rank() == 1 ? 10 : 20;
  const SeenError error = error_of_starting(config);
  EXPECT_EQ(error.code, ErrorCode::usage);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("save_every_steps: 20 on rank 0, 10 on rank 1"), Not(HasSubstr("grace_period_s"))));
  config.save_every_steps = 10;
  if (world_rank() == 1) {
    config.step_fn = [] { return std::uint64_t{1}; };
  }
  EXPECT_THAT(error_of_starting(config).message, HasSubstr("has a step_fn: false on rank 0, true on rank 1"));
}

}  // namespace
}  // namespace reprieve::test
