// SPDX-License-Identifier: BSD-3-Clause
// The first save after a restart is often the last before the end of a job: with thousands of variables its file is
// laid out at the restore.

#include "manager/manager_impl.hpp"
#include "manager_fixture.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::test {
namespace {

class LayoutAhead : public ManagerTest {
 protected:
  static constexpr std::size_t kMany = 300;

  /// As many variables as are laid out ahead.
  void register_many(int seed) {
    for (std::size_t i = 0; i < kMany; ++i) {
      many_.emplace_back(1 + i % 3, seed + static_cast<int>(i) + 1000 * world_rank());
    }
    for (std::size_t i = 0; i < kMany; ++i) {
      state.checkpoint.add_per_rank("many/" + std::to_string(i), many_[i]);
    }
  }

  static bool is_laid_out(const CheckpointManager& manager) { return manager.impl().layout.content() != nullptr; }

  std::vector<std::vector<int>> many_;
};

TEST_F(LayoutAhead, FewVariablesTakeNoTime) {
  {
    CheckpointManager manager = open();
    save_each(manager, {1});
  }
  CheckpointManager manager = open();
  manager.restore_or_initialize();
  EXPECT_FALSE(is_laid_out(manager));
}

/// What the functions of a program tell of its state may not be there yet.
TEST_F(LayoutAhead, OfANewDirectoryThereIsNone) {
  register_many(1);
  CheckpointManager manager = open();
  manager.restore_or_initialize();
  EXPECT_FALSE(is_laid_out(manager));
  save_each(manager, {1});
  on_chief([&] { EXPECT_TRUE(storage::verify_file(directory / "ckpt-1.h5").empty()); });
}

TEST_F(LayoutAhead, OfARestoredFile) {
  register_many(1);
  {
    CheckpointManager manager = open();
    save_each(manager, {1});
  }
  CheckpointManager manager = open();
  state.set(99);
  ASSERT_TRUE(manager.restore_or_initialize().has_value());
  EXPECT_TRUE(is_laid_out(manager));
  expect_state(1);
  for (auto& values : many_) {
    std::fill(values.begin(), values.end(), 7 + world_rank());
  }
  save_each(manager, {2});
  many_.front().front() = 0;
  ASSERT_TRUE(manager.restore_or_initialize().has_value());
  EXPECT_THAT(many_, testing::Each(testing::Each(7 + world_rank())));
  on_chief([&] { EXPECT_TRUE(storage::verify_file(directory / "ckpt-2.h5").empty()); });
}

TEST_F(LayoutAhead, AVariableThatChangesItsSizeIsLaidOutAnew) {
  register_many(1);
  {
    CheckpointManager manager = open();
    save_each(manager, {1});
  }
  CheckpointManager manager = open();
  manager.restore_or_initialize();
  many_[5].assign(50 + static_cast<std::size_t>(world_rank()), 3);
  save_each(manager, {2});
  many_[5].assign(1, 0);
  ASSERT_TRUE(manager.restore_or_initialize().has_value());
  EXPECT_THAT(many_[5], testing::AllOf(testing::SizeIs(50 + world_rank()), testing::Each(3)));
}

}  // namespace
}  // namespace reprieve::test
