// SPDX-License-Identifier: BSD-3-Clause
// A drill's orders: the steps at which a run saves and leaves, without a notice and without a word between the ranks.

#include <stdlib.h>

#include <fstream>
#include <set>
#include <string>

#include "core/run_record.hpp"
#include "handler_fixture.hpp"

namespace reprieve::test {
namespace {

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
