// SPDX-License-Identifier: BSD-3-Clause
// Which node-local copies may be taken, by the parts that were found.

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "manager/checkpoint_directory.hpp"
#include "manager/emergency_save.hpp"
#include "manager/local_finish.hpp"
#include "manager/local_transfer.hpp"
#include "manager/node_directory.hpp"
#include "reprieve/error.hpp"
#include "storage/local/part_file.hpp"
#include "support/boxes_and_bytes.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::manager {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The last launch, of run 2, has made the commit with save 10.
const LocalTarget kTarget{"id", 7, "ckpt", "", {"last", "", 0, {2, 10, 10}}, {"id", 2, 10}};

/// Of that launch, on two ranks, taken when save 10 was the newest commit.
storage::LocalCopy copy_of(std::uint64_t save) {
  return {{"id", 2, save}, "last", 7, "ckpt", save, save, 0, 2, 99, 2, 10};
}

FoundPart part(const storage::LocalCopy& copy, int rank, const std::string& host = "a") {
  return {std::to_string(rank), {copy, rank}, 0, host};
}

std::vector<FoundPart> both_parts(const storage::LocalCopy& copy) { return {part(copy, 0), part(copy, 1)}; }

std::vector<std::uint64_t> saves(const std::vector<ListedCopy>& copies) {
  std::vector<std::uint64_t> found;
  for (const ListedCopy& copy : copies) {
    found.push_back(copy.copy.save.save);
  }
  return found;
}

TEST(LocalChoice, TheNewestComesFirstCompleteOrNot) {
  std::vector<FoundPart> parts = both_parts(copy_of(11));
  parts.push_back(part(copy_of(11), 0, ""));
  parts.push_back(part(copy_of(13), 1));
  parts.push_back(part(copy_of(12), 1));
  parts.push_back(part(copy_of(12), 0, "b"));
  const auto wanted = wanted_copies(parts, kTarget);
  EXPECT_THAT(saves(wanted), ElementsAre(13, 12, 11));
  EXPECT_THAT(wanted.at(0).missing(), ElementsAre(0));
  EXPECT_FALSE(wanted.at(0).is_complete());
  EXPECT_TRUE(wanted.at(1).is_complete()) << "on two hosts";
  EXPECT_TRUE(wanted.at(2).is_complete());
  EXPECT_EQ(wanted.at(2).parts.at(0).size(), 2U) << "a part can lie at several places";
  EXPECT_THAT(wanted_copies({}, kTarget), IsEmpty());
}

TEST(LocalChoice, WhatIsMissingIsNamed) {
  storage::LocalCopy copy = copy_of(11);
  copy.ranks = 20;
  const auto wanted = wanted_copies({part(copy, 3)}, kTarget);
  EXPECT_EQ(
      wanted.at(0).incomplete_text(),
      "the node-local copy at step 11 of 20 ranks is not complete: parts of ranks 0, 1, 2, 4, 5, 6, 7, 8 and 11 others "
      "were not found here");
}

template <class Change>
bool is_wanted(const LocalTarget& target, Change change, const std::string& host = "a") {
  storage::LocalCopy copy = copy_of(11);
  change(copy);
  return !wanted_copies({part(copy, 0, host), part(copy, 1, host)}, target).empty();
}

/// Each case differs from a copy that is wanted in one thing.
TEST(LocalChoice, WhatDoesNotFitIsNotWanted) {
  EXPECT_TRUE(is_wanted(kTarget, [](auto&) {}));
  EXPECT_FALSE(is_wanted(kTarget, [](auto& copy) { copy.save.directory_id = "other"; })) << "another directory";
  EXPECT_FALSE(is_wanted(kTarget, [](auto& copy) { copy.directory_key = 8; })) << "a copy of the directory";
  EXPECT_FALSE(is_wanted(kTarget, [](auto& copy) { copy.prefix = "other"; }));
  EXPECT_FALSE(is_wanted(kTarget, [](auto& copy) { copy.save.save = copy.known_save = 9; })) << "before the commit";
  LocalTarget own = kTarget;
  own.own_launch = "last";
  EXPECT_FALSE(is_wanted(own, [](auto&) {})) << "a launch does not take its own";
}

TEST(LocalChoice, WhatWasFlushedBelongsToTheDirectoryThatHoldsIt) {
  EXPECT_TRUE(is_wanted(
      kTarget, [](auto& copy) { copy.directory_key = 8; }, ""));
  EXPECT_FALSE(is_wanted(
      kTarget, [](auto& copy) { copy.launch = "other"; }, ""));
}

