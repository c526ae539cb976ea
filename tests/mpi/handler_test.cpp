// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <csignal>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "handler_fixture.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class HandlerSignals : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(On, HandlerSignals, testing::Values("first", "last", "all", "staggered"));

TEST_P(HandlerSignals, SavesAtOneStepAndResumesToTheSameEnd) {
  const std::string who = GetParam();
  const auto notice_step = [&]() -> int {
    if (who == "first") return world_rank() == 0 ? 30 : -1;
    if (who == "last") return world_rank() == world_size() - 1 ? 30 : -1;
    if (who == "all") return 30;
    return 30 + 3 * world_rank();
  }();
  const SharedTemporaryDirectory directory;
  std::uint64_t saved_at = 0;
  {
    Program program(directory / "run");
    program.start();
    EXPECT_FALSE(program.handler->restored_from());
    try {
      program.run(100'000, [&](int step) {  // the ranks do not wait for each other: some may be far ahead of the notice
        if (step == notice_step) {
          std::raise(SIGTERM);
        }
      });
      FAIL() << "was not preempted";
    } catch (const Preempted& preempted) {
      EXPECT_EQ(preempted.exit_code(), 42);
      EXPECT_EQ(preempted.context().notice.source, "signal SIGTERM");
      saved_at = program.handler->total_run_calls();
      expect_same_on_all_ranks(saved_at);
      EXPECT_EQ(program.counter, static_cast<int>(saved_at));
      EXPECT_GE(program.counter, 30);
    }
  }
  Program program(directory / "run");
  program.start();
  ASSERT_TRUE(program.handler->restored_from());
  EXPECT_EQ(program.handler->restored_from()->number, saved_at);
  EXPECT_EQ(program.handler->restored_from()->reason.kind, SaveReason::Kind::preemption);
  EXPECT_EQ(program.handler->manager().checkpoints().size(), 1U) << "many notices are one save";
  EXPECT_EQ(program.counter, static_cast<int>(saved_at));
  const int end = program.counter + 90;
  program.run(end);
  program.handler.reset();
  EXPECT_EQ(program.field, uninterrupted(end));
}

class Handler : public ProgramTest {};

TEST_F(Handler, ANoticeBeforeTheFirstStepSavesBeforeIt) {
  if (world_rank() == world_size() - 1) {
    watch_signals();
    std::raise(SIGUSR1);  // before there is a handler
  }
  program.start();
  EXPECT_THROW(program.run(5), Preempted);
  EXPECT_EQ(program.handler->total_run_calls(), 0U);
  EXPECT_EQ(program.counter, 0);
}

