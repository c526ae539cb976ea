// SPDX-License-Identifier: BSD-3-Clause
// Which checkpoint is the newest, and what a directory remembers of its runs and saves.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "core/message.hpp"
#include "manager/checkpoint_list.hpp"
#include "manager/run_identity.hpp"
#include "support/process.hpp"
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

TEST(CheckpointOrder, CountersDecideAndOlderVersionsComeFirst) {
  EXPECT_EQ(sorted({own(42, 1, 2), own(20'000, 1, 1)}), (Numbers{20'000, 42}));
  EXPECT_EQ(sorted({own(10, 3, 1), own(50, 2, 9)}), (Numbers{50, 10})) << "the run counts before the save";
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
  EXPECT_EQ(order_entry(1, storage::SaveIdentity{"elsewhere", 1, 1}, "").origin, Origin::own)
      << "where the directory is not known, nothing is foreign";
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
  const test::TemporaryDirectory other;
  EXPECT_NE(RunIdentity(core::Directory::open(other.path()), "ckpt", true).directory_id(), first.directory_id());
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

/// A launch that dies around the rename of a commit. The user may remove that checkpoint before the next one.
TEST_F(RunIdentityTest, ACommitWithoutAnEndCountsIfItsStagedFileIsGone) {
  RunIdentity launch = start();
  launch.begin_copies({launch.run(), 1, 1});
  const Commit next{launch.run(), 2, 2};
  launch.begin_commit(next, 77);
  fs::create_directory(run / kStagingName);
  const fs::path staged = run / kStagingName / format_staged_name("ckpt", {2, 77}, kCheckpointSuffix);
  std::ofstream(staged) << "it was not renamed";
  EXPECT_EQ(read_directory_record(place)->launches.at("ckpt").newest.save, 1U);
  fs::remove(staged);
  EXPECT_EQ(read_directory_record(place)->launches.at("ckpt").newest, next);
  complete_commits(place, true);
  std::ofstream(staged) << "of another save";
  EXPECT_EQ(read_directory_record(place)->launches.at("ckpt").newest, next) << "it was decided before";
  launch.begin_commit({launch.run(), 3, 3}, 78);
  launch.cancel_commit();
  EXPECT_EQ(read_directory_record(place)->launches.at("ckpt").newest.save, 1U) << "as this launch knows it";
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

// Names of checkpoint files.

TEST(FileNames, FormatAndParseAreInverse) {
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{100}, std::numeric_limits<std::uint64_t>::max()}) {
    for (const std::string prefix : {"ckpt", "a-1", "run.2", "x y"}) {
      EXPECT_EQ(parse_name(prefix, format_name(prefix, number, ".h5"), ".h5"), number);
    }
  }
  EXPECT_EQ(format_name("ckpt", 12, ".h5"), "ckpt-12.h5");
}

TEST(FileNames, OtherNamesAreNoCheckpoints) {
  const auto names = test::words_of(
      "ckpt ckpt- ckpt-.h5 -12.h5 ckpt12.h5 ckpt-12 ckpt-12.h ckpt-12.h5.corrupt ckpt-12.h5~ .ckpt-12.h5 xckpt-12.h5 "
      "ckpt-a-12.h5 ckpt-+12.h5 ckpt--12.h5 ckpt-012.h5 ckpt-00.h5 ckpt-1x.h5 ckpt-12.34.h5 "
      "ckpt-18446744073709551616.h5 ckpt-99999999999999999999999.h5");
  for (const std::string& name : test::joined(names, {"", "ckpt- 1.h5"})) {
    EXPECT_EQ(parse_name("ckpt", name, ".h5"), std::nullopt) << name;
  }
}

TEST(FileNames, StagedNamesCarryNumberAndTime) {
  const StagedName staged{12, 1'700'000'000'000'000};
  EXPECT_EQ(format_staged_name("ckpt", staged, ".files"), "ckpt-12.1700000000000000.files");
  EXPECT_EQ(parse_staged_name("ckpt", "ckpt-12.1700000000000000.files", ".files"), staged);
  for (const char* other : {"ckpt-12.files", "ckpt-12..files", "ckpt-.5.files", "ckpt-12.x.files", "ckpt-12.-5.files",
                            "ckpt-12.5.6.files", "ckpt-12.5.h5", "files", ""}) {
    EXPECT_EQ(parse_staged_name("ckpt", other, ".files"), std::nullopt) << other;
  }
}

TEST(FileNames, KnowsWhatAnotherPrefixHasStaged) {
  for (const char* name : {"other-1.5.h5", "other-1.5.files", "ckpt-2-1.5.h5", "ckp-1.5.h5"}) {
    EXPECT_TRUE(is_staged_under_another_prefix("ckpt", name)) << name;
  }
  for (const char* name : {"ckpt-1.5.h5", "ckpt-1.5.files", "left behind", "other-1.h5", "other-1.5.txt", "-", ""}) {
    EXPECT_FALSE(is_staged_under_another_prefix("ckpt", name)) << name;
  }
}

TEST(FileNames, KnowsWhatWasQuarantined) {
  const auto name = parse_quarantined_name("my-run-12.h5.corrupt.3");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "my-run");
  EXPECT_EQ(name->number, 12U);
  EXPECT_EQ(name->suffix, ".corrupt.3");
  EXPECT_EQ(name->file, "my-run-12.h5.corrupt.3");
  EXPECT_EQ(parse_quarantined_name("ckpt-1.h5.corrupt").value().suffix, ".corrupt");
  for (const char* other : {"ckpt-1.h5", "ckpt-1.files.corrupt", "ckpt-x.h5.corrupt", "ckpt-1.h5.corrupt.", "corrupt",
                            "ckpt-1.h5.corrupt.2.txt", "ckpt-01.h5.corrupt", ".corrupt", ""}) {
    EXPECT_FALSE(parse_quarantined_name(other).has_value()) << other;
  }
}

// CheckpointInfo on its way from rank 0 to the other ranks.

using Infos = std::vector<CheckpointInfo>;

Infos sent(const Infos& infos) { return core::from_message<Infos>(core::to_message(infos)); }

TEST(InfoCodec, EverythingArrives) {
  CheckpointInfo info;
  info.path = "/some/where/ckpt-12.h5";
  info.number = 12;
  info.run = 3;
  info.save = 18'446'744'073'709'551'614U;
  info.directory_id = "0123456789abcdef01234567";
  info.run_calls = 18'446'744'073'709'551'615U;
  info.world_size = 4;
  info.time = std::chrono::system_clock::time_point(std::chrono::microseconds(1'700'000'000'123'456));
  info.size_bytes = 99;
  info.reason = {SaveReason::Kind::preemption, 3, "node7", "signal SIGTERM", "maintenance"};
  info.files_directory = "/some/where/ckpt-12.files";

  const auto decoded = sent({info, CheckpointInfo{}});
  ASSERT_EQ(decoded.size(), 2U);
  const auto all_of = [](const CheckpointInfo& i) {
    return std::tuple(i.path, i.number, i.run, i.save, i.directory_id, i.run_calls, i.world_size, i.time, i.size_bytes,
                      i.files_directory, i.reason.kind, i.reason.rank, i.reason.host, i.reason.source,
                      i.reason.message);
  };
  EXPECT_TRUE(all_of(decoded[0]) == all_of(info));
  EXPECT_EQ(decoded[1].files_directory, std::nullopt);
  EXPECT_EQ(decoded[1].run_calls, std::nullopt);
}

TEST(SaveReasons, HaveNames) {
  EXPECT_STREQ(to_string(SaveReason::Kind::user), "user");
  EXPECT_STREQ(to_string(SaveReason::Kind::periodic), "periodic");
  EXPECT_STREQ(to_string(SaveReason::Kind::preemption), "preemption");
}

// Which checkpoints the policy gives up.

using namespace std::chrono_literals;

const std::chrono::system_clock::time_point kStart{std::chrono::seconds(1'700'000'000)};

/// Checkpoints 1 to count, one per minute.
std::vector<RetentionEntry> one_per_minute(std::uint64_t count) {
  std::vector<RetentionEntry> entries;
  for (std::uint64_t number = 1; number <= count; ++number) {
    entries.push_back({number, kStart + std::chrono::minutes(number)});
  }
  return entries;
}

TEST(Retention, KeepsTheNewestUpToTheLimit) {
  EXPECT_EQ(to_retire(one_per_minute(50), {0, 0s}, 50), Numbers{});
  EXPECT_EQ(to_retire({}, {3, 0s}, 1), Numbers{});
  EXPECT_EQ(to_retire(one_per_minute(3), {3, 0s}, 3), Numbers{});
  EXPECT_EQ(to_retire(one_per_minute(5), {3, 0s}, 5), (Numbers{1, 2}));
  EXPECT_EQ(to_retire(one_per_minute(5), {1, 0s}, 5), (Numbers{1, 2, 3, 4}));
}

TEST(Retention, TheOrderOfTheListCountsNotTheNumbers) {
  auto entries = one_per_minute(5);
  std::reverse(entries.begin(), entries.end());
  EXPECT_EQ(to_retire(entries, {2, 0s}, 1), (Numbers{5, 4, 3}));
  // What was just committed stays: 2 was written again after a restart from an explicitly chosen older one.
  EXPECT_EQ(to_retire(one_per_minute(6), {2, 0s}, 2), (Numbers{1, 3, 4}));
}

TEST(Retention, KeepsOnePerSpanBeyondTheNewest) {
  // Newest: 9 and 10. Of 1 to 8: the oldest, and each that is 3 minutes after the one kept before.
  EXPECT_EQ(to_retire(one_per_minute(10), {2, 3min}, 10), (Numbers{2, 3, 5, 6, 8}));
}

TEST(Retention, AskedAfterEverySaveKeepsTheSame) {
  std::vector<RetentionEntry> kept;
  for (const RetentionEntry& entry : one_per_minute(10)) {
    kept.push_back(entry);
    const Numbers retired = to_retire(kept, {2, 3min}, entry.number);
    std::erase_if(kept, [&](const RetentionEntry& e) {
      return std::find(retired.begin(), retired.end(), e.number) != retired.end();
    });
  }
  Numbers numbers;
  std::transform(kept.begin(), kept.end(), std::back_inserter(numbers), [](const auto& e) { return e.number; });
  EXPECT_EQ(numbers, (Numbers{1, 4, 7, 9, 10}));
}

TEST(Retention, AClockThatWentBackBeginsANewSpanUnlessItWasOnlyALittle) {
  const std::vector<RetentionEntry> much{{1, kStart + 10h},   {2, kStart},      {3, kStart + 1min}, {4, kStart + 60min},
                                         {5, kStart + 61min}, {6, kStart + 2h}, {7, kStart + 3h}};
  EXPECT_EQ(to_retire(much, {2, 1h}, 7), (Numbers{3, 5}));
  const std::vector<RetentionEntry> little{
      {1, kStart + 10h}, {2, kStart + 10h - 1s}, {3, kStart + 10h + 1min}, {4, kStart + 11h}};
  EXPECT_EQ(to_retire(little, {1, 1h}, 4), (Numbers{2, 3}));
}

TEST(Retention, TimesAtTheEndsOfTheClockDoNotOverflow) {
  const auto last = std::chrono::system_clock::time_point::max();
  const auto first = std::chrono::system_clock::time_point::min();
  EXPECT_EQ(to_retire({{1, last}, {2, first}, {3, last}, {4, last}}, {1, 1h}, 4), Numbers{});
}

}  // namespace
}  // namespace reprieve::manager
