// SPDX-License-Identifier: BSD-3-Clause
// How many step boundaries lie between a notice and its save when steps get longer. Counted, never timed.

#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>
#include <string>

#include "handler_fixture.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

class ReactionOf : public testing::Test {
 protected:
  explicit ReactionOf(Agreement agreement) : program_(directory_ / "run") {
    program_.step_time = 0us;
    program_.config.agreement = agreement;
  }

  /// Steps of one length, in which the ranks meet, as in a program that exchanges data.
  void steps(int count, std::chrono::microseconds length) {
    program_.step_time = length;
    for (int i = 0; i < count; ++i) {
      program_.handler->run([this] {
        MPI_Barrier(MPI_COMM_WORLD);
        program_.step();
      });
    }
  }

  /// Gives the notice to the last rank inside of a step of this length. Returns how many more steps are begun until the
  /// save, which includes none if the next boundary saves.
  std::uint64_t steps_until_save(std::chrono::microseconds length) {
    program_.step_time = length;
    std::uint64_t noticed_in = 0;
    try {
      program_.handler->run([&] {
        program_.step();
        if (world_rank() == world_size() - 1) {
          std::raise(SIGTERM);
        }
        MPI_Barrier(MPI_COMM_WORLD);  // the notice is there before any rank comes to the next boundary
      });
      noticed_in = program_.handler->total_run_calls();
      steps(1000, length);
      ADD_FAILURE() << "was not preempted";
    } catch (const Preempted&) {
    }
    expect_same_on_all_ranks(program_.handler->total_run_calls());
    return program_.handler->total_run_calls() - noticed_in;
  }

  SharedTemporaryDirectory directory_;
  Program program_;
};

/// What holds for both ways to agree. Where planned checks act at a boundary, threads need one more for their own
/// agreement, whatever the steps before took.
class Reaction : public ReactionOf, public testing::WithParamInterface<Agreement> {
 protected:
  Reaction() : ReactionOf(GetParam()) {}

  void SetUp() override {
    if (by_threads() && !all_threads_may_use_mpi()) {
      GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
    }
  }
  [[nodiscard]] bool by_threads() const { return GetParam() == Agreement::threads; }
  /// Long beside what the threads need on a machine that has much else to do.
  [[nodiscard]] std::chrono::milliseconds long_step() const { return by_threads() ? 400ms : 50ms; }
};
INSTANTIATE_TEST_SUITE_P(By, Reaction, testing::Values(Agreement::boundaries, Agreement::threads),
                         [](const auto& kind) { return kind.param == Agreement::threads ? "Threads" : "Boundaries"; });

class ReactionAtBoundaries : public ReactionOf {
 protected:
  ReactionAtBoundaries() : ReactionOf(Agreement::boundaries) {}
};

/// The larger bound is that of a machine of any speed: checks lie no further apart than 16 ms. Two ranks do
/// not need it, unless a sanitizer makes checks cost more than three times what they usually do.
TEST_P(Reaction, FromMillisecondsToLongSteps) {
  program_.start();
  steps(60, 1ms);
#ifdef REPRIEVE_SANITIZED
  const std::uint64_t at_boundaries = 18;
#else
  const std::uint64_t at_boundaries = world_size() <= 2 ? 7 : 18;
#endif
  EXPECT_LE(steps_until_save(long_step()), by_threads() ? 2U : at_boundaries);
}

TEST_P(Reaction, FromMicrosecondsToLongSteps) {
  program_.start();
  steps(3000, 20us);
  EXPECT_LE(steps_until_save(long_step()), by_threads() ? 2U : 153U);
}

TEST_P(Reaction, AfterBeginPhaseTheNextBoundarySaves) {
  program_.start();
  steps(300, 0us);
  program_.handler->begin_phase();
  EXPECT_LE(steps_until_save(long_step()), by_threads() ? 2U : 0U);
}

TEST_P(Reaction, BeginPhaseKeepsChecksCloseInThePhase) {
  program_.start();
  steps(300, 0us);
  program_.handler->begin_phase();
  steps(3, 50ms);
  EXPECT_LE(steps_until_save(long_step()), by_threads() ? 2U : 0U);
}

TEST_P(Reaction, ANoticeFromBeforeAPhaseIsActedOnAtItsFirstBoundary) {
  program_.start();
  steps(300, 0us);
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() == 0) {
    std::raise(SIGTERM);
  }
  program_.handler->begin_phase();
  EXPECT_THROW(steps(1, 0us), Preempted);
  EXPECT_EQ(program_.handler->total_run_calls(), 300U);
}

TEST_P(Reaction, PhasesThatTakeTurnsAreKnownAfterTheFirstRound) {
  program_.start();
  for (int round = 0; round < 3; ++round) {
    steps(20, 0us);
    steps(4, 50ms);
  }
  steps(20, 0us);
  EXPECT_LE(steps_until_save(long_step()), 2U);
}

TEST_F(ReactionAtBoundaries, ANoticeThatWaitsForMoreThanTwoStepsIsToldOf) {
  program_.start();
  int told = 0;
  for (int attempt = 0; attempt < 12 && told == 0; ++attempt) {
    steps(300, 0us);
    testing::internal::CaptureStderr();
    const std::uint64_t waited = steps_until_save(20ms);
    const std::string text = testing::internal::GetCapturedStderr();
    if (world_rank() == world_size() - 1) {
      EXPECT_EQ(text.find("has waited for more than two steps") != std::string::npos, waited >= 3) << text;
    }
    told += waited >= 3 ? 1 : 0;
    program_.handler.reset();
    program_.start();
  }
  if (world_size() == 1) {  // the steps of more ranks can be long on a busy machine, and then every one is checked
    EXPECT_GT(told, 0) << "no step was ever far from the next check";
  }
}

TEST_F(ReactionAtBoundaries, AnErrorAfterBeginPhaseIsHeardAtTheNextBoundary) {
  program_.start();
  steps(300, 0us);
  program_.handler->begin_phase();
  try {
    program_.handler->run([&] {
      if (world_rank() == world_size() - 1) {
        throw std::runtime_error("no more");
      }
    });
    program_.handler->run([] {});
    FAIL() << "the error was not heard";
  } catch (const Error& error) {
    EXPECT_EQ(error.origin_rank(), world_size() - 1);
  } catch (const std::runtime_error&) {
    EXPECT_EQ(world_rank(), world_size() - 1) << "on the others it is an error of the library's";
  }
}

TEST_P(Reaction, BeginPhaseIsNoBoundary) {
  program_.config.save_every_steps = 1;
  program_.options.max_to_keep = 0;
  program_.start();
  steps(3, 0us);
  for (int i = 0; i < 5; ++i) {
    program_.handler->begin_phase();
  }
  EXPECT_EQ(program_.handler->manager().checkpoints().size(), 2U) << "before the second and the third step";
}

}  // namespace
}  // namespace reprieve::test
