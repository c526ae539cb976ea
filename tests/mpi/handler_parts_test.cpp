// SPDX-License-Identifier: BSD-3-Clause
// Several handlers in one process: on parts of the ranks, and on all of them besides.

#include <stdlib.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <set>
#include <string>

#include "core/run_record.hpp"
#include "handler_fixture.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

/// A communicator that is freed at the end.
class PartComm {
 public:
  /// Ranks with the same @p color are together.
  explicit PartComm(int color) { MPI_Comm_split(MPI_COMM_WORLD, color, world_rank(), &comm_); }
  ~PartComm() { MPI_Comm_free(&comm_); }
  PartComm(const PartComm&) = delete;
  PartComm& operator=(const PartComm&) = delete;
  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// A program of these ranks, with a count of its own, that returns when it has saved.
struct Member : Program {
  Member(MPI_Comm comm, const std::filesystem::path& directory, WatcherFn watcher = {}) : Program(directory) {
    config.return_when_saved = true;
    config.exit_fn = nullptr;
    config.step_fn = [this] { return static_cast<std::uint64_t>(counter); };
    config.termination_watcher_fn = std::move(watcher);
    start(comm);
  }

  /// A boundary, and a step unless it is over.
  void advance(std::chrono::microseconds time) {
    handler->save_checkpoint_if_preempted();
    step_time = time;
    if (!handler->preempted()) {
      step();
    }
  }
};

int color() { return world_rank() % 2; }

std::filesystem::path part_directory(const SharedTemporaryDirectory& directory) {
  return directory / ("part" + std::to_string(color()));
}

/// Whether all ranks of the world say so.
bool everywhere(bool mine) {
  int all = mine ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  return all != 0;
}

TEST(HandlersOfParts, EachSavesWhenAllAreNotified) {
  const SharedTemporaryDirectory directory;
  const PartComm part(color());
  int saved_at = 0;
  {
    Member mine(part.get(), part_directory(directory));
    for (int step = 0; step < 100'000 && !mine.handler->preempted(); ++step) {
      if (step == 20) {
        std::raise(SIGTERM);
      }
      mine.advance(color() == 0 ? 200us : 900us);  // the parts are at different steps
    }
    EXPECT_TRUE(mine.handler->preempted());
    EXPECT_EQ(mine.handler->exit_code(), 42);
    saved_at = mine.counter;
    EXPECT_EQ(mine.handler->last_save()->number, saved_at);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  Member again(part.get(), part_directory(directory));
  EXPECT_EQ(again.counter, saved_at);
}

TEST(HandlersOfParts, ANoticeInOneIsKnownThereAloneUntilTheProgramPassesItOn) {
  REPRIEVE_NEEDS_RANKS(2);
  const SharedTemporaryDirectory directory;
  const PartComm part(color());
  std::atomic<bool> told = false;
  Member mine(part.get(), part_directory(directory), [&] { return told.load(); });
  if (world_rank() == 1) {
    std::raise(SIGTERM);
  }
  for (int step = 0; step < 200; ++step) {
    mine.advance(200us);
  }
  EXPECT_EQ(mine.handler->preempted(), color() == 1);

  // The parts meet now and then, as coupled codes do.
  for (int step = 0; step < 100'000 && !everywhere(mine.handler->preempted()); ++step) {
    int any = mine.handler->preempted() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    told = any != 0;
    mine.advance(200us);
  }
  EXPECT_TRUE(mine.handler->preempted());
  EXPECT_EQ(mine.handler->preemption_notice()->source, color() == 1 ? "signal SIGTERM" : "watcher function");
  EXPECT_TRUE(mine.handler->last_save());
}

TEST(HandlersOfParts, OneOnAllRanksAndOneOnAPartBothSave) {
  const SharedTemporaryDirectory directory;
  const PartComm part(color());
  Member all(MPI_COMM_WORLD, directory / "all");
  Member mine(part.get(), part_directory(directory));
  const auto both_saved = [&] { return all.handler->preempted() && mine.handler->preempted(); };
  int step = 0;
  for (; step < 100'000 && !everywhere(both_saved()); ++step) {
    if (step == 20) {
      std::raise(SIGUSR1);
    }
    mine.advance(100us);
    all.advance(100us);
  }
  EXPECT_TRUE(both_saved());
  EXPECT_EQ(all.handler->last_save()->number, all.counter);
  EXPECT_EQ(mine.handler->last_save()->number, mine.counter);
}

TEST(HandlersOfParts, AnErrorInOnePartStaysThere) {
  REPRIEVE_NEEDS_RANKS(4);
  const SharedTemporaryDirectory directory;
  const PartComm part(color());
  Member mine(part.get(), part_directory(directory));
  const int steps = color() == 1 ? 100'000 : 2000;  // those that are to hear of it do not come to the end before
  const auto run = [&] {
    for (int step = 0; step < steps; ++step) {
      mine.handler->run([&] {
        std::this_thread::sleep_for(100us);
        if (world_rank() == 1 && step == 10) {
          throw std::runtime_error("diverged");
        }
      });
    }
  };
  if (color() == 1) {
    EXPECT_THROW(run(), ClusterError);
  } else {
    EXPECT_NO_THROW(run());
  }
}

// A drill's orders: the steps at which a run saves and leaves, without a notice and without a word between the ranks.

class DryRun : public testing::TestWithParam<Agreement> {
 protected:
  void SetUp() override {
    if (GetParam() == Agreement::threads && !all_threads_may_use_mpi()) {
      GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
    }
  }
  ~DryRun() override { ::unsetenv(core::kRunDirectoryVariable); }

  /// Starts the program with these orders. Rank 0 alone reads them.
  void start(const core::DrillOrders& orders) {
    if (world_rank() == 0) {
      std::filesystem::create_directory(directory_ / "orders");
      std::ofstream(directory_ / "orders" / core::kDrillOrdersName) << core::to_text(orders);
      ::setenv(core::kRunDirectoryVariable, (directory_ / "orders").c_str(), 1);
    }
    program_.config.agreement = GetParam();
    program_.start();
  }

  [[nodiscard]] std::set<std::uint64_t> saved() const {
    std::set<std::uint64_t> numbers;
    for (const CheckpointInfo& info : program_.handler->manager().checkpoints()) {
      numbers.insert(info.number);
    }
    return numbers;
  }

  SharedTemporaryDirectory directory_;
  Program program_{directory_ / "run"};
};

INSTANTIATE_TEST_SUITE_P(By, DryRun, testing::Values(Agreement::boundaries, Agreement::threads), [](const auto& param) {
  return param.param == Agreement::threads ? "threads" : "boundaries";
});

TEST_P(DryRun, SavesAtOneStepAndLeavesAtAnother) {
  program_.config.save_every_steps = 2;
  program_.options.max_to_keep = 1;
  start({.subdirectory = "drill", .save_at = 5, .leave_at = 9});
  EXPECT_THROW(program_.run(100), Preempted);
  EXPECT_EQ(program_.handler->total_run_calls(), 9U);
  EXPECT_EQ(program_.counter, 9);
  EXPECT_EQ(saved(), (std::set<std::uint64_t>{4, 5, 6, 8, 9})) << "from step 5 on none is given up";
}

TEST_P(DryRun, SavesBeforeTheFirstStep) {
  start({.subdirectory = "drill", .save_at = 0, .leave_at = 1});
  EXPECT_THROW(program_.run(100), Preempted);
  EXPECT_EQ(saved(), (std::set<std::uint64_t>{0, 1}));
}

TEST_P(DryRun, LeavesAtTheEndOfAShorterProgram) {
  start({.subdirectory = "drill", .leave_at = 100});
  program_.run(7);
  EXPECT_THROW(program_.handler->finish(), Preempted);
  EXPECT_EQ(saved(), (std::set<std::uint64_t>{7}));
}

TEST_P(DryRun, WaitsForTheEndOfAScope) {
  start({.subdirectory = "drill", .save_at = 2, .leave_at = 5});
  auto scope = program_.handler->watch_preemption_scope(ScopeMode::save_at_end);
  program_.run(3);
  EXPECT_TRUE(saved().empty());
  scope.close();
  EXPECT_EQ(saved(), (std::set<std::uint64_t>{3}));
  auto next = program_.handler->watch_preemption_scope(ScopeMode::save_at_end);
  program_.run(8);
  EXPECT_THROW(next.close(), Preempted);
  EXPECT_EQ(saved(), (std::set<std::uint64_t>{3, 8}));
}

TEST_P(DryRun, ReturnsWhereTheProgramLeavesInItsOwnOrder) {
  program_.config.return_when_saved = true;
  program_.config.exit_fn = nullptr;
  start({.subdirectory = "drill", .leave_at = 5});
  while (program_.handler->exit_code() == 0 && program_.handler->total_run_calls() < 100) {
    program_.handler->run([this] { program_.step(); });
  }
  EXPECT_EQ(program_.handler->exit_code(), 42);
  EXPECT_EQ(saved(), (std::set<std::uint64_t>{5}));
}

TEST_P(DryRun, SavesInTheBackgroundAreCommittedFirst) {
  program_.config.save_every_steps = 2;
  program_.options.background = true;
  program_.options.max_to_keep = 0;
  start({.subdirectory = "drill", .save_at = 5, .leave_at = 9});
  EXPECT_THROW(program_.run(100), Preempted);
  EXPECT_TRUE(saved().contains(5));
  EXPECT_TRUE(saved().contains(9));
}

}  // namespace
}  // namespace reprieve::test
