// SPDX-License-Identifier: BSD-3-Clause
// A run on another node retires a checkpoint and writes the next one over it while a tool reads it here: that is never
// called corruption, nor are the new bytes taken for the old ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "faults/files/sample.hpp"
#include "reprieve/error.hpp"
#include "storage/read/inspect_file.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RetiredMeanwhile : public testing::Test {
 protected:
  RetiredMeanwhile() { save_sample(file_); }

  /// The file loses its name, then its commit record, then it is written over.
  void recycle(const fs::path& new_name) const {
    fs::rename(file_, new_name);
    const auto recycled = storage::PosixFile::open_to_write(new_name);
    storage::void_commit_record(recycled);
    overwrite(new_name);
  }

  static void overwrite(const fs::path& file) {
    const auto opened = storage::PosixFile::open_to_write(file);
    const storage::Bytes other(static_cast<std::size_t>(opened.size() - storage::kCommitRecordBytes), std::byte{0x5a});
    opened.write_all(other, storage::kCommitRecordBytes);
  }

  /// Verifies the file. @param change  is made when the first variable has been read
  [[nodiscard]] std::vector<storage::Corruption> verify(const std::function<void()>& change) const {
    bool is_changed = false;
    return storage::verify_file(file_, [&](std::uint64_t, std::uint64_t) {
      if (!is_changed) {
        is_changed = true;
        change();
      }
    });
  }

  void expect_error(const std::function<void()>& read) const {
    try {
      read();
      FAIL() << "no error";
    } catch (const StorageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(file_.string() + " was removed or replaced while it was read"));
    }
  }

  const TemporaryDirectory directory_;
  const fs::path file_ = directory_ / "ckpt-7.h5";
};

TEST_F(RetiredMeanwhile, IsNotCorruption) {
  EXPECT_THAT(verify([] {}), IsEmpty());
  expect_error([&] { static_cast<void>(verify([&] { recycle(directory_ / ".reprieve.recycled"); })); });
}

TEST_F(RetiredMeanwhile, IsNotCorruptionOfTheNextOneOfItsName) {
  expect_error([&] {
    static_cast<void>(verify([&] {
      recycle(directory_ / ".reprieve.recycled");
      save_sample(file_);
    }));
  });
}

/// The inode is the same, but what it says of itself is not.
TEST_F(RetiredMeanwhile, IsSeenByTheCommitRecordWhereTheNameIsTheSame) {
  expect_error([&] { static_cast<void>(verify([&] { recycle(file_); })); });
}

TEST_F(RetiredMeanwhile, CorruptionOfAFileThatStaysIsTold) {
  EXPECT_THAT(verify([&] { overwrite(file_); }), Not(IsEmpty()));
}

TEST_F(RetiredMeanwhile, ReadersCanTell) {
  const storage::VariableReader reader(file_);
  EXPECT_NO_THROW(reader.check_not_retired());
  recycle(directory_ / ".reprieve.recycled");
  expect_error([&] { reader.check_not_retired(); });
}

}  // namespace
}  // namespace reprieve::test
