// SPDX-License-Identifier: BSD-3-Clause
// Parts of near copies on their way into the checkpoint directory: whole, stopped, and written anew meanwhile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "manager/near_place.hpp"
#include "reprieve/error.hpp"
#include "storage/near/part_file.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::manager {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kBroughtBytes = std::size_t{9} << 20U;  // three pieces

class BroughtPartsTest : public testing::Test {
 protected:
  BroughtPartsTest() {
    part.allocate(storage::kPartDataOffset + kBroughtBytes);
    storage::complete_part(part, kBroughtBytes, found.name, {{0}, {1}, std::nullopt});
  }

  bool bring(const std::function<bool()>& may_go_on) const {
    return bring_part(part, found, core::Directory::open(checkpoints.path()), may_go_on);
  }

  [[nodiscard]] std::vector<std::string> names() const {
    const auto found_names = names_of_brought_parts(core::Directory::open(checkpoints.path()));
    return {found_names.begin(), found_names.end()};
  }

  const test::TemporaryDirectory checkpoints;
  const test::TemporaryDirectory memory;
  const FoundPart found{"3-5.0.part", {{{"id", 3, 14}, 15, "ckpt", 92, 65, 35, 8, 97, 2, 13}, 5}, 0};
  const storage::PosixFile part = storage::PosixFile::create(memory / found.file);
};

TEST_F(BroughtPartsTest, AreEqualToWhatLayInMemory) {
  EXPECT_TRUE(bring([] { return true; }));
  EXPECT_THAT(names(), ElementsAre(found.file));
  const core::Directory directory = core::Directory::open(checkpoints.path());
  const storage::Part copy(storage::PosixFile::open_to_read(checkpoints / kBroughtName / found.file));
  EXPECT_EQ(copy.name(), found.name);
  EXPECT_EQ(copy.data_bytes(), kBroughtBytes);
  remove_brought_parts(directory, {found.file, "of-another.part"});
  EXPECT_FALSE(directory.contains(kBroughtName));
}

/// Other nodes that have made a checkpoint remove the place when it is empty.
TEST_F(BroughtPartsTest, FindAPlaceThatIsRemovedAgainAndAgain) {
  std::atomic<bool> done{false};
  std::thread others([&] {
    const core::Directory directory = core::Directory::open(checkpoints.path());
    while (!done) {
      static_cast<void>(directory.remove_empty_directory(kBroughtName));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // much longer than a try takes
    }
  });
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    EXPECT_NO_THROW(EXPECT_FALSE(bring([] { return false; })));
  }
  done = true;
  others.join();
}

TEST_F(BroughtPartsTest, NothingIsLeftOfOneThatWasStopped) {
  for (int pieces = 0; pieces < 3; ++pieces) {
    int left = pieces;
    EXPECT_FALSE(bring([&] { return left-- > 0; })) << pieces;
    EXPECT_THAT(names(), IsEmpty()) << pieces;
  }
}

TEST_F(BroughtPartsTest, OneThatIsWrittenAnewMeanwhileIsNotTaken) {
  for (const int at : {0, 1, 2, 3}) {
    storage::complete_part(part, kBroughtBytes, found.name, {{0}, {1}, std::nullopt});
    int asked = 0;
    const bool was_brought = bring([&] {
      if (asked++ == at) {
        storage::void_part(part);
      }
      return true;
    });
    EXPECT_FALSE(was_brought) << at;
    EXPECT_THAT(names(), IsEmpty()) << at;
  }
}

TEST_F(BroughtPartsTest, AnotherCopyInItsPlaceIsNotTakenForIt) {
  storage::PartName newer = found.name;
  newer.copy.save.save += 1;
  const bool was_brought = bring([&] {
    storage::complete_part(part, kBroughtBytes, newer, {{0}, {1}, std::nullopt});
    return true;
  });
  EXPECT_FALSE(was_brought);
  EXPECT_THAT(names(), IsEmpty());
}

}  // namespace
}  // namespace reprieve::manager