/// Numbers are handed out again in a directory that was put back.
TEST(LocalChoice, NumbersDecideNothing) {
  EXPECT_FALSE(is_wanted(kTarget, [](auto& copy) { copy.launch = "undone"; }));
  EXPECT_FALSE(is_wanted(kTarget, [](auto& copy) {
    copy = {{"id", 9, 90}, "undone", 7, "ckpt", 90, 90, 0, 2, 99, 2, 10};
  }));
}

TEST(LocalChoice, TheStartOfTheLastLaunchIsWantedAndNothingElseOfThatBefore) {
  LocalTarget target = kTarget;
  target.last = {"next", "last", 11, {2, 10, 10}};
  EXPECT_TRUE(is_wanted(target, [](auto&) {}));
  EXPECT_FALSE(is_wanted(target, [](auto& copy) { copy.save.save = 12; }));
  EXPECT_FALSE(is_wanted(target, [](auto& copy) { copy.save.save = 10; }));
}

TEST(LocalChoice, ACopyOfTheLastLaunchGoesBeforeItsStartWhateverTheirNumbers) {
  LocalTarget target = kTarget;
  target.last = {"next", "last", 50, {2, 10, 10}};
  const storage::LocalCopy next{{"id", 1, 11}, "next", 7, "ckpt", 11, 11, 0, 2, 99, 2, 10};
  std::vector<FoundPart> parts = both_parts(copy_of(50));
  std::ranges::move(both_parts(next), std::back_inserter(parts));
  EXPECT_THAT(saves(wanted_copies(parts, target)), ElementsAre(11, 50));
}

/// A save in the background is committed after a copy that is newer.
TEST(LocalChoice, ACommitOfTheSameLaunchIsNoReasonAgainstANewerCopy) {
  EXPECT_TRUE(is_wanted(kTarget, [](auto& copy) { copy.known_save = 9; }));
  LocalTarget target = kTarget;
  target.last.newest = {3, 10, 10};
  target.newest_checkpoint = {"id", 3, 10};
  EXPECT_FALSE(is_wanted(target, [](auto& copy) { copy.known_save = 9; })) << "a commit of another run";
}

/// A crash after the rename and before the record.
TEST(LocalChoice, ACommitThatTheDirectoryDoesNotRememberCounts) {
  LocalTarget target = kTarget;
  target.newest_checkpoint = {"id", 2, 12};
  EXPECT_FALSE(is_wanted(target, [](auto&) {}));
  EXPECT_TRUE(is_wanted(target, [](auto& copy) { copy.save.save = 13; }));
}

TEST(LocalChoice, WhoRemovesTheNewestCommitGoesBack) {
  LocalTarget target = kTarget;
  target.newest_checkpoint = {"id", 2, 9};
  EXPECT_TRUE(is_wanted(target, [](auto&) {})) << "it is there, and corrupt";
  target.has_gone_back = true;
  EXPECT_FALSE(is_wanted(target, [](auto&) {}));
}

/// Two timelines can come to the same number.
TEST(LocalChoice, PartsThatDifferInAnythingAreNeverMixed) {
  const auto mixed = [](const auto& change) {
    storage::LocalCopy other = copy_of(11);
    change(other);
    const auto wanted = wanted_copies({part(copy_of(11), 0), part(other, 1)}, kTarget);
    return std::ranges::any_of(wanted, &ListedCopy::is_complete);
  };
  EXPECT_TRUE(mixed([](auto&) {}));
  EXPECT_FALSE(mixed([](auto& copy) { copy.layout_digest = 98; }));
  EXPECT_FALSE(mixed([](auto& copy) { copy.time_us = 1; }));
  EXPECT_FALSE(mixed([](auto& copy) { copy.run_calls = 12; }));
  EXPECT_FALSE(mixed([](auto& copy) { copy.ranks = 3; }));
  EXPECT_FALSE(mixed([](auto& copy) { copy.known_save = 9; }));
  EXPECT_FALSE(mixed([](auto& copy) { copy.save.save = 12; }));
  EXPECT_FALSE(mixed([](auto& copy) { copy.launch = "other"; }));
}

// Which rank keeps the part of which rank.

using testing::Each;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

