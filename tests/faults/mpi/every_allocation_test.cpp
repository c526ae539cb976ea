// SPDX-License-Identifier: BSD-3-Clause
// Memory runs out once, at every place in turn: for each operation, on rank 0 and on another rank, the first
// allocation fails, then the second, and so on. Wherever it is: all ranks have the same outcome, no rank is left alone
// in a collective call, no checkpoint is lost or corrupt, and the next operation works.
//
// Of the thousands of places only some are tried, evenly spread; REPRIEVE_EVERY_ALLOCATION=1 tries all.

#include <csignal>
#include <cstdlib>
#include <exception>
#include <tuple>

#include "faults/injector/faulty_memory.hpp"
#include "mpi/handler_fixture.hpp"
#include "operations.hpp"

namespace reprieve::test {
namespace {

/// Of the places of one operation on one rank.
constexpr std::uint64_t kMostPlaces = 40;
/// In every second round so many allocations fail in a row: there is no memory to tell of it either.
constexpr std::uint64_t kRow = 12;

class EveryAllocation : public OperationTest {
 protected:
  void SetUp() override {
    OperationTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    if (!operation().is_new) {
      open();
      save();
      save();
    }
    if (operation().is_start()) {
      manager_.reset();
    }
  }

  /// @param with_text  there was memory for it everywhere
  static void expect_same_everywhere(const Ended& ended, bool hit, bool with_text) {
    const std::string code = ended.failed ? to_string(ended.code) : "no error";
    const std::string text = broadcast(ended.text, 0);
    EXPECT_EQ(code, broadcast(code, 0)) << ended.text << "\nrank 0: " << text;
    EXPECT_TRUE(hit || !ended.failed) << ended.text;
    if (ended.failed && ended.code == ErrorCode::no_memory) {
      EXPECT_EQ(ended.origin_rank, victim()) << ended.text;
    }
    if (ended.failed && with_text) {
      EXPECT_EQ(ended.text, text);
    }
    // The program's own function may say it in its own way.
    const bool is_own = ended.text.starts_with("the save function failed: ");
    if (ended.failed && with_text && !is_own) {
      EXPECT_EQ(ended.code, ErrorCode::no_memory) << ended.text;
      EXPECT_NE(ended.text.find("ran out of memory"), std::string::npos) << ended.text;
    }
  }

  /// There is memory again.
  void keep_running() {
    if (operation().is_start()) {
      open();
      expect_restored();
      manager_.reset();
      return;
    }
    if (operation().saves) {
      save();
    }
    expect_restored();
  }

  /// One round; returns how many allocations there were.
  std::uint64_t round(const MemoryFault& fault) {
    SCOPED_TRACE("on rank " + std::to_string(victim()) + ", allocation " + std::to_string(fault.occurrence) + " and " +
                 std::to_string(fault.count - 1) + " more");
    prepare();
    if (world_rank() == victim()) {
      arm_memory(fault);
    }
    const std::exception_ptr error = perform();
    const MemoryHits mine = disarm_memory();
    std::array<std::uint64_t, 2> hits{mine.seen, mine.failed};
    MPI_Bcast(hits.data(), 2, MPI_UINT64_T, victim(), MPI_COMM_WORLD);
    const Ended ended = ended_by(error);
    SCOPED_TRACE(ended.failed ? ended.text : "no error");
    expect_same_everywhere(ended, hits[1] > 0, fault.count == 1);
    expect_sound_checkpoints(ended);
    keep_running();
    return hits[0];
  }
};

TEST_P(EveryAllocation, HasTheSameOutcomeOnAllRanksAndLosesNothing) {
  const std::uint64_t places = round({.occurrence = UINT64_MAX});
  ASSERT_FALSE(has_failed_anywhere());
  const bool all = std::getenv("REPRIEVE_EVERY_ALLOCATION") != nullptr;
  const std::uint64_t step = all ? 1 : std::max<std::uint64_t>(1, places / kMostPlaces);
  int rounds = 0;
  for (std::uint64_t place = 1; place <= places; place += step, ++rounds) {
    const bool in_a_row = rounds % 2 == 1;
    round({.occurrence = place, .count = in_a_row ? kRow : 1});
    if (has_failed_anywhere()) {
      FAIL() << "at allocation " << place << " of " << places;
    }
  }
  RecordProperty("allocations", static_cast<int>(places));
  RecordProperty("errors", failures_);
  EXPECT_GE(failures_, rounds / 3) << "errors come through";
}

INSTANTIATE_TEST_SUITE_P(Operations, EveryAllocation, all_operations, name_of_operation);

// Memory runs out once, at every place in turn, in a handler that makes a notice known, saves and leaves: on rank 0
// and on another rank, with both ways to agree. Wherever it is, all ranks end, no rank leaves as preempted while
// another one failed, and the next start continues with what was committed.
//
// Of the places only some are tried, evenly spread; REPRIEVE_EVERY_ALLOCATION=1 tries all.

using namespace std::chrono_literals;

constexpr std::uint64_t kMostPlacesOfHandler = 40;
constexpr int kStepsBeforeNotice = 3;
constexpr int kStepsWithoutNotice = 100'000;

/// Made without memory.
struct Left {};

class HandlerMemory : public testing::TestWithParam<std::tuple<Agreement, int>> {
 protected:
  void SetUp() override {
    REPRIEVE_NEEDS_RANKS(2);
    if (std::get<0>(GetParam()) == Agreement::threads && !all_threads_may_use_mpi()) {
      GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
    }
    core::log::set_level("off");
  }

