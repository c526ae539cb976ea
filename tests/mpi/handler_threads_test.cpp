// SPDX-License-Identifier: BSD-3-Clause
// The agreement by threads, over MPI and with real signals: the rules that the threads of several processes keep.

#include <gtest/gtest.h>
#include <pthread.h>

#include <csignal>
#include <string>

#include "handler_fixture.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

class ByThreads : public testing::Test {
 protected:
  ByThreads() : program_(directory_ / "run") { program_.config.agreement = Agreement::threads; }

  void SetUp() override {
    if (!all_threads_may_use_mpi()) {
      GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
    }
  }

  /// What rank 0 recorded at the start.
  [[nodiscard]] std::string recorded_agreement() const {
    MPI_Barrier(MPI_COMM_WORLD);
    std::string found;
    for (const auto& event : events_of_run(directory_ / "run")) {
      found = event.value("agreement", found);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return found;
  }

  SharedTemporaryDirectory directory_;
  Program program_;
};

TEST_F(ByThreads, AreChosenByThemselves) {
  program_.config.agreement = Agreement::automatic;
  program_.start();
  program_.run(5);
  program_.handler->finish();
  EXPECT_EQ(recorded_agreement(), "threads");
}

/// The last rank can make no thread: its stack would be larger than the address space.
TEST_F(ByThreads, IfARankCanMakeNoThreadAllAgreeAtBoundaries) {
  program_.config.preempt_file = false;  // it is looked for by a thread
  pthread_attr_t usual;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  const bool is_last = world_rank() == last_rank();
  if (is_last) {
    pthread_attr_t vast = usual;
    pthread_attr_setstacksize(&vast, std::size_t{1} << 47U);
    ASSERT_EQ(pthread_setattr_default_np(&vast), 0);
  }
  testing::internal::CaptureStderr();
  program_.start();
  const std::string text = testing::internal::GetCapturedStderr();
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(text.find("can make no thread") != std::string::npos, is_last) << text;
  EXPECT_EQ(recorded_agreement(), "boundaries");
  EXPECT_THROW(program_.run(100'000, notice_at(20, last_rank())), Preempted);
  expect_same_on_all_ranks(program_.handler->total_run_calls());
}

/// What the configuration asks for and MPI does not offer is an error on all ranks.
TEST(WithoutThreads, AskedForThemIsAnError) {
  if (all_threads_may_use_mpi()) {
    GTEST_SKIP() << "needs MPI_THREAD_FUNNELED";
  }
  const SharedTemporaryDirectory directory;
  Program program(directory / "run");
  program.config.agreement = Agreement::threads;
  EXPECT_THROW(program.start(), ConfigError);
}

// How many step boundaries lie between a notice and its save when steps get longer. Counted, never timed.

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
