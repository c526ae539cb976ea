// SPDX-License-Identifier: BSD-3-Clause
// Node-local copies beside what else a program and its user do: saves with numbers and with functions, errors that are
// caught, a directory that is put back to what it was.

#include <mpi.h>
#include <sys/time.h>

#include "local_fixture.hpp"
#include "manager/local_finish.hpp"
#include "storage/local/part_file.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class LocalEdges : public LocalTest {
 protected:
  [[nodiscard]] PreemptionCheckpointHandler handle(CheckpointManager& manager) const {
    return {MPI_COMM_WORLD, manager, {}};
  }
};

TEST_P(LocalEdges, ACopyHasTheNumberThatTheProgramGivesIt) {
  crash_after([&](CheckpointManager& manager) {
    save_each(manager, {100});
    EXPECT_THAT(same_error_on_all_ranks([&] { static_cast<void>(manager.local_copy()); }).message,
                HasSubstr("local_copy needs one too"));
    state.set(9);
    EXPECT_TRUE(manager.local_copy(190));
    manager.impl().local->wait();
    MPI_Barrier(MPI_COMM_WORLD);
  });
  const auto info = restore();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->number, 190U);
  expect_state(9);
}

TEST_P(LocalEdges, WhoRemovesTheNewestCheckpointGoesBackBehindTheCopiesBeforeIt) {
  for (const bool has_older : {true, false}) {
    crash_after([&](CheckpointManager& manager) {
      if (has_older) {
        save_each(manager, {1});
      }
      copy(manager, 2);
      save_each(manager, {3});
    });
    on_rank_0([&] { fs::remove(directory / "ckpt-3.h5"); });
    const auto info = restore();
    EXPECT_EQ(info.has_value(), has_older);
    if (info) {
      EXPECT_EQ(info->number, 1U);
      expect_state(1);
      on_rank_0([&] { fs::remove(directory / "ckpt-1.h5"); });
    }
  }
}

TEST_P(LocalEdges, ANodeThatComesOnceMoreGivesBackWhatIsNoNewerThanTheCheckpoint) {
  REPRIEVE_NEEDS_RANKS(2);
  crash_after({1}, {2, 3});
  on_rank_0([&] {
    const TemporaryDirectory other_node("/dev/shm");
    const fs::path& other = other_node.path();
    fs::copy(place_, other, fs::copy_options::recursive);
    for (const auto& entry : fs::recursive_directory_iterator(other)) {
      fs::permissions(entry.path(), fs::perms::owner_all);
    }
    const auto drain = [&](const fs::path& place) {
      manager::CheckpointDirectory checkpoints(directory, "ckpt", true);
      const auto self = manager::LockHolder::self("node", 1);
      return manager::drain(checkpoints, {place, "ckpt", self, std::chrono::seconds(5)}).kind;
    };
    const auto remove = [](const fs::path& place, const auto& is_unwanted) {
      for (const fs::path& part : parts_in(place)) {
        if (is_unwanted(part.filename().string())) {
          fs::remove(part);
        }
      }
    };
    using Kind = manager::DrainResult::Kind;
    const std::string of_last = "-" + std::to_string(world_size() - 1) + ".";
    // The last rank alone is on the other node, which lacks its newest copy.
    remove(place_, [&](const std::string& name) { return name.find(of_last) != std::string::npos; });
    remove(other, [&](const std::string& name) { return name.find(of_last + "0.") == std::string::npos; });
    EXPECT_EQ(drain(other), Kind::incomplete);
    EXPECT_EQ(parts_in(other).size(), 1U) << "no checkpoint has it yet";
    EXPECT_EQ(drain(place_), Kind::completed);
    EXPECT_EQ(parts_in(place_).size(), static_cast<std::size_t>(world_size()) - 1) << "of the newest copy";
    EXPECT_EQ(drain(other), Kind::incomplete) << "the newest one lacks a part";
    EXPECT_TRUE(parts_in(other).empty());
  });
  expect_restored(2, ".h5");
}