  static int victim() { return std::get<1>(GetParam()); }

  /// Continues where the last run ended, is given a notice, and is out of memory then. An error goes through the
  /// handler, as it does in a program that does not expect one.
  MemoryHits run(const MemoryFault& fault) {
    Program program(directory_ / "run");
    program.config.agreement = std::get<0>(GetParam());
    program.config.error_timeout = 3s;
    program.config.exit_fn = [](const ExitContext&) { throw Left{}; };
    program.step_time = 0us;
    program.start();
    EXPECT_EQ(program.counter, static_cast<int>(program.handler->total_run_calls()));
    EXPECT_GE(program.counter, committed_);
    try {
      program.run(program.counter + kStepsBeforeNotice);
      MPI_Barrier(MPI_COMM_WORLD);
      if (world_rank() == victim()) {
        arm_memory(fault);
        std::raise(SIGTERM);
      }
      program.run(program.counter + kStepsWithoutNotice);
    } catch (const Left&) {
      const MemoryHits hits = disarm_memory();
      committed_ = program.counter;
      return hits;
    }
    throw std::runtime_error("no notice came");
  }

  /// Returns how many allocations there were.
  std::uint64_t preempt(const MemoryFault& fault) {
    SCOPED_TRACE("on rank " + std::to_string(victim()) + ", allocation " + std::to_string(fault.occurrence));
    MemoryHits hits;
    std::string error;
    try {
      hits = run(fault);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    hits.seen += disarm_memory().seen;
    int any_failed = error.empty() ? 0 : 1;
    MPI_Allreduce(MPI_IN_PLACE, &any_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    EXPECT_EQ(error.empty(), any_failed == 0) << error;
    if (any_failed != 0) {
      ++failures_;
      run({.occurrence = UINT64_MAX});  // the notice may still be there
    }
    MPI_Bcast(&hits.seen, 1, MPI_UINT64_T, victim(), MPI_COMM_WORLD);
    return hits.seen;
  }

  const SharedTemporaryDirectory directory_;
  int committed_ = 0;
  int failures_ = 0;
};

TEST_P(HandlerMemory, AllRanksEndAlikeAndNothingIsLost) {
  const std::uint64_t places = preempt({.occurrence = UINT64_MAX});
  ASSERT_FALSE(has_failed_anywhere());
  const bool all = std::getenv("REPRIEVE_EVERY_ALLOCATION") != nullptr;
  const std::uint64_t step = all ? 1 : std::max<std::uint64_t>(1, places / kMostPlacesOfHandler);
  for (std::uint64_t place = 1; place <= places; place += step) {
    preempt({.occurrence = place});
    ASSERT_FALSE(has_failed_anywhere()) << "at allocation " << place << " of " << places;
  }
  preempt({.occurrence = UINT64_MAX});
  EXPECT_GT(failures_, 0) << "errors come through";
  RecordProperty("allocations", static_cast<int>(places));
}

INSTANTIATE_TEST_SUITE_P(Ways, HandlerMemory,
                         testing::Combine(testing::Values(Agreement::boundaries, Agreement::threads),
                                          testing::Values(0, 1)),
                         [](const auto& parameters) {
                           const bool threads = std::get<0>(parameters.param) == Agreement::threads;
                           return std::string(threads ? "Threads" : "Boundaries") +
                                  (std::get<1>(parameters.param) == 0 ? "OnRank0" : "OnAnotherRank");
                         });

}  // namespace
}  // namespace reprieve::test
