// SPDX-License-Identifier: BSD-3-Clause
// Which checkpoint is the newest, and what a directory remembers of its runs and saves.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "manager/checkpoint_list.hpp"
#include "manager/run_identity.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::manager {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::uint64_t>;

OrderEntry own(std::uint64_t number, std::uint64_t run, std::uint64_t save) {
  return order_entry(number, storage::SaveIdentity{"here", run, save}, "here");
}
OrderEntry foreign(std::uint64_t number, std::uint64_t run, std::uint64_t save) {
  return order_entry(number, storage::SaveIdentity{"elsewhere", run, save}, "here");
}
OrderEntry uncounted(std::uint64_t number) { return order_entry(number, std::nullopt, "here"); }
OrderEntry unreadable(std::uint64_t number) { return {number}; }

Numbers sorted(std::vector<OrderEntry> entries) {
  sort_oldest_first(entries);
  Numbers numbers;
  for (const OrderEntry& entry : entries) {
    numbers.push_back(entry.number);
  }
  return numbers;
}

TEST(CheckpointOrder, CountersDecideAndNotTheNumber) {
  EXPECT_EQ(sorted({own(42, 1, 2), own(20'000, 1, 1)}), (Numbers{20'000, 42}));
  EXPECT_EQ(sorted({own(10, 3, 1), own(50, 2, 9)}), (Numbers{50, 10})) << "the run counts before the save";
}

TEST(CheckpointOrder, OlderVersionsComeFirstByNumber) {
  EXPECT_EQ(sorted({own(1, 1, 1), uncounted(90), uncounted(100), uncounted(9)}), (Numbers{9, 90, 100, 1}));
}

TEST(CheckpointOrder, ForeignOnesAreNeverTheNewest) {
  std::vector<OrderEntry> entries{foreign(500, 9, 9), uncounted(3), own(4, 1, 1)};
  EXPECT_EQ(sorted(entries), (Numbers{500, 3, 4}));
  sort_oldest_first(entries);
  drop_foreign(entries);
  EXPECT_EQ(entries, (std::vector{uncounted(3), own(4, 1, 1)}));
  std::vector<OrderEntry> alone{foreign(1, 1, 1), foreign(2, 1, 2)};
  drop_foreign(alone);
  EXPECT_EQ(alone.size(), 2U) << "there is nothing else to resume from";
}

TEST(CheckpointOrder, WhereTheDirectoryIsNotKnownNothingIsForeign) {
  EXPECT_EQ(order_entry(1, storage::SaveIdentity{"elsewhere", 1, 1}, "").origin, Origin::own);
}

TEST(CheckpointOrder, UnreadableOnesAreAsNewAsTheirNumberAllows) {
  EXPECT_EQ(sorted({own(10, 1, 1), own(20, 1, 2), unreadable(30)}), (Numbers{10, 20, 30}));
  EXPECT_EQ(sorted({own(10, 1, 1), own(20, 1, 2), unreadable(15)}), (Numbers{10, 15, 20}));
  EXPECT_EQ(sorted({own(20'000, 1, 1), own(42, 1, 2), unreadable(43)}), (Numbers{20'000, 42, 43}));
  EXPECT_EQ(sorted({own(20'000, 1, 1), own(42, 1, 2), unreadable(41)}), (Numbers{41, 20'000, 42}));
  EXPECT_EQ(sorted({unreadable(2), unreadable(1)}), (Numbers{1, 2}));
}

class RunIdentityTest : public testing::Test {
 protected:
  [[nodiscard]] RunIdentity start(const std::string& prefix = "ckpt") const { return {place, prefix, true}; }

  const test::TemporaryDirectory temporary;
  const fs::path run = temporary.path();
  const core::Directory place = core::Directory::open(run);
};

TEST_F(RunIdentityTest, EveryStartIsALaterRunOfTheSameDirectory) {
  const RunIdentity first = start();
  const RunIdentity second = start("other");
  EXPECT_FALSE(first.directory_id().empty());
  EXPECT_EQ(first.directory_id(), second.directory_id());
  EXPECT_EQ(first.run(), 1U);
  EXPECT_EQ(second.run(), 2U);
}

TEST_F(RunIdentityTest, TwoDirectoriesHaveTwoIds) {
  const test::TemporaryDirectory other;
  EXPECT_NE(start().directory_id(), RunIdentity(core::Directory::open(other.path()), "ckpt", true).directory_id());
}

TEST_F(RunIdentityTest, NoCounterOfASaveIsGivenOutTwice) {
  std::uint64_t last = 0;
  for (int run_of_test = 0; run_of_test < 3; ++run_of_test) {
    RunIdentity identity = start();  // as if the one before was killed: it closed nothing, and left no file
    for (int i = 0; i < 200; ++i) {
      const auto save = identity.next_save().save;
      EXPECT_GT(save, last);
      last = save;
    }
  }
}

TEST_F(RunIdentityTest, AnOrderlyEndLeavesNoGap) {
  RunIdentity first = start();
  EXPECT_EQ(first.next_save().save, 1U);
  EXPECT_EQ(first.next_save().save, 2U);
  first.close();
  EXPECT_EQ(start().next_save().save, 3U);
}

/// A save of a program without node-local copies writes the record no more often than before.
TEST_F(RunIdentityTest, ACommitIsRecordedOnlyWhereALaunchHasTakenCopies) {
  RunIdentity first = start();
  first.note_commit({first.run(), 1, 1});
  EXPECT_TRUE(read_directory_record(place)->launches.empty());
  RunIdentity second = start();
  second.begin_copies({first.run(), 1, 1});
  EXPECT_EQ(read_directory_record(place)->launches.at("ckpt").launch, second.launch());
  RunIdentity third = start();
  third.note_commit({third.run(), 2, 2});
  const LaunchRecord last = read_directory_record(place)->launches.at("ckpt");
  EXPECT_EQ(last.launch, third.launch()) << "the copies of the second are void";
  EXPECT_EQ(last.newest, (Commit{third.run(), 2, 2}));
  third.note_commit({third.run(), 3, 3});
  EXPECT_EQ(read_directory_record(place)->launches.at("ckpt").newest.save, 2U) << "it takes no copies";
}

TEST_F(RunIdentityTest, ACorruptRecordIsMadeAnew) {
  static_cast<void>(start());
  for (const char* text : {"", "{", "[]", R"({"id":"a","run":-1,"saves":0,"finished":{}})", R"({"id":""})"}) {
    std::ofstream(run / kRecordName) << text;
    EXPECT_FALSE(read_directory_record(place).has_value()) << text;
    EXPECT_EQ(start().run(), 1U) << text;
  }
}

TEST_F(RunIdentityTest, WhereNothingCanBeWrittenTheRunContinues) {
  fs::create_directory(run / kRecordName);  // a rename onto a directory fails, for root too
  RunIdentity identity = start();
  EXPECT_EQ(identity.run(), 1U);
  EXPECT_EQ(identity.next_save().save, 1U);
}

TEST_F(RunIdentityTest, TheMarkOfAFinishedRunIsOfOnePrefix) {
  RunIdentity identity = start();
  EXPECT_FALSE(identity.finished().has_value());
  identity.set_finished({100, 1, 7});
  EXPECT_EQ(start().finished(), (FinishedRun{100, 1, 7}));
  EXPECT_FALSE(start("other").finished().has_value());
  RunIdentity later = start();
  later.clear_finished();
  EXPECT_FALSE(start().finished().has_value());
}

}  // namespace
}  // namespace reprieve::manager
