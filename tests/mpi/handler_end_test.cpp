// SPDX-License-Identifier: BSD-3-Clause
// The end of a handler: errors, notices and checkpoints of the last step, and what a handler destroyed without it does.

#include <atomic>
#include <csignal>
#include <exception>
#include <string>

#include "handler_fixture.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// What the exception nested in @p error says.
std::string nested_text(const std::exception& error) {
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& nested) {
    return nested.what();
  }
  return "nothing nested";
}

class HandlerEnd : public ProgramTest {};

TEST_F(HandlerEnd, AnErrorInTheLastStepReachesEveryRankAndTheFailingOneKeepsItsOwn) {
  program.start();
  try {
    program.handler->run([] {
      if (world_rank() == last_rank()) {
        throw std::domain_error("not a number");
      }
    });
    program.handler->finish();
    FAIL() << "nothing was thrown";
  } catch (const ClusterError& error) {
    EXPECT_EQ(error.origin_rank(), last_rank());
    EXPECT_THAT(error.what(), HasSubstr("not a number"));
    EXPECT_EQ(nested_text(error), world_rank() == last_rank() ? "not a number" : "nothing nested");
    if (world_rank() == last_rank()) {
      EXPECT_THROW(std::rethrow_if_nested(error), std::domain_error);
    }
  }
}

TEST_F(HandlerEnd, RanksThatFailTogetherKeepTheirOwnExceptions) {
  program.start();
  const std::string mine = "mine " + std::to_string(world_rank());
  try {
    program.handler->run([&] { throw std::domain_error(mine); });
    FAIL() << "nothing was thrown";
  } catch (const ClusterError& error) {
    EXPECT_EQ(error.origin_rank(), 0);
    EXPECT_EQ(nested_text(error), mine);
  }
}

TEST_F(HandlerEnd, ANoticeInTheLastStepIsNoReasonToLeave) {
  program.start();
  program.run(20);
  if (world_rank() == world_size() - 1) {
    std::raise(SIGTERM);
  }
  program.handler->finish();
  EXPECT_TRUE(program.handler->preempted());
  ASSERT_TRUE(program.handler->last_save());
  EXPECT_EQ(program.handler->last_save()->number, 20U);
  termination::acknowledge_signals({SIGTERM});

  Program again(directory / "run");
  program.handler.reset();
  again.start();
  EXPECT_EQ(again.counter, 20);
  again.run(20);
  again.handler->finish();
  EXPECT_EQ(again.counter, 20);
}

TEST_F(HandlerEnd, ARunThatWasCompleteAlreadyEndsInSpiteOfANotice) {
  program.start();
  program.run(5);
  program.handler->manager().save({.number = 5, .run_calls = 5, .reason = {}, .save_fn = {}, .save_fn_args = {}});
  program.handler->finish();
  program.handler.reset();
  program.start();
  std::raise(SIGTERM);
  program.run(5);
  program.handler->finish();
  EXPECT_EQ(program.handler->manager().checkpoints().size(), 1U);
  termination::acknowledge_signals({SIGTERM});  // or it would be a notice to the next handler of this process
}

TEST_F(HandlerEnd, ACheckpointThatWasAskedForIsSaved) {
  program.options.background = true;
  program.start();
  program.run(20);
  if (world_rank() == 0) {
    program.handler->request_checkpoint();
  }
  program.handler->finish();
  ASSERT_TRUE(program.handler->manager().latest());
  EXPECT_EQ(program.handler->manager().latest()->number, 20U);
}

TEST_F(HandlerEnd, AfterItThereIsNoBoundary) {
  program.start();
  program.run(3);
  {
    const auto scope = program.handler->watch_preemption_scope();
    program.handler->finish();
  }  // the end of the scope is none
  program.handler->finish();
  EXPECT_THROW(program.handler->run([] {}), UsageError);
  EXPECT_THROW(program.handler->save_checkpoint_if_preempted(), UsageError);
}

TEST_F(HandlerEnd, RanksThatMakeDifferentNumbersOfStepsHearIt) {
  REPRIEVE_NEEDS_RANKS(2);
  program.start();
  program.run(world_rank() == 0 ? 30 : 31);
  EXPECT_THROW(program.handler->finish(), UsageError);
}

TEST_F(HandlerEnd, WithAnExitLaterItSavesAndIsFinished) {
  program.config.exit_fn = {};
  program.config.return_when_saved = true;
  program.start();
  program.run(5);
  std::raise(SIGTERM);
  program.handler->finish();
  EXPECT_EQ(program.handler->exit_code(), 0);
  EXPECT_EQ(program.handler->last_save()->number, 5U);
  termination::acknowledge_signals({SIGTERM});
}

/// A program that continues after the first save, since the grace is long.
struct InTheGrace {
  const char* name;
  bool asks;  ///< it may have ended its loop for the answer
  std::uint64_t total_steps;
  int code;
};