TEST(LocalPartners, EachHostHasTheNextOne) {
  EXPECT_THAT(choose_partners({"a", "a", "b", "b", "c", "c"}, {}), ElementsAre(2, 3, 4, 5, 0, 1));
  EXPECT_THAT(choose_partners({"a", "b", "a", "b"}, {}), ElementsAre(1, 0, 3, 2)) << "ranks that take turns";
  EXPECT_THAT(choose_partners({"a", "a", "a"}, {}), Each(-1));
  EXPECT_THAT(choose_partners({"a", "a", "a", "b"}, {}), ElementsAre(3, 3, 3, 0));
}

TEST(LocalPartners, LieInAnotherDomainWhereThereIsOne) {
  EXPECT_THAT(choose_partners({"a", "b", "c", "d"}, {{"a", "x"}, {"b", "x"}, {"c", "y"}, {"d", "y"}}),
              ElementsAre(2, 2, 0, 0));
  EXPECT_THAT(choose_partners({"a", "b", "c"}, {{"a", "x"}, {"b", "x"}, {"c", "x"}}), ElementsAre(1, 2, 0));
  EXPECT_THAT(choose_partners({"a", "b", "c"}, {{"a", "x"}, {"b", "x"}}), ElementsAre(2, 2, 0));
}

TEST(LocalPartners, DomainsAreReadFromLinesAndAWrongOneIsNamed) {
  EXPECT_THAT(parse_failure_domains("a left\n\n# the new ones\n  b\tright  # since May\n", "racks"),
              UnorderedElementsAre(Pair("a", "left"), Pair("b", "right")));
  EXPECT_THAT(parse_failure_domains("", "racks"), IsEmpty());
  EXPECT_THAT([] { static_cast<void>(parse_failure_domains("a left\nb\n", "/etc/racks")); },
              ThrowsMessage<ConfigError>(HasSubstr("/etc/racks, line 2")));
  EXPECT_THAT([] { static_cast<void>(parse_failure_domains("a left wing\n", "racks")); },
              ThrowsMessage<ConfigError>(HasSubstr("line 1")));
}

// The place of node-local copies while a run lives in it: tools that look at it neither fail nor disturb the run.

using testing::SizeIs;

const std::string kLaunch = "5eed";
constexpr int kRank = 5;
const storage::PartName kName{{{"id", 3, 14}, kLaunch, 15, "ckpt", 92, 65, 35, 8, 97, 2, 13}, kRank};

TEST(PartNames, SayTheSlot) {
  for (int slot = 0; slot < kLocalSlots; ++slot) {
    EXPECT_EQ(NodeDirectory::slot_of(NodeDirectory::part_name(kLaunch, kRank, slot)), slot);
    EXPECT_EQ(NodeDirectory::slot_of(NodeDirectory::partner_part_name(kLaunch, kRank, slot)), slot);
  }
}

class NodeDirectoryTest : public testing::Test {
 protected:
  /// As a rank does at its first copy. The part is its own until the file is closed.
  [[nodiscard]] storage::PosixFile begin_part() const {
    storage::PosixFile part = storage::make_part_file(place.make(), NodeDirectory::part_name(kLaunch, kRank, 0));
    storage::complete_part(part, 0, kName, {{0}, {1}, std::nullopt});
    return part;
  }

  [[nodiscard]] std::vector<LocalFolder> look() const { return local_folders(memory.path()); }

  const test::TemporaryDirectory memory{"/dev/shm"};
  const NodeDirectory place{memory.path(), kName.copy.save.directory_id, kName.copy.directory_key, kName.copy.prefix};
};

TEST_F(NodeDirectoryTest, IsInUseAsLongAsARankHasAPart) {
  EXPECT_THAT(look(), IsEmpty());
  storage::PosixFile part = begin_part();
  ASSERT_THAT(look(), SizeIs(1));
  EXPECT_TRUE(look().front().in_use);
  EXPECT_THAT(look().front().parts, SizeIs(1));
  part.close();
  EXPECT_FALSE(look().front().in_use);
  place.remove_parts(kLaunch, kRank, {});
  EXPECT_THAT(look(), IsEmpty());
}

TEST_F(NodeDirectoryTest, CanBeLookedAtWhilePartsComeAndGo) {
  constexpr int kRuns = 20000;
  std::atomic<int> runs{0};
  std::thread run([&] {
    for (; runs < kRuns && !HasFatalFailure(); ++runs) {
      ASSERT_NO_THROW(begin_part().close());
      place.remove_parts(kLaunch, kRank, {});
    }
    runs = kRuns;
  });
  int looks = 0;
  for (; runs < kRuns && !HasFailure(); ++looks) {
    EXPECT_NO_THROW(static_cast<void>(look()));
  }
  run.join();
  EXPECT_GE(looks, 1);
  EXPECT_THAT(look(), IsEmpty());
}

