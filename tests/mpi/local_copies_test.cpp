// SPDX-License-Identifier: BSD-3-Clause
// Copies of the state in the memory of the nodes: which one a start takes, and which it must not take.

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "local_fixture.hpp"
#include "storage/local/part_file.hpp"

/// In place of MPI's own, which the library asks for the name of its host.
extern "C" int MPI_Get_processor_name(char* name, int* length) {
  if (!reprieve::test::hosts_are_played) {
    return PMPI_Get_processor_name(name, length);
  }
  *length = std::snprintf(name, MPI_MAX_PROCESSOR_NAME, "node%d", reprieve::test::world_rank());
  return MPI_SUCCESS;
}

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class LocalCopies : public LocalTest {};

TEST_P(LocalCopies, AreRemovedByAnOrderlyEnd) {
  {
    CheckpointManager manager = open(with_local_copies());
    copy(manager, 2);
    EXPECT_EQ(parts().size(), static_cast<std::size_t>(world_size()));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_TRUE(parts().empty());
  EXPECT_FALSE(restore());
}

TEST_P(LocalCopies, OfADeadRunAreRemovedByTheNextOne) {
  crash_after([&](CheckpointManager& manager) { copy(manager, 2); });
  crash_after([&](CheckpointManager& manager) {
    expect_state(2);
    copy(manager, 3);
    EXPECT_EQ(parts().size(), 2 * static_cast<std::size_t>(world_size())) << "the older is needed still";
    MPI_Barrier(MPI_COMM_WORLD);
    copy(manager, 4);
    EXPECT_EQ(parts().size(), 2 * static_cast<std::size_t>(world_size())) << "of this run alone";
  });
  expect_restored(4, ".part");
}

TEST_P(LocalCopies, ANewerCheckpointGoesBeforeThem) {
  crash_after([&](CheckpointManager& manager) {
    copy(manager, 3);
    save_each(manager, {5});
  });
  expect_restored(5, ".h5");
}

TEST_P(LocalCopies, ACorruptPartMakesAllRanksTakeTheCopyBefore) {
  crash_after({1}, {2, 3});
  on_rank_0([&] { storage::flip(part_of(world_size() - 1, 1), 4096); });
  expect_restored(2, ".part");
}

TEST_P(LocalCopies, WithoutAValidCopyTheCheckpointIsTaken) {
  crash_after({1}, {2, 3});
  on_rank_0([&] {
    storage::flip(part_of(world_size() - 1, 1), 4100);
    fs::resize_file(part_of(0, 0), 5000);
  });
  expect_restored(1, ".h5");
}

TEST_P(LocalCopies, AreReadOnceWhereSomethingOlderWouldOverwriteWhatIsCorrupt) {
  crash_after({1}, {2, 3});
  expect_restored(3, ".part");
  on_rank_0([&] { EXPECT_THAT(read_text(directory / "events.jsonl"), HasSubstr(R"("pass":"single")")); });
}

TEST_P(LocalCopies, ThatAreCorruptTouchNothingWhereThereIsNoCheckpoint) {
  crash_after({}, {2, 3});
  on_rank_0([&] { storage::flip(part_of(world_size() - 1, 1), 4096); });
  expect_restored(2, ".part");
  on_rank_0([&] { EXPECT_THAT(read_text(directory / "events.jsonl"), HasSubstr(R"("pass":"verified")")); });
}

TEST_P(LocalCopies, ThatAreAllCorruptLeaveTheStateAsItIs) {
  crash_after({}, {2, 3});
  on_rank_0([&] {
    storage::flip(part_of(world_size() - 1, 1), 4096);
    storage::flip(part_of(0, 0), 4096);
  });
  EXPECT_FALSE(restore());
  expect_state(99);
}

TEST_P(LocalCopies, ThatAreCorruptTouchNothingThatOlderOnesDoNotHave) {
  std::vector<double> more(100, 1.0);
  crash_after([&](CheckpointManager& manager) { save_each(manager, {1}); });
  state.checkpoint.add_per_rank("more", more);
  state.checkpoint.allow_missing("more");
  crash_after([&](CheckpointManager& manager) { copy(manager, 3); });
  on_rank_0([&] { storage::flip(part_of(world_size() - 1, 0), 4096); });
  more.assign(100, 2.0);
  expect_restored(1, ".h5");
  EXPECT_EQ(more, std::vector<double>(100, 2.0));
}

TEST_P(LocalCopies, APartThatLacksAChecksumIsPassedOver) {
  crash_after({}, {2, 3});
  on_rank_0([&] {
    const core::FileAddress file(part_of(world_size() - 1, 1));
    const storage::Part part(storage::PosixFile::open_to_read(file));
    storage::PartTables tables = part.tables();
    tables.checksums.pop_back();
    storage::complete_part(storage::PosixFile::open_to_write(file), part.data_bytes(), part.name(), tables);
  });
  expect_restored(2, ".part");
}

TEST_P(LocalCopies, AMissingPartMakesACopyIncomplete) {
  crash_after({}, {2, 3});
  on_rank_0([&] { fs::remove(part_of(0, 1)); });
  testing::internal::CaptureStderr();
  expect_restored(2, ".part");
  const std::string log = testing::internal::GetCapturedStderr();
  const bool is_there_in_part = world_size() > 1;
  on_rank_0([&] { EXPECT_EQ(log.find("the one at step 2 is taken") != std::string::npos, is_there_in_part) << log; });
}

TEST_P(LocalCopies, OfADirectoryAreNotTakenByACopyOfIt) {
  crash_after({1}, {3});
  on_rank_0([&] {
    fs::rename(directory, temporary / "elsewhere");
    fs::copy(temporary / "elsewhere", directory, fs::copy_options::recursive);
  });
  expect_restored(1, ".h5");
}

TEST_P(LocalCopies, OnHostsOfTheirOwnTheRanksReadTheirOwnPartsAndReplicatedValuesAreSent) {
  hosts_are_played = true;
  crash_after([&](CheckpointManager& manager) { copy(manager, 6); });
  expect_restored(6, ".part");
}

/// Rank r asks for what the rank before it had.
TEST_P(LocalCopies, WhatLiesOnOtherHostsBecomesACheckpointFirst) {
  hosts_are_played = true;
  constexpr std::uint64_t kMine = 3000;
  const auto ranks = static_cast<std::uint64_t>(world_size());
  const auto rank = static_cast<std::uint64_t>(world_rank());
  std::vector<double> values(kMine);
  const auto values_at = [&](std::uint64_t place) {
    Checkpoint checkpoint;
    checkpoint.add_distributed("values", values.data(), {{kMine * ranks}, {kMine * place}, {kMine}});
    return checkpoint;
  };
  Checkpoint own = values_at(rank);
  crash_with(own, [&](CheckpointManager& manager) {
    std::iota(values.begin(), values.end(), static_cast<double>(kMine * rank));
    EXPECT_TRUE(manager.local_copy());
    manager.impl().local->wait();
  });
  const std::uint64_t place = (rank + 1) % ranks;
  std::fill(values.begin(), values.end(), -1.0);
  Checkpoint turned = values_at(place);
  CheckpointManager manager(MPI_COMM_WORLD, turned, directory, with_local_copies());
  const auto info = manager.restore_or_initialize();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->path.extension(), ranks > 1 ? ".h5" : ".part");
  for (std::uint64_t i = 0; i < kMine; ++i) {
    ASSERT_EQ(values[i], static_cast<double>(kMine * place + i));
  }
}