TEST_P(LocalEdges, AnErrorThatIsCaughtOutsideOfTheHandlerLeavesThem) {
  {
    CheckpointManager manager = open(with_local_copies());
    const PreemptionCheckpointHandler handler = handle(manager);
    copy(manager, 2);
  }  // as where the program has caught what went wrong, and leaves without finish()
  MPI_Barrier(MPI_COMM_WORLD);
  expect_restored(2);
}

TEST_P(LocalEdges, WhatASaveFunctionWritesIsMissedByNoCopy) {
  CheckpointManager manager = open(with_local_copies());
  CheckpointManager::SaveRequest request;
  request.save_fn = [](const SaveFnContext& context) {
    std::ofstream(context.write_directory / "file") << context.number;
  };
  manager.save(request);
  EXPECT_THAT(same_error_on_all_ranks([&] { static_cast<void>(manager.local_copy()); }).message,
              HasSubstr("cannot hold what a save function writes"));
}

/// The counter of runs goes back with it, and the new run has the number of the dead one.
TEST_P(LocalEdges, ADirectoryThatIsPutBackHasNoUseForCopiesOfTheTimeThatWasUndone) {
  crash_after([&](CheckpointManager& manager) { save_each(manager, {1}); });
  const fs::path backup = temporary / "backup";
  on_rank_0([&] {
    fs::remove_all(backup);
    fs::copy(directory, backup, fs::copy_options::recursive);
  });
  crash_after([&](CheckpointManager& manager) { copy(manager, 5); });
  on_rank_0([&] {
    for (const auto& entry : fs::directory_iterator(directory)) {
      fs::remove_all(entry.path());
    }
    fs::copy(backup, directory, fs::copy_options::recursive);
  });
  for (int launch = 0; launch < 3; ++launch) {  // the later ones have greater numbers than what was undone
    crash_after([&](CheckpointManager&) { expect_state(1); });
  }
  crash_after([&](CheckpointManager& manager) {
    expect_state(1);
    copy(manager, 2);  // in the place of the other one
  });
  expect_restored(2);
}

TEST_P(LocalEdges, ACorruptOlderCheckpointDoesNotHideThatTheNewestWasRemoved) {
  crash_after({1, 2, 3}, {4});
  on_rank_0([&] {
    fs::resize_file(directory / "ckpt-1.h5", 100);
    fs::remove(directory / "ckpt-3.h5");
  });
  expect_restored(2, ".h5");
}

TEST_P(LocalEdges, ACorruptNewestCheckpointMakesNoCopyVoid) {
  crash_after({1, 2}, {3});
  on_rank_0([&] { fs::resize_file(directory / "ckpt-2.h5", 100); });
  expect_restored(3, ".part");
}

TEST_P(LocalEdges, WhatWasFlushedIntoADirectoryGoesWithIt) {
  crash_after({1}, {3});
  on_rank_0([&] {
    const fs::path flushed = directory / manager::kFlushedName;
    fs::create_directory(flushed);
    fs::permissions(flushed, fs::perms::owner_all);
    for (const fs::path& part : parts()) {
      fs::copy(part, flushed);
    }
    fs::remove_all(place_);
    fs::create_directory(place_);
    fs::rename(directory, temporary / "elsewhere");
    fs::copy(temporary / "elsewhere", directory, fs::copy_options::recursive);
    fs::permissions(flushed, fs::perms::owner_all);
  });
  expect_restored(3, ".h5");
}

/// Its record names it as the last one, and its first copy is not complete.
TEST_P(LocalEdges, ALaunchThatDiesInItsFirstCopyLeavesTheOneThatItStartedFrom) {
  const fs::path away = temporary / "away.part";
  crash_after({1}, {3, 4});
  fs::path lost;
  on_rank_0([&] {
    lost = part_of(world_size() - 1, 1);
    fs::copy(lost, away);
    fs::remove(lost);
  });
  crash_after([&](CheckpointManager& manager) {
    expect_state(3);
    copy(manager, 5);
    on_rank_0([&] {
      for (const fs::path& part : parts()) {
        if (storage::read_part_name(storage::PosixFile::open_to_read(part)).copy.number == 5) {
          fs::remove(part);
        }
      }
      fs::copy(away, lost);
      fs::permissions(lost, fs::perms::owner_read | fs::perms::owner_write);
    });
  });
  expect_restored(3, ".part");
}