/// Processes that share a node, but not its name, as in containers.
TEST(LocalNodeDirectory, IsOneForThoseThatMakeItAtOnce) {
  constexpr std::size_t kThreads = 4;
  for (int round = 0; round < 50; ++round) {
    const test::TemporaryDirectory node;
    const NodeDirectory directory(node.path(), "id", 7, "ckpt");
    std::array<std::filesystem::path, kThreads> made;
    std::barrier at_once(static_cast<std::ptrdiff_t>(kThreads));
    std::vector<std::thread> threads;
    for (std::filesystem::path& path : made) {
      threads.emplace_back([&] {
        at_once.arrive_and_wait();
        path = directory.make().path();
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_THAT(made, Each(made.front()));
  }
}

/// As that of a copy on another device, or of a directory that was put back.
TEST(LocalNodeDirectory, OfAUserWhoseNumberBeginsAlikeIsNotRemoved) {
  const test::TemporaryDirectory node;
  const std::string own = "reprieve-" + std::to_string(::geteuid());
  for (const std::string& base : {own, own + "-1a", own + "5"}) {
    std::filesystem::create_directories(node / base / "copies");
    std::filesystem::permissions(node / base, std::filesystem::perms::owner_all);
  }
  EXPECT_EQ(remove_local_folder(node / own / "copies/", false), 0U);
  EXPECT_EQ(remove_local_folder(node / (own + "-1a") / "copies", false), 0U);
  EXPECT_THROW(remove_local_folder(node / (own + "5") / "copies", false), UsageError);
  EXPECT_THROW(remove_local_folder("nothing", false), UsageError);
}

TEST(DirectoryKey, TellsADirectoryFromAnotherWithItsInode) {
  const test::TemporaryDirectory temporary;
  const std::filesystem::path path = temporary / "checkpoints";
  const auto make = [&] {
    std::filesystem::create_directory(path);
    const core::Directory made = core::Directory::open(path);
    return std::pair(made.status().st_ino, directory_key(made));
  };
  const auto first = make();
  std::filesystem::rename(path, temporary / "moved");
  EXPECT_EQ(directory_key(core::Directory::open(temporary / "moved")), first.second);
  std::filesystem::remove(temporary / "moved");
  const auto second = make();
  EXPECT_NE(second.second, first.second);
  if (second.first != first.first) {
    GTEST_SKIP() << "this file system gave it another inode";
  }
}

// Parts of node-local copies on their way into the checkpoint directory: whole, stopped, and written again meanwhile.

constexpr std::size_t kFlushedBytes = std::size_t{9} << 18U;  // three pieces

class FlushedPartsTest : public testing::Test {
 protected:
  FlushedPartsTest() {
    part.allocate(storage::kPartDataOffset + kFlushedBytes);
    storage::complete_part(part, kFlushedBytes, found.name, {{0}, {1}, std::nullopt});
  }

  bool flush(const std::function<bool()>& may_continue) const {
    return flush_part(part, found, core::Directory::open(checkpoints.path()), may_continue);
  }

  [[nodiscard]] std::vector<std::string> names() const {
    const auto found_names = names_of_flushed_parts(core::Directory::open(checkpoints.path()));
    return {found_names.begin(), found_names.end()};
  }

  const test::TemporaryDirectory checkpoints;
  const test::TemporaryDirectory memory;
  const FoundPart found{"3-5.0.part", {{{"id", 3, 14}, "5eed", 15, "ckpt", 92, 65, 35, 8, 97, 2, 13}, 5}, 0};
  const storage::PosixFile part = storage::PosixFile::create(memory / found.file);
};

TEST_F(FlushedPartsTest, AreEqualToWhatLayInMemory) {
  EXPECT_TRUE(flush([] { return true; }));
  EXPECT_THAT(names(), ElementsAre(found.file));
  const core::Directory directory = core::Directory::open(checkpoints.path());
  const storage::Part copy(storage::PosixFile::open_to_read(checkpoints / kFlushedName / found.file));
  EXPECT_EQ(copy.name(), found.name);
  EXPECT_EQ(copy.data_bytes(), kFlushedBytes);
  remove_flushed_parts(directory, {found.file, "of-another.part"});
  EXPECT_FALSE(directory.contains(kFlushedName));
}

/// Other nodes that have made a checkpoint remove the place when it is empty.
TEST_F(FlushedPartsTest, FindAPlaceThatIsRemovedAgainAndAgain) {
  std::atomic<bool> done{false};
  std::thread others([&] {
    const core::Directory directory = core::Directory::open(checkpoints.path());
    while (!done) {
      static_cast<void>(directory.remove_empty_directory(kFlushedName));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // much longer than a try takes
    }
  });
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    EXPECT_NO_THROW(EXPECT_FALSE(flush([] { return false; })));
  }
  done = true;
  others.join();
}

TEST_F(FlushedPartsTest, NothingIsLeftOfOneThatWasStopped) {
  for (int pieces = 0; pieces < 3; ++pieces) {
    int left = pieces;
    EXPECT_FALSE(flush([&] { return left-- > 0; })) << pieces;
    EXPECT_THAT(names(), IsEmpty()) << pieces;
  }
}

TEST_F(FlushedPartsTest, OneThatIsWrittenAgainMeanwhileIsNotTaken) {
  for (const int at : {0, 1, 2, 3}) {
    storage::complete_part(part, kFlushedBytes, found.name, {{0}, {1}, std::nullopt});
    int asked = 0;
    EXPECT_FALSE(flush([&] {
      if (asked++ == at) {
        storage::void_commit_record(part);
      }
      return true;
    })) << at;
    EXPECT_THAT(names(), IsEmpty()) << at;
  }
}

TEST_F(FlushedPartsTest, AnotherCopyInItsPlaceIsNotTakenForIt) {
  storage::PartName newer = found.name;
  newer.copy.save.save += 1;
  EXPECT_FALSE(flush([&] {
    storage::complete_part(part, kFlushedBytes, newer, {{0}, {1}, std::nullopt});
    return true;
  }));
  EXPECT_THAT(names(), IsEmpty());
}

// The emergency save beside a save of all ranks: both need the same disk.

using namespace std::chrono_literals;

constexpr auto kHang = 60s;

class EmergencySaveTest : public testing::Test {
 protected:
  EmergencySaveTest() {
    storage::PosixFile part = storage::make_part_file(place_.make(), NodeDirectory::part_name("5eed", 0, 0));
    storage::complete_part(part, 0, {{{"id", 3, 14}, "5eed", 7, "ckpt", 14, 14, 0, 1, 97, 2, 13}, 0},
                           {{0}, {1}, std::nullopt});
    std::filesystem::create_directory(checkpoints_ / kStagingName);
  }

  [[nodiscard]] bool is_flushed() const {
    return !names_of_flushed_parts(core::Directory::open(checkpoints_.path())).empty();
  }

  void write_staged(int piece) const {
    std::ofstream(checkpoints_ / kStagingName / "ckpt-7.1.h5", std::ios::app) << piece;
  }

  const test::TemporaryDirectory memory_;
  const test::TemporaryDirectory checkpoints_;
  const NodeDirectory place_{memory_.path(), "id", 7, "ckpt"};
  EmergencySave save_{core::Directory::open(checkpoints_.path()), place_, {"5eed", 0, 1}};
};

TEST_F(EmergencySaveTest, WaitsWhileTheOtherMakesProgress) {
  constexpr int kPieces = 8;
  save_.hold(2s);
  save_.begin();
  for (int piece = 0; piece < kPieces; ++piece) {  // for longer than it waits at least, and for progress
    write_staged(piece);
    std::this_thread::sleep_for(500ms);
    EXPECT_FALSE(is_flushed()) << piece;
  }
  EXPECT_TRUE(test::wait_until([&] { return is_flushed(); }, kHang)) << "the other one hangs";
}

TEST_F(EmergencySaveTest, ContinuesWhereTheOtherHasFailed) {
  save_.hold(1h);
  save_.begin();
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(is_flushed());
  save_.release();
  EXPECT_TRUE(test::wait_until([&] { return is_flushed(); }, kHang));
}

}  // namespace
}  // namespace reprieve::manager

