// SPDX-License-Identifier: BSD-3-Clause
// Parts of node-local copies on their way into the checkpoint directory: whole, stopped, and written again meanwhile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "manager/node_directory.hpp"
#include "reprieve/error.hpp"
#include "storage/local/part_file.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::manager {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kFlushedBytes = std::size_t{9} << 20U;  // three pieces

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

TEST_F(FlushedPartsTest, OneThatIsWrittenAnewMeanwhileIsNotTaken) {
  for (const int at : {0, 1, 2, 3}) {
    storage::complete_part(part, kFlushedBytes, found.name, {{0}, {1}, std::nullopt});
    int asked = 0;
    const bool was_flushed = flush([&] {
      if (asked++ == at) {
        storage::void_part(part);
      }
      return true;
    });
    EXPECT_FALSE(was_flushed) << at;
    EXPECT_THAT(names(), IsEmpty()) << at;
  }
}

TEST_F(FlushedPartsTest, AnotherCopyInItsPlaceIsNotTakenForIt) {
  storage::PartName newer = found.name;
  newer.copy.save.save += 1;
  const bool was_flushed = flush([&] {
    storage::complete_part(part, kFlushedBytes, newer, {{0}, {1}, std::nullopt});
    return true;
  });
  EXPECT_FALSE(was_flushed);
  EXPECT_THAT(names(), IsEmpty());
}

}  // namespace
}  // namespace reprieve::manager