TEST_P(LocalCopies, ThatFindNoRoomAreLeftOutAndTheOlderOneStays) {
  crash_after([&](CheckpointManager& manager) {
    copy(manager, 2);
    {
      const SmallFilesOnTheLastRank no_room(4096);
      state.set(3);
      static_cast<void>(manager.local_copy(3));  // in memory it fails at once, elsewhere in the thread
      manager.impl().local->wait();
      MPI_Barrier(MPI_COMM_WORLD);
      EXPECT_FALSE(manager.local_copy());
    }
  });
  expect_restored(2, ".part");
}

TEST_P(LocalCopies, NeedADirectory) {
  CheckpointManager manager = open();
  EXPECT_THAT(same_error_on_all_ranks([&] { static_cast<void>(manager.local_copy()); }).message,
              HasSubstr("local_directory"));
}

TEST_P(LocalCopies, ADirectoryThatIsNotThereIsSaidAtTheStart) {
  ManagerOptions options;
  options.local_directory = temporary / "nowhere";
  CheckpointManager manager = open(options);
  EXPECT_THAT(same_error_on_all_ranks([&] { static_cast<void>(manager.restore_or_initialize()); }).message,
              testing::AllOf(HasSubstr("local_directory"), HasSubstr("nowhere")));
}

/// Each rank on a host of its own, which keeps the parts of the one before.
class LocalPartners : public LocalCopies {
 protected:
  void SetUp() override {
    if (world_size() == 1) {
      GTEST_SKIP() << "one rank has no partner";
    }
    LocalCopies::SetUp();
    hosts_are_played = true;
  }