/// By RemoveIPC, an epilog or a cleaner. What is written into a file without a name is lost with the process.
TEST_P(LocalEdges, FilesThatAreRemovedUnderTheJobAreMadeAgain) {
  crash_after([&](CheckpointManager& manager) {
    save_each(manager, {1});
    copy(manager, 2);
    on_rank_0([&] {
      for (const auto& entry : fs::directory_iterator(place_)) {
        fs::remove_all(entry.path());
      }
    });
    copy(manager, 3);
    EXPECT_FALSE(parts().empty());
    MPI_Barrier(MPI_COMM_WORLD);
  });
  expect_restored(3, ".part");
}

TEST_P(LocalEdges, APlaceThatCannotBeMadeIsNoEndOfTheJob) {
  CheckpointManager manager = open(with_local_copies());
  manager.restore_or_initialize();
  on_rank_0([&] {
    fs::remove_all(place_);
    std::ofstream(place_) << "in the way";
  });
  state.set(2);
  EXPECT_FALSE(manager.local_copy(2));
  on_rank_0([&] {
    fs::remove(place_);
    fs::create_directory(place_);
  });
  EXPECT_TRUE(manager.local_copy(2));
}

/// A failure on one rank while another is still at work: what that one does must end before its slot changes.
TEST_P(LocalEdges, AFailureBesideALongPartIsOverWhenBothAre) {
  crash_after([&](CheckpointManager& manager) {
    copy(manager, 2);
    {
      const SmallFilesOnTheLastRank no_room(4096);
      state.set(3);
      for (std::uint64_t number = 3; number < 8; ++number) {
        EXPECT_FALSE(manager.local_copy(number) && world_size() == 1 && GetParam());
      }
      manager.impl().local->wait();
      MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int seed = 10; seed < 13; ++seed) {
      state.set(seed);
      for (bool was_taken = false; !was_taken;) {
        was_taken = manager.local_copy(static_cast<std::uint64_t>(seed));
        manager.impl().local->wait();
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
  });
  restore();
  expect_state(12);
}

volatile std::sig_atomic_t alarms = 0;

/// The kernel takes back what it has given so far when a signal comes in between, and starts from the beginning.
TEST_P(LocalEdges, ATimerOfTheProgramDoesNotKeepItFromItsSpace) {
  on_rank_0([&] {
    struct sigaction counts = {};
    struct sigaction before = {};
    counts.sa_handler = [](int) { alarms = alarms + 1; };
    ::sigaction(SIGALRM, &counts, &before);
    const itimerval often{{0, 500}, {0, 500}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    {
      const core::Directory place = core::Directory::open(place_);
      storage::PartSlot slot(place, "7-0.0.part");
      std::vector<std::byte> bytes(std::size_t{192} << 20U);
      std::vector<storage::WriteItem> items{
          {{.file_offset = 0, .shape = {bytes.size()}}, {bytes.data(), {{0}, {bytes.size()}}, {1}}}};
      slot.copy(items);
      EXPECT_GE(slot.capacity(), bytes.size());
    }
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before, nullptr);
    EXPECT_GT(alarms, 0);
    fs::remove(place_ / "7-0.0.part");
  });
}

INSTANTIATE_TEST_SUITE_P(In, LocalEdges, testing::Bool(),
                         [](const auto& place) { return place.param ? "Memory" : "AFile"; });

// Node-local copies of states that change their shape, and in places that are none: what a program does rightly in a
// way that nobody wrote down, or wrongly.

class LocalStates : public LocalTest {
 protected:
  [[nodiscard]] ManagerOptions with_local_copies() const override {
    ManagerOptions options = LocalTest::with_local_copies();
    options.local_partner = hosts_are_played;
    return options;
  }

  [[nodiscard]] CheckpointManager manage(Checkpoint& checkpoint) const {
    return {MPI_COMM_WORLD, checkpoint, directory, with_local_copies()};
  }

  static void complete_copy(CheckpointManager& manager, std::uint64_t number) {
    EXPECT_TRUE(manager.local_copy(number));
    manager.impl().local->wait();
    MPI_Barrier(MPI_COMM_WORLD);
  }
};

class LocalGrowth : public LocalStates {
 protected:
  /// One part is larger than all before it, and the last one is small again.
  void grow_and_come_back(std::initializer_list<std::size_t> sizes) {
    std::vector<double> particles;
    Checkpoint checkpoint;
    checkpoint.add_per_rank("particles", particles);
    crash_with(checkpoint, [&](CheckpointManager& manager) {
      std::uint64_t number = 0;
      for (const std::size_t size : sizes) {
        particles.assign(size + static_cast<std::size_t>(world_rank()), static_cast<double>(++number));
        complete_copy(manager, number);
      }
    });
    const std::vector<double> wanted = particles;
    particles.clear();
    CheckpointManager manager = manage(checkpoint);
    const auto info = manager.restore_or_initialize();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->number, sizes.size());
    EXPECT_EQ(particles, wanted);
  }
};

TEST_P(LocalGrowth, AStateMayGrowAndShrinkBetweenTwoCopies) {
  grow_and_come_back({10, 200'000, 3, 500'000, 100});
  grow_and_come_back({0, 0, 300'000});
}

TEST_P(LocalGrowth, APartnerKeepsPartsThatGrow) {
  if (world_size() == 1 || !GetParam()) {
    GTEST_SKIP() << "partners are for several hosts, and for memory";
  }
  hosts_are_played = true;
  grow_and_come_back({10, 200'000, 3, 500'000, 100});
}

/// A copy that is on its way to the partners for long keeps nobody from the next one, which has a slot of its own.
TEST_P(LocalStates, ASlowTransferHoldsUpNoCopy) {
  if (world_size() == 1 || !GetParam()) {
    GTEST_SKIP() << "partners are for several hosts, and for memory";
  }
  hosts_are_played = true;
  std::vector<double> field(2'000'000);  // many pieces, and hardly a moment to send them in
  Checkpoint checkpoint;
  checkpoint.add_per_rank("field", field);
  CheckpointManager::SaveRequest request;
  request.number = 0;
  crash_with(checkpoint, [&](CheckpointManager& manager) {
    const auto uses_slot_of_its_own = [&] {
      MPI_Barrier(MPI_COMM_WORLD);
      const bool is_used = !part_of(0, manager::kLocalSlots - 1).empty();
      MPI_Barrier(MPI_COMM_WORLD);
      return is_used;
    };
    while (*request.number < 50 && !uses_slot_of_its_own()) {
      field.assign(field.size(), static_cast<double>(++*request.number));
      while (!manager.impl().local_copy(request)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // only until the part before is complete
      }
    }
    EXPECT_TRUE(uses_slot_of_its_own());
    EXPECT_TRUE(manager.impl().local->is_under_way());
    manager.impl().local->wait();
    MPI_Barrier(MPI_COMM_WORLD);
  });
  const std::vector<double> wanted(field.size(), static_cast<double>(*request.number));
  field.assign(field.size(), 0);
  CheckpointManager manager = manage(checkpoint);
  ASSERT_TRUE(manager.restore_or_initialize());
  EXPECT_EQ(field, wanted);
}

TEST_P(LocalStates, ARankMayHaveNothingAtAll) {
  std::vector<double> field(world_rank() == 0 ? 1000 : 0, 7.0);
  Checkpoint checkpoint;
  checkpoint.add_distributed("field", field.data(), {{1000}, {world_rank() == 0 ? 0U : 1000U}, {field.size()}});
  crash_with(checkpoint, [&](CheckpointManager& manager) {
    complete_copy(manager, 1);
    complete_copy(manager, 2);
  });
  std::ranges::fill(field, 0.0);
  CheckpointManager manager = manage(checkpoint);
  const auto info = manager.restore_or_initialize();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->number, 2U);
  EXPECT_EQ(field, std::vector<double>(field.size(), 7.0));
}

TEST_P(LocalStates, AnotherStateIsRefusedAsThatOfAFileAndTheCopyStays) {
  crash_after([&](CheckpointManager& manager) { copy(manager, 2); });
  {
    int step = 0;
    double more = 0;
    Checkpoint other;
    other.add_replicated("step", step);
    other.add_replicated("more", more);
    CheckpointManager manager = manage(other);
    EXPECT_EQ(same_error_on_all_ranks([&] { manager.restore_or_initialize(); }).code, ErrorCode::mismatch);
    EXPECT_EQ(step, 0) << "nothing was touched";
  }
  MPI_Barrier(MPI_COMM_WORLD);
  expect_restored(2, ".part");
}

TEST_P(LocalStates, APlaceThatIsAFileIsSaidAtTheStart) {
  on_rank_0([&] {
    fs::remove_all(place_);
    std::ofstream(place_) << "in the way";
  });
  {
    CheckpointManager manager = open(with_local_copies());
    EXPECT_THAT(same_error_on_all_ranks([&] { manager.restore_or_initialize(); }).message,
                testing::AllOf(HasSubstr("local_directory"), HasSubstr(place_.filename().string())));
  }
  on_rank_0([&] { fs::remove(place_); });
}

TEST_P(LocalStates, APlaceMayBeALink) {
  const fs::path real = place_;
  place_ = temporary / ("link-" + std::to_string(GetParam()));
  on_rank_0([&] { fs::create_directory_symlink(real, place_); });
  crash_after([&](CheckpointManager& manager) { copy(manager, 2); });
  expect_restored(2, ".part");
}

/// Anybody may take the plain name first: nothing of this user lies there, and nobody's start ends for it.
TEST_P(LocalStates, AFolderThatIsNotTheUsersOwnIsPassedOver) {
  const fs::path taken = place_ / ("reprieve-" + std::to_string(::geteuid()));
  on_rank_0([&] {
    fs::create_directory(taken);
    fs::permissions(taken, fs::perms::owner_all | fs::perms::others_read);
  });
  crash_after({}, {3, 4});
  on_rank_0([&] { EXPECT_TRUE(fs::is_empty(taken)); });
  expect_restored(4, ".part");
}

TEST_P(LocalStates, TwoDirectoriesShareAPlaceAndNothingElse) {
  const auto crash_in = [&](const char* name, int seed) {
    try {
      CheckpointManager manager(MPI_COMM_WORLD, state.checkpoint, temporary / name, with_local_copies());
      EXPECT_FALSE(manager.restore_or_initialize()) << "it has taken none";
      copy(manager, seed);
      throw Crash{};
    } catch (const Crash&) {
    }
    MPI_Barrier(MPI_COMM_WORLD);
  };
  crash_in("one", 2);
  crash_in("other", 5);
  for (const auto& [name, seed] : {std::pair{"one", 2}, std::pair{"other", 5}}) {
    state.set(99);
    CheckpointManager manager(MPI_COMM_WORLD, state.checkpoint, temporary / name, with_local_copies());
    ASSERT_TRUE(manager.restore_or_initialize());
    expect_state(seed);
  }
}

const auto in_memory_and_on_disk = testing::Bool();
std::string name_of_place(const testing::TestParamInfo<bool>& place) { return place.param ? "Memory" : "AFile"; }
INSTANTIATE_TEST_SUITE_P(In, LocalStates, in_memory_and_on_disk, name_of_place);
INSTANTIATE_TEST_SUITE_P(In, LocalGrowth, in_memory_and_on_disk, name_of_place);

}  // namespace
}  // namespace reprieve::test
