// SPDX-License-Identifier: BSD-3-Clause
// The agreement by threads, over MPI and with real signals: the rules that the threads of several processes keep.

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "handler_fixture.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class ByThreads : public testing::Test {
 protected:
  ByThreads() : program_(directory_ / "run") { program_.config.agreement = Agreement::threads; }

  void SetUp() override {
    if (!all_threads_may_use_mpi()) {
      GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
    }
  }

  [[nodiscard]] static bool is_last() { return world_rank() == world_size() - 1; }

  /// What rank 0 recorded at the start.
  [[nodiscard]] std::string recorded_agreement() const {
    MPI_Barrier(MPI_COMM_WORLD);
    std::string found;
    std::ifstream lines(directory_ / "run/events.jsonl");
    for (std::string line; std::getline(lines, line);) {
      found = nlohmann::json::parse(line).value("agreement", found);
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
  if (is_last()) {
    pthread_attr_t vast = usual;
    pthread_attr_setstacksize(&vast, std::size_t{1} << 47U);
    ASSERT_EQ(pthread_setattr_default_np(&vast), 0);
  }
  testing::internal::CaptureStderr();
  program_.start();
  const std::string text = testing::internal::GetCapturedStderr();
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(text.find("can make no thread") != std::string::npos, is_last()) << text;
  EXPECT_EQ(recorded_agreement(), "boundaries");
  EXPECT_THROW(program_.run(100'000,
                            [&](int step) {
                              if (step == 20 && is_last()) {
                                std::raise(SIGTERM);
                              }
                            }),
               Preempted);
  expect_same_on_all_ranks(program_.handler->total_run_calls());
}

/// Ranks of different speeds that meet at every tenth step: the save comes within three boundaries of where the first
/// of them was at the notice.
TEST_F(ByThreads, RanksThatMeetAtEveryTenthStepSaveWithinThreeBoundaries) {
  for (int round = 0; round < 2; ++round) {
    Program program(directory_ / std::to_string(round));
    program.config.agreement = Agreement::threads;
    program.start();
    std::vector<Clock::time_point> began;
    double noticed_at = 0;
    const auto step = [&] {
      began.push_back(Clock::now());
      if (began.size() % 10 == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
      }
      std::this_thread::sleep_for(began.size() < 40 ? 1ms : (200 + 40 * world_rank()) * 1ms);
      if (is_last() && began.size() == 42U + static_cast<unsigned>(round)) {
        noticed_at = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
        std::raise(SIGTERM);
      }
    };
    EXPECT_THROW(
        {
          while (began.size() < 1000) {
            program.handler->run(step);
          }
        },
        Preempted);
    MPI_Bcast(&noticed_at, 1, MPI_DOUBLE, world_size() - 1, MPI_COMM_WORLD);
    auto begun = static_cast<int>(std::count_if(began.begin(), began.end(), [&](Clock::time_point time) {
      return std::chrono::duration<double>(time.time_since_epoch()).count() <= noticed_at;
    }));
    MPI_Allreduce(MPI_IN_PLACE, &begun, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    expect_same_on_all_ranks(program.handler->total_run_calls());
    EXPECT_LE(program.handler->total_run_calls(), static_cast<unsigned>(begun) + 3U);
  }
}

TEST_F(ByThreads, ManyNoticesAtOnceLeadToOneSave) {
  program_.start();
  EXPECT_THROW(program_.run(2000,
                            [&](int step) {
                              if (step == 30 + 5 * world_rank()) {
                                std::raise(SIGTERM);
                              }
                            }),
               Preempted);
  expect_same_on_all_ranks(program_.handler->total_run_calls());
  EXPECT_EQ(program_.handler->manager().checkpoints().size(), 1U);
}

/// The threads rest while the exit function runs, and continue after it.
TEST_F(ByThreads, AfterAnExitFunctionThatReturnsTheNextNoticeIsHeard) {
  int exits = 0;
  program_.config.exit_fn = [&](const ExitContext&) { ++exits; };
  program_.step_time = 2ms;
  program_.start();
  for (int notice = 1; notice <= 3; ++notice) {
    if (world_rank() == notice % world_size()) {
      std::raise(SIGTERM);
    }
    for (int step = 0; step < 100'000 && exits < notice; ++step) {
      program_.handler->run([&] { program_.step(); });
    }
    EXPECT_EQ(exits, notice);
    expect_same_on_all_ranks(program_.handler->total_run_calls());
  }
  program_.handler->finish();
}

TEST_F(ByThreads, AnErrorIsHeardInLongStepsOfUncoupledRanks) {
  program_.start();
  const auto start = Clock::now();
  int steps = 0;
  try {
    for (;; ++steps) {
      program_.handler->run([&] {
        std::this_thread::sleep_for(is_last() ? 1ms : 60ms);
        if (is_last() && steps == 20) {
          throw std::runtime_error("no more");
        }
      });
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.origin_rank(), world_size() - 1);
    EXPECT_LE(steps, 20);
  }
  EXPECT_LT(Clock::now() - start, 10s);
}

TEST_F(ByThreads, ARequestOfOneRankSavesOnAll) {
  program_.start();
  for (int step = 0; step < 100'000 && !program_.handler->last_save(); ++step) {
    if (step == 50 && is_last()) {
      program_.handler->request_checkpoint();
    }
    program_.handler->run([&] { program_.step(); });
  }
  ASSERT_TRUE(program_.handler->last_save().has_value());
  expect_same_on_all_ranks(program_.handler->last_save()->number);
  EXPECT_EQ(program_.handler->manager().checkpoints().size(), 1U);
  program_.handler->finish();
}

TEST_F(ByThreads, SavesByTheClockAreMade) {
  program_.config.save_every = 30ms;
  program_.start();
  std::set<std::uint64_t> saved;
  for (int step = 0; step < 100'000 && saved.size() < 2; ++step) {
    program_.handler->run([&] { program_.step(); });
    if (const auto& last = program_.handler->last_save()) {
      saved.insert(last->number);
    }
  }
  program_.handler->finish();
  EXPECT_EQ(saved.size(), 2U);
}

/// A first save at once, training, and a second one before the deadline, however long the steps are meanwhile.
TEST_F(ByThreads, InAGracePeriodTheLastSaveIsInTime) {
  program_.config.grace_period = 8s;
  program_.config.grace_margin = 4s;
  program_.step_time = 1ms;
  program_.start();
  Clock::time_point noticed{};
  int after = 0;
  try {
    for (int step = 0;; ++step) {
      if (step == 30 && is_last()) {
        std::raise(SIGTERM);
      }
      noticed = step == 30 ? Clock::now() : noticed;
      program_.step_time = step > 200 ? 300ms : 1ms;
      after += step > 30 ? 1 : 0;
      program_.handler->run([&] { program_.step(); });
    }
  } catch (const Preempted&) {
    EXPECT_LT(Clock::now() - noticed, 8s);
    EXPECT_GT(after, 150) << "it did not train on";
  }
  EXPECT_EQ(program_.handler->manager().checkpoints().size(), 2U);
}

TEST_F(ByThreads, HandlersInOneProcessDoNotMeet) {
  Program other(directory_ / "other");
  other.config.agreement = Agreement::threads;
  other.config.return_when_saved = true;
  other.config.exit_fn = nullptr;
  program_.config.exit_fn = nullptr;
  program_.config.return_when_saved = true;
  program_.start();
  other.start();
  for (int step = 0; step < 100'000 && !(program_.handler->preempted() && other.handler->preempted()); ++step) {
    if (step == 40 && is_last()) {
      std::raise(SIGTERM);
    }
    program_.handler->run([&] { program_.step(); });
    other.handler->run([&] { other.step(); });
  }
  EXPECT_TRUE(program_.handler->preempted());
  EXPECT_TRUE(other.handler->preempted());
  program_.handler->finish();
  other.handler->finish();
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

}  // namespace
}  // namespace reprieve::test
