// SPDX-License-Identifier: BSD-3-Clause
// Which node-local copies may be taken, by the parts that were found; the directories in which they lie.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <iterator>
#include <thread>

#include "manager/local_finish.hpp"
#include "manager/node_directory.hpp"
#include "reprieve/error.hpp"
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
  parts.push_back(part(copy_of(13), 1));
  parts.push_back(part(copy_of(12), 1));
  parts.push_back(part(copy_of(12), 0, "b"));
  const auto wanted = wanted_copies(parts, kTarget);
  EXPECT_THAT(saves(wanted), ElementsAre(13, 12, 11));
  EXPECT_THAT(wanted.at(0).missing(), ElementsAre(0));
  EXPECT_FALSE(wanted.at(0).is_complete());
  EXPECT_TRUE(wanted.at(1).is_complete()) << "on two hosts";
  EXPECT_TRUE(wanted.at(2).is_complete());
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

TEST(LocalChoice, APartCanLieAtSeveralPlaces) {
  const auto wanted = wanted_copies({part(copy_of(11), 0), part(copy_of(11), 0, ""), part(copy_of(11), 1)}, kTarget);
  ASSERT_EQ(wanted.size(), 1U);
  EXPECT_EQ(wanted[0].parts.at(0).size(), 2U);
  EXPECT_TRUE(wanted[0].is_complete());
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
  EXPECT_FALSE(is_wanted(kTarget, [](auto& copy) {
    copy.save.save = 9;
    copy.known_save = 9;
  })) << "before the commit";
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

TEST(LocalChoice, ALaunchDoesNotTakeItsOwn) {
  LocalTarget target = kTarget;
  target.own_launch = "last";
  EXPECT_FALSE(is_wanted(target, [](auto&) {}));
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
    EXPECT_THAT(made, testing::Each(made.front()));
  }
}

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

TEST(LocalChoice, NothingIsWantedWhereNothingIs) { EXPECT_THAT(wanted_copies({}, kTarget), IsEmpty()); }

}  // namespace
}  // namespace reprieve::manager
