// SPDX-License-Identifier: BSD-3-Clause
// Memory runs out once, at every place in turn, in a handler that makes a notice known, saves and leaves: on rank 0
// and on another rank, with both ways to agree. Wherever it is, all ranks end, no rank leaves as preempted while
// another one failed, and the next start continues with what was committed.
//
// Of the places only some are tried, evenly spread; REPRIEVE_EVERY_ALLOCATION=1 tries all.

#include <csignal>
#include <cstdlib>
#include <tuple>

#include "core/log.hpp"
#include "faults/injector/faulty_memory.hpp"
#include "mpi/handler_fixture.hpp"

namespace reprieve::test {
namespace {

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

  static bool failed_anywhere() {
    int any = HasFailure() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any != 0;
  }

  const SharedTemporaryDirectory directory_;
  int committed_ = 0;
  int failures_ = 0;
};

TEST_P(HandlerMemory, AllRanksEndAlikeAndNothingIsLost) {
  const std::uint64_t places = preempt({.occurrence = UINT64_MAX});
  ASSERT_FALSE(failed_anywhere());
  const bool all = std::getenv("REPRIEVE_EVERY_ALLOCATION") != nullptr;
  const std::uint64_t step = all ? 1 : std::max<std::uint64_t>(1, places / kMostPlacesOfHandler);
  for (std::uint64_t place = 1; place <= places; place += step) {
    preempt({.occurrence = place});
    ASSERT_FALSE(failed_anywhere()) << "at allocation " << place << " of " << places;
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
                                  (std::get<1>(parameters.param) == 0 ? "OnTheChief" : "OnAnotherRank");
                         });

}  // namespace
}  // namespace reprieve::test