class EndInTheGrace : public ProgramTest, public testing::WithParamInterface<InTheGrace> {};
INSTANTIATE_TEST_SUITE_P(Of, EndInTheGrace,
                         testing::Values(InTheGrace{"AProgramThatAsked", true, 0, 42},
                                         InTheGrace{"AProgramThatMadeAllSteps", true, 1, 0},
                                         InTheGrace{"AProgramThatDidNotAsk", false, 0, 0}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(EndInTheGrace, IsTheEndOfTheRunUnlessTheLoopEndedForTheNotice) {
  program.config.exit_fn = {};
  program.config.return_when_saved = true;
  program.config.grace_period = 10min;
  program.config.total_steps = GetParam().total_steps;
  program.start();
  std::raise(SIGTERM);
  while (!program.handler->last_save()) {
    program.handler->run([&] { program.step(); });
  }
  if (GetParam().asks && world_rank() == last_rank()) {
    EXPECT_TRUE(program.handler->preempted());
  }
  program.handler->finish();
  EXPECT_EQ(program.handler->exit_code(), GetParam().code);
  EXPECT_EQ(program.handler->last_save()->number, program.handler->total_run_calls());
  termination::acknowledge_signals({SIGTERM});
}

TEST_F(HandlerEnd, AMemberThatHeardNothingIsNotFinishedWhileAnotherOneIsPreempted) {
  program.config.exit_fn = {};
  program.config.return_when_saved = true;
  Program other(directory / "other");
  other.config = program.config;
  other.config.signals = {SIGUSR2};
  program.start();
  other.start();
  std::raise(SIGTERM);
  while (!program.handler->preempted()) {
    program.handler->run([&] { program.step(); });
    other.handler->run([&] { other.step(); });
  }
  program.handler->finish();
  other.handler->finish();
  EXPECT_EQ(other.handler->exit_code(), 42);
  EXPECT_EQ(other.handler->last_save()->number, other.handler->total_run_calls());
  EXPECT_EQ(other.handler->preemption_notice()->source, "another handler");
}

// Steps inside of steps.

class Inside : public ProgramTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, Inside, testing::Values("run", "save_checkpoint_if_preempted", "step_boundary", "finish"),
                         [](const auto& call) { return std::string(call.param); });

TEST_P(Inside, AStepABoundaryIsAnErrorOnAllRanks) {
  program.start();
  auto& handler = *program.handler;
  const std::string call = GetParam();
  const auto step = [&] {
    if (world_rank() != world_size() - 1) {
      return;  // one rank is enough
    }
    if (call == "run") handler.run([] {});
    if (call == "save_checkpoint_if_preempted") handler.save_checkpoint_if_preempted();
    if (call == "step_boundary") handler.step_boundary();
    if (call == "finish") handler.finish();
  };
  const SeenError error = error_of([&] {
    handler.run(step);
    handler.finish();
  });
  EXPECT_EQ(error.code, ErrorCode::usage);
  EXPECT_EQ(error.origin_rank, last_rank());
  EXPECT_THAT(error.message, HasSubstr("inside of a step"));
}

// Counting.

TEST(HandlerCount, TheLoopOfBoundariesEndsAndContinuesWhereItWas) {
  const SharedTemporaryDirectory directory;
  constexpr std::uint64_t kSteps = 1000;  // no rank comes to the end before the ranks agree
  {
    Program program(directory / "run");
    program.start();
    const auto loop = [&] {
      while (program.handler->total_run_calls() < kSteps) {
        notice_at(17, 0)(program.counter);
        program.handler->save_checkpoint_if_preempted();
        program.step();
      }
      program.handler->finish();
    };
    EXPECT_THROW(loop(), Preempted);
    EXPECT_EQ(static_cast<int>(program.handler->total_run_calls()), program.counter);
    EXPECT_EQ(program.handler->last_save()->number, program.handler->total_run_calls());
  }
  Program program(directory / "run");
  program.start();
  EXPECT_EQ(static_cast<int>(program.handler->total_run_calls()), program.counter);
  while (program.handler->total_run_calls() < kSteps) {
    program.handler->save_checkpoint_if_preempted();
    program.step();
  }
  program.handler->finish();
  EXPECT_EQ(program.counter, static_cast<int>(kSteps));
  EXPECT_EQ(program.field, uninterrupted(kSteps));
}

TEST(HandlerCount, BoundariesBetweenTheStepsNeedNotCount) {
  const SharedTemporaryDirectory directory;
  Program program(directory / "run");
  program.start();
  program.run(3);
  program.handler->step_boundary();
  EXPECT_EQ(program.handler->total_run_calls(), 3U);
  program.handler->save_checkpoint_if_preempted();
  EXPECT_EQ(program.handler->total_run_calls(), 4U);
  program.handler.reset();
  program.config.count_boundaries = false;
  program.start();
  program.handler->save_checkpoint_if_preempted();
  EXPECT_EQ(program.handler->total_run_calls(), 0U);
}

// Scopes.

class HandlerScope : public ProgramTest {};

TEST_F(HandlerScope, ALoopInsideOfAScopeSavesAtOnce) {
  program.start();
  const auto ported = [&] {
    const auto scope = program.handler->watch_preemption_scope();
    program.run(100'000, notice_at(20, last_rank()));
  };
  EXPECT_THROW(ported(), Preempted);
  ASSERT_TRUE(program.handler->last_save());
  EXPECT_EQ(program.handler->last_save()->number, program.handler->total_run_calls());
  EXPECT_LT(program.handler->total_run_calls(), 10'000U);
}

class PatientScope : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(AfterASave, PatientScope, testing::Bool());

TEST_P(PatientScope, WithADeadlineTheLastSafeBoundarySaves) {
  const SharedTemporaryDirectory directory;
  std::atomic<bool> end_is_near = false;
  Program program(directory / "run");
  // The signal alone leaves more time than any machine needs for the steps below; then the end comes near.
  program.config.grace_period = 10min;
  program.config.grace_margin = 500ms;
  program.config.poll_interval = 10ms;
  program.config.termination_watcher_fn = [&] {
    WatchResult result(end_is_near);
    result.time_left = 1s;
    return result;
  };
  program.config.save_every_steps = GetParam() ? 10 : 0;  // then it is known how long a save takes
  program.step_time = 1ms;
  program.start();
  const auto endless = [&] {
    const auto scope = program.handler->watch_preemption_scope(ScopeMode::save_at_end);
    program.run(1'000'000, [&](int step) {
      if (step == 20) {
        std::raise(SIGTERM);
      }
      end_is_near = step > 60;
    });
  };
  EXPECT_THROW(endless(), Preempted);
  EXPECT_EQ(program.handler->last_save()->number, program.handler->total_run_calls());
  EXPECT_GT(program.handler->total_run_calls(), 60U);  // it was patient
}

// The save function.

class HandlerSaveFn : public ProgramTest {};

TEST_F(HandlerSaveFn, ASaveInsideOfASaveIsAnErrorThatSaysWhatToDo) {
  bool nested = true;
  program.config.save_fn = [&](const SaveFnContext& context) {
    if (nested && context.is_chief) {  // as a port of TensorFlow may do it, on one rank alone
      program.handler->manager().save(context.number);
    }
  };
  program.start();
  program.run(3);
  std::raise(SIGTERM);
  const SeenError error = error_of([&] { program.run(100'000); });
  EXPECT_THAT(error.message, HasSubstr("save_fn_mode"));
  EXPECT_EQ(error.origin_rank, 0);
  EXPECT_FALSE(program.handler->manager().latest());
  nested = false;
  EXPECT_THROW(program.run(100'000), Preempted);
  EXPECT_TRUE(program.handler->manager().latest());
}

TEST_F(HandlerSaveFn, InsteadOfTheSave) {
  std::filesystem::path written;
  int calls = 0;
  program.config.save_fn_mode = SaveFnMode::instead;
  program.config.save_fn = [&](const SaveFnContext& context) {
    ++calls;
    written = context.write_directory;
    EXPECT_TRUE(std::filesystem::is_directory(written));
    program.handler->manager().save(context.number);
  };
  program.start();
  program.run(3);
  std::raise(SIGTERM);
  EXPECT_THROW(program.run(100'000), Preempted);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(program.handler->last_save()->number, program.handler->total_run_calls());
  EXPECT_EQ(program.handler->manager().checkpoints().size(), 1U);
  program.handler.reset();
  EXPECT_EQ(world_rank() == 0, std::filesystem::exists(written)) << written;
  Program again(directory / "run");
  again.start();
  EXPECT_TRUE(again.handler->restored_from());
  EXPECT_GE(again.counter, 3);
}

TEST_F(HandlerSaveFn, ItsErrorReachesAllRanksAndTheHandlerStaysUsable) {
  for (const SaveFnMode mode : {SaveFnMode::besides, SaveFnMode::instead}) {
    Program job(directory / std::to_string(static_cast<int>(mode)));
    int calls = 0;
    job.config.save_fn_mode = mode;
    job.config.save_fn = [&](const SaveFnContext&) {
      if (++calls == 1 && world_rank() == last_rank()) {
        throw std::runtime_error("no licence");
      }
    };
    job.start();
    std::raise(SIGTERM);
    const SeenError error = error_of([&] { job.run(100); });
    EXPECT_EQ(error.origin_rank, last_rank());
    EXPECT_THAT(error.message, HasSubstr("no licence"));
    EXPECT_THROW(job.run(100'000), Preempted);  // the notice is still there
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(job.handler->last_save()->path.empty(), mode == SaveFnMode::instead);
  }
}

class HandlerNotice : public ProgramTest {};

TEST_F(HandlerNotice, TheEarliestRankIsNamed) {
  program.start();
  program.run(20);
  for (int rank = world_size() - 1; rank >= 0; --rank) {  // the last rank first
    if (world_rank() == rank) {
      std::raise(SIGTERM);
    }
    std::this_thread::sleep_for(2ms);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  try {
    program.run(100'000);
    FAIL() << "was not preempted";
  } catch (const Preempted& preempted) {
    EXPECT_EQ(preempted.context().notice.rank, world_size() - 1);
  }
}

}  // namespace
}  // namespace reprieve::test
