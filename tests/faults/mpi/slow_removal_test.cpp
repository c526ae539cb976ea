// SPDX-License-Identifier: BSD-3-Clause
// File systems may take seconds to free the space of a large file. The save of a preemption is the last thing before
// the end: it waits for none of that.

#include <chrono>
#include <thread>

#include "faults/injector/faulty_calls.hpp"
#include "mpi/manager_fixture.hpp"

namespace reprieve::test {
namespace {

class SlowRemoval : public ManagerTest {
 protected:
  static void save(CheckpointManager& manager, std::uint64_t number, SaveReason::Kind kind) {
    CheckpointManager::SaveRequest request;
    request.number = number;
    request.reason.kind = kind;
    manager.save(request);
  }

  CheckpointManager manager = open({.max_to_keep = 1, .recycle = false});
};

/// If the save waited, it would do so for ever, since the call is let go after it.
TEST_F(SlowRemoval, OfAnOlderCheckpointIsNotWaitedFor) {
  save(manager, 1, SaveReason::Kind::user);
  on_chief([] { arm({.call = Call::close, .error = kHold, .count = kAlways, .path = "ckpt-1.h5 (deleted)"}); });
  save(manager, 2, SaveReason::Kind::user);
  on_chief([] {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (hits().failed == 0 && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(hits().failed, 1U) << "the space of the first checkpoint is being freed";
  });
  state.set(3);
  save(manager, 3, SaveReason::Kind::preemption);
  on_chief([] { EXPECT_EQ(disarm().failed, 1U); });
  EXPECT_EQ(names(), (Names{"ckpt-2.h5", "ckpt-3.h5"}));
  state.set(4);
  ASSERT_TRUE(manager.restore_or_initialize());
  expect_state(3);
}

TEST_F(SlowRemoval, IsLeftToTheNextSave) {
  const auto count_removals = [] {
    on_chief([] { arm({.call = Call::unlink, .error = EIO, .occurrence = kAlways, .path = "/ckpt-2.h5"}); });
  };
  const auto expect_removals = [](std::uint64_t expected) { on_chief([&] { EXPECT_EQ(disarm().seen, expected); }); };
  save(manager, 1, SaveReason::Kind::user);
  save(manager, 2, SaveReason::Kind::user);
  count_removals();
  save(manager, 3, SaveReason::Kind::preemption);
  expect_removals(0);
  EXPECT_EQ(names(), (Names{"ckpt-2.h5", "ckpt-3.h5"}));
  count_removals();
  save(manager, 4, SaveReason::Kind::user);
  expect_removals(1);
  EXPECT_EQ(names(), (Names{"ckpt-4.h5"}));
}

}  // namespace
}  // namespace reprieve::test