// Parts of node-local copies: written, read back, cut off, and corrupt at every bit.

namespace reprieve::storage {
namespace {

using testing::ElementsAre;

const PartName kName{{{"id", 3, 14}, "5eed", 15, "ckpt", 92, 65, 35, 8, 97, 2, 13}, 5};

class PartFileTest : public testing::TestWithParam<const char*> {
 protected:
  /// 10 bytes of data, in two rows.
  PosixFile make(const std::string& name = "part") const {
    PosixFile file = PosixFile::create(directory / name);
    file.write_all(std::as_bytes(std::span(kData)), kPartDataOffset);
    complete_part(file, kData.size(), kName, {{0, 4}, {11, 12}, std::nullopt});
    file.close();
    return PosixFile::open_to_write(directory / name);
  }

  const std::string kData = "0123456789";
  const test::TemporaryDirectory directory{GetParam()};
};

TEST_P(PartFileTest, HoldsWhatWasWritten) {
  EXPECT_EQ(read_part_name(make()), kName);
  const Part part(make());
  EXPECT_EQ(part.name(), kName);
  EXPECT_THAT(part.tables().rows, ElementsAre(0, 4));
  EXPECT_THAT(part.tables().checksums, ElementsAre(11, 12));
  EXPECT_FALSE(part.tables().image);
  ASSERT_EQ(part.data_bytes(), kData.size());
  EXPECT_TRUE(std::ranges::equal(part.data().bytes(), std::as_bytes(std::span(kData))));
  std::string some(3, ' ');
  part.for_each_piece(4, some.size(), copying_to(std::as_writable_bytes(std::span(some)), nullptr));
  EXPECT_EQ(some, "456");
}

TEST_P(PartFileTest, IsNoPartAnyMoreOnceItIsVoid) {
  make();
  const auto open = [&] { return PosixFile::open_to_write(directory / "part"); };
  void_commit_record(open());
  EXPECT_THROW(static_cast<void>(read_part_name(open())), CorruptError);
  EXPECT_THROW(Part{open()}, CorruptError);
}

/// The data are guarded by the checksums of their blocks, which only the tables of the whole file can place.
TEST_P(PartFileTest, EveryFlippedBitOfCommitRecordHeadAndTablesIsFound) {
  const std::uint64_t size = make().size();
  for (std::uint64_t at = 0; at < size; ++at) {
    if (at == kPartDataOffset) {
      at += kData.size();
    }
    for (int bit = 0; bit < 8; ++bit) {
      flip(directory / "part", at, 1 << bit);
      ASSERT_THROW(Part{PosixFile::open_to_read(directory / "part")}, CorruptError) << "byte " << at << " bit " << bit;
      flip(directory / "part", at, 1 << bit);
    }
  }
  EXPECT_EQ(Part(PosixFile::open_to_read(directory / "part")).name(), kName) << "as it was";
}

TEST_P(PartFileTest, ThatIsCutOffAnywhereAndAnotherFileAreNoPart) {
  for (std::uint64_t size = make().size(); size-- > 0;) {
    std::filesystem::resize_file(directory / "part", size);
    ASSERT_THROW(Part{PosixFile::open_to_read(directory / "part")}, CorruptError) << size;
  }
  std::ofstream(directory / "text") << std::string(10'000, 'x');
  EXPECT_THROW(Part{PosixFile::open_to_read(directory / "text")}, CorruptError);
}

/// Memory behind the end of a file is a SIGBUS for whoever touches it.
TEST(PartSlotInMemory, APartThatSomebodyHasCutIsAnErrorOfOneCopyAlone) {
  const test::TemporaryDirectory shared("/dev/shm");
  const core::Directory place = core::Directory::open(shared.path());
  PartSlot slot(place, "part");
  std::array<std::byte, 100'000> bytes{};
  const auto copy = [&] {
    std::vector<WriteItem> items{
        {{.file_offset = 0, .shape = {bytes.size()}}, {bytes.data(), {{0}, {bytes.size()}}, {1}}}};
    slot.copy(items);
    return items;
  };
  const auto cut = [&](std::uint64_t size) { std::filesystem::resize_file(shared / "part", size); };
  const auto before = copy();
  cut(kPartDataOffset);
  EXPECT_THROW(slot.complete(before, kName, std::nullopt), StorageError);
  slot.complete(copy(), kName, std::nullopt);
  EXPECT_EQ(slot.whole().size(), std::filesystem::file_size(shared / "part"));
  cut(kPartDataOffset + bytes.size());  // in its tables
  EXPECT_THROW(static_cast<void>(slot.whole()), StorageError);
  slot.complete(copy(), kName, std::nullopt);
  EXPECT_EQ(slot.whole().size(), std::filesystem::file_size(shared / "part"));
  cut(0);
  slot.begin_receiving(kPartDataOffset + bytes.size());
  slot.received().back() = std::byte{1};
}

INSTANTIATE_TEST_SUITE_P(In, PartFileTest, testing::Values("/dev/shm", "/var/tmp"),
                         [](const auto& place) { return std::string(place.param).substr(1, 3); });

}  // namespace
}  // namespace reprieve::storage