TEST_F(Handler, AWatcherFunctionGivesANotice) {
  const auto notice = std::make_shared<std::atomic<bool>>(false);  // the thread that asks lives as long as the program
  program.config.termination_watcher_fn = [notice] {
    WatchResult result = notice->load();
    result.message = "maintenance";
    return result;
  };
  program.start();
  try {
    program.run(20'000, [&](int step) { *notice = step >= 10 && world_rank() == world_size() - 1; });
    FAIL() << "was not preempted";
  } catch (const Preempted& preempted) {
    EXPECT_EQ(preempted.context().notice.source, "watcher function");
    EXPECT_EQ(preempted.context().notice.message, "maintenance");
    EXPECT_EQ(preempted.context().notice.rank, world_size() - 1);
  }
}

TEST_F(Handler, RunReturnsTheResultOfTheFunction) {
  program.start();
  EXPECT_EQ(program.handler->run([](int a, int b) { return a * b; }, 6, 7), 42);
  int changed = 0;
  program.handler->run([](int& value) { value = 5; }, changed);
  EXPECT_EQ(changed, 5);
  int& reference = program.handler->run([&]() -> int& { return changed; });
  EXPECT_EQ(&reference, &changed);
  EXPECT_EQ(program.handler->total_run_calls(), 3U);
}

TEST_F(Handler, AnExceptionOnOneRankReachesAllRanks) {
  const int failing = world_size() - 1;
  program.start();
  const SeenError error = error_of([&] {
    for (int step = 0; step < 100'000; ++step) {
      program.handler->run([&] {
        if (world_rank() == failing && step == 25) {
          throw std::runtime_error("diverged");
        }
        program.step();
      });
    }
  });
  EXPECT_EQ(error.code, ErrorCode::cluster);
  EXPECT_EQ(error.origin_rank, failing);
  EXPECT_THAT(error.message, testing::AllOf(HasSubstr("diverged"), HasSubstr("rank " + std::to_string(failing))));
  EXPECT_THROW(program.handler->run([] {}), UsageError);
  MPI_Barrier(MPI_COMM_WORLD);
  std::ifstream report(directory / "run/error.json");
  EXPECT_EQ(nlohmann::json::parse(report)["rank"], failing);
}

/// Also if its path leads elsewhere since.
TEST_F(Handler, TheErrorReportStaysInTheDirectoryThatWasOpened) {
  program.start();
  test::on_rank_0([&] {
    std::filesystem::create_directory(directory / "elsewhere");
    std::filesystem::rename(directory / "run", directory / "moved");
    std::filesystem::create_directory_symlink(directory / "elsewhere", directory / "run");
  });
  EXPECT_EQ(error_of([&] { program.handler->run([] { throw std::runtime_error("diverged"); }); }).code,
            ErrorCode::cluster);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(std::filesystem::exists(directory / "elsewhere/error.json"));
  EXPECT_TRUE(std::filesystem::exists(directory / "moved/error.json"));
}

TEST_F(Handler, RanksThatMakeDifferentNumbersOfCallsGetAnError) {
  REPRIEVE_NEEDS_RANKS(2);
  program.start();
  if (world_rank() == 1) {
    program.run(50);
    program.handler.reset();  // logs the error of the others
    return;
  }
  EXPECT_THAT(error_of([&] { program.run(100'000); }), is_error(ErrorCode::usage, "different numbers of calls"));
}

TEST_F(Handler, RunsThatAreAllPreemptedLeaveOneCheckpointTooManyAtMost) {
  for (int start = 0; start < 4; ++start) {
    Program job(directory / "run");
    job.options.max_to_keep = 1;
    job.options.recycle = false;
    job.start();
    const int last = static_cast<int>(job.handler->total_run_calls()) + 5;
    EXPECT_THROW(job.run(1'000'000, notice_at(last, 0)), Preempted);
    EXPECT_LE(job.handler->manager().checkpoints().size(), 2U);
  }
}

TEST_F(Handler, PeriodicSavesBySteps) {
  program.config.save_every_steps = 10;
  program.options.max_to_keep = 0;
  program.start();
  program.run(31);
  const auto checkpoints = program.handler->manager().checkpoints();
  ASSERT_EQ(checkpoints.size(), 3U);
  for (std::size_t i = 0; i < checkpoints.size(); ++i) {
    EXPECT_EQ(checkpoints[i].number, 10 * (i + 1));
    EXPECT_EQ(checkpoints[i].reason.kind, SaveReason::Kind::periodic);
  }
}

TEST_F(Handler, ACheckpointIsSavedOnRequestOfOneRank) {
  program.start();
  program.run(5);
  if (world_rank() == world_size() - 1) {
    program.handler->request_checkpoint();
  }
  std::optional<CheckpointInfo> saved;
  for (int step = 105; step < 20'000 && !saved; step += 100) {
    program.run(step);
    saved = program.handler->manager().latest();
  }
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->reason.kind, SaveReason::Kind::user);
  EXPECT_GE(saved->number, 5U);
  EXPECT_EQ(program.handler->manager().checkpoints().size(), 1U);
}

TEST_F(Handler, PeriodicSavesByTime) {
  program.config.save_every = 100ms;
  program.start();
  std::vector<CheckpointInfo> saved;
  for (int step = 20; step < 200'000 && saved.size() < 2; step += 20) {
    program.run(step);
    saved = program.handler->manager().checkpoints();
  }
  ASSERT_EQ(saved.size(), 2U);
  EXPECT_EQ(saved[1].reason.kind, SaveReason::Kind::periodic);
}

TEST_F(Handler, APeriodicSaveAndAPreemptionAtTheSameStepAreOneSave) {
  program.step_time = 12ms;  // checked at every boundary
  program.config.save_every_steps = 5;
  program.options.max_to_keep = 0;
  program.start();
  EXPECT_THROW(program.run(50,
                           [&](int step) {
                             if (step == 5) {
                               std::raise(SIGTERM);  // before the boundary of step 5, which is also periodic
                             }
                           }),
               Preempted);
  const auto checkpoints = program.handler->manager().checkpoints();
  ASSERT_EQ(checkpoints.size(), 1U);
  EXPECT_EQ(checkpoints[0].number, 5U);
  EXPECT_EQ(checkpoints[0].reason.kind, SaveReason::Kind::preemption);
}

TEST_F(Handler, AGracePeriodTooShortForTwoGivesOneCheckpoint) {
  program.config.grace_period = 500ms;
  program.config.grace_margin = 1s;
  program.start();
  EXPECT_THROW(program.run(100'000, notice_at(20)), Preempted);
  EXPECT_EQ(program.handler->manager().checkpoints().size(), 1U);
}

TEST_F(Handler, AScopeWithoutANoticeIsSilent) {
  program.start();
  {
    auto scope = program.handler->watch_preemption_scope();
    program.run(30);
  }
  EXPECT_TRUE(program.handler->manager().checkpoints().empty());
}

TEST_F(Handler, TheSaveFunctionGetsTheArgumentsAndItsFilesAreCommitted) {
  std::string seen;
  program.config.save_fn = [&](const SaveFnContext& context) {
    seen = std::any_cast<std::string>(context.args[0]);
    std::ofstream(context.write_directory / "note.txt") << "from rank " << world_rank();
  };
  program.start();
  program.run(3);
  std::raise(SIGTERM);
  EXPECT_THROW(
      {
        for (int i = 0; i < 100'000; ++i) {
          program.handler->save_checkpoint_if_preempted(std::string("evaluation"), i);
          std::this_thread::sleep_for(100us);
        }
      },
      Preempted);
  EXPECT_EQ(seen, "evaluation");
  const auto latest = program.handler->manager().latest();
  ASSERT_TRUE(latest && latest->files_directory);
  EXPECT_TRUE(std::filesystem::exists(*latest->files_directory / "note.txt"));
  EXPECT_GE(latest->run_calls, 3U);
  EXPECT_EQ(latest->run_calls, program.handler->total_run_calls());
  MPI_Barrier(MPI_COMM_WORLD);
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    EXPECT_EQ(entry.path().filename().string().find("workertemp"), std::string::npos) << entry.path();
  }
}

TEST_F(Handler, LocalModeWorksTheSame) {
  const auto mine = directory / ("rank-" + std::to_string(world_rank()));
  Checkpoint checkpoint;
  int counter = 0;
  checkpoint.add_replicated("counter", counter);
  TerminationConfig config;
  config.exit_fn = throw_preempted;
  {
    PreemptionCheckpointHandler handler(MPI_COMM_SELF, checkpoint, mine, config);
    std::raise(SIGTERM);
    EXPECT_THROW(handler.run([&] { ++counter; }), Preempted);
  }
  counter = 99;
  PreemptionCheckpointHandler handler(MPI_COMM_SELF, checkpoint, mine, config);
  EXPECT_EQ(counter, 0);
}

TEST_F(Handler, AManagerOfTheCallersOwnIsUsed) {
  Checkpoint checkpoint;
  int value = 3;
  checkpoint.add_replicated("value", value);
  CheckpointManager manager(MPI_COMM_WORLD, checkpoint, directory / "run", {.prefix = "mine"});
  TerminationConfig config;
  config.exit_fn = throw_preempted;
  PreemptionCheckpointHandler handler(MPI_COMM_WORLD, manager, config);
  std::raise(SIGUSR1);
  EXPECT_THROW(handler.run([] {}), Preempted);
  EXPECT_EQ(manager.latest()->path.filename(), "mine-0.h5");
}

}  // namespace
}  // namespace reprieve::test