  [[nodiscard]] ManagerOptions with_local_copies() const override {
    ManagerOptions options = LocalCopies::with_local_copies();
    options.local_partner = true;
    return options;
  }

  /// What a host has in its memory: the parts of its rank, and those that it keeps for the rank before.
  void lose_host(int host) const {
    const int before = (host + world_size() - 1) % world_size();
    for (const fs::path& path : parts()) {
      const std::string name = path.filename().string();
      const std::string rank = name.substr(name.find('-') + 1, 1);
      const bool is_kept = name.find("partner") != std::string::npos;
      if (rank == std::to_string(is_kept ? before : host)) {
        fs::remove(path);
      }
    }
  }

  /// Until the first part of this rank is complete, wherever else it has to go.
  void wait_for_own_part() const {
    for (;;) {
      try {
        static_cast<void>(storage::read_part_name(storage::PosixFile::open_to_read(part_of(world_rank(), 0))));
        return;
      } catch (const CorruptError&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
};

TEST_P(LocalPartners, OneHostLostLosesNothing) {
  crash_after({1}, {2, 3});
  on_rank_0([&] { lose_host(world_size() - 1); });
  expect_restored(3);
}

TEST_P(LocalPartners, TwoPartnersLostLeaveTheCheckpoint) {
  crash_after({1}, {2, 3});
  on_rank_0([&] {
    lose_host(0);
    lose_host(world_size() - 1);
  });
  expect_restored(1, ".h5");
}

TEST_P(LocalPartners, ACorruptPartIsTakenFromThePartner) {
  crash_after({1}, {2, 3});
  on_rank_0([&] { storage::flip(part_of(world_size() - 1, 1), 4096); });
  expect_restored(3);
}

TEST_P(LocalPartners, AnOrderlyEndGivesTheMemoryBack) {
  {
    CheckpointManager manager = open(with_local_copies());
    copy(manager, 2);
    copy(manager, 3);
    EXPECT_EQ(parts().size(), 4 * static_cast<std::size_t>(world_size()));
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_TRUE(manager.local_copy());  // it is on its way when the manager ends
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_TRUE(parts().empty());
}

TEST_P(LocalPartners, APartnerWithoutRoomIsNoFailure) {
  crash_after([&](CheckpointManager& manager) {
    save_each(manager, {1});
    state.set(2);
    EXPECT_TRUE(manager.local_copy(2));
    wait_for_own_part();
    {
      const SmallFilesOnTheLastRank no_room(4096);
      manager.impl().local->wait();
      MPI_Barrier(MPI_COMM_WORLD);
    }
    EXPECT_TRUE(manager.local_copy(3));
  });
  expect_restored(2);
}

INSTANTIATE_TEST_SUITE_P(In, LocalPartners, testing::Values(true), [](const auto&) { return "Memory"; });
INSTANTIATE_TEST_SUITE_P(In, LocalCopies, testing::Bool(),
                         [](const auto& in_memory) { return in_memory.param ? "Memory" : "AnotherFileSystem"; });

}  // namespace
}  // namespace reprieve::test
