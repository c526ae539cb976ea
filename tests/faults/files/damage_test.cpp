// SPDX-License-Identifier: BSD-3-Clause
// Every truncation and every flipped bit of a small checkpoint: a restore gives the saved values or an error, and the
// verification tells of every one.

#include <gmock/gmock.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>

#include "faults/files/sample.hpp"
#include "reprieve/error.hpp"
#include "storage/read/inspect_file.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::test {
namespace {

/// Which bits of a byte are tried: in the short form one, in the long form (REPRIEVE_FAULTS_LONG) all.
std::size_t bits_per_byte() { return std::getenv("REPRIEVE_FAULTS_LONG") != nullptr ? 8 : 1; }

class Corruption : public testing::Test {
 protected:
  Corruption() {
    save_sample(file_);
    valid_ = content_of(file_);
  }

  /// In a child: the valid file, whatever the child before left there.
  void begin() {
    put_content(file_, valid_);
    reader_ = std::make_unique<SampleReader>();
  }

  [[nodiscard]] Fate restore() { return reader_->restore(file_, file_.filename().string()); }

  /// What `reprieve verify` does in its process.
  [[nodiscard]] Fate verify() const {
    try {
      return storage::verify_file(file_).empty() ? Fate::unchanged : Fate::refused;
    } catch (...) {
      return Fate::odd;
    }
  }

  [[nodiscard]] Tally try_each(std::size_t count, const std::function<Fate(std::size_t)>& attempt) {
    return try_all(
        count, [this] { begin(); }, attempt);
  }

  /// Flips one bit of the file for one try. In the short form the bits take turns.
  [[nodiscard]] Fate with_flipped(std::size_t number, const std::function<Fate()>& read) const {
    const std::size_t at = number / bits_per_byte();
    const std::byte bit = std::byte{1} << (bits_per_byte() == 8 ? number % 8 : at % 8);
    put(at, valid_[at] ^ bit);
    const Fate fate = read();
    put(at, valid_[at]);
    return fate;
  }
  void put(std::size_t at, std::byte value) const {
    std::fstream stream(file_, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(value));
  }

  const TemporaryDirectory directory_{"/dev/shm"};
  const std::filesystem::path file_ = directory_ / "ckpt-7.h5";
  storage::Bytes valid_;
  std::unique_ptr<SampleReader> reader_;
};

/// The negative control of all that follows: the valid file is taken, and a child that dies is noticed.
TEST_F(Corruption, TheReadersTellRightFromWrong) {
  const Tally valid = try_each(2, [this](std::size_t i) { return i == 0 ? restore() : verify(); });
  EXPECT_EQ(valid[Fate::unchanged], 2U);
  const Tally bad = try_all(
      4, [] {},
      [](std::size_t i) {
        if (i == 0) {
          ::raise(SIGKILL);  // without the account that MPI gives of other signals
        }
        for (volatile bool forever = i == 1; forever;) {
        }
        return i == 2 ? Fate::wrong : Fate::refused;
      },
      {.seconds = 2});
  EXPECT_EQ(bad[Fate::crashed], 1U);
  EXPECT_EQ(bad[Fate::hung], 1U);
  EXPECT_EQ(bad[Fate::wrong], 1U);
  EXPECT_EQ(bad[Fate::refused], 1U);
}

TEST_F(Corruption, NoTruncationIsTaken) {
  const std::size_t size = valid_.size();
  const auto cut = [&](std::size_t length) {
    put_content(file_, {valid_.begin(), valid_.begin() + static_cast<std::ptrdiff_t>(length)});
  };
  const Tally restored = try_each(size, [&](std::size_t length) {
    cut(length);
    return restore();
  });
  EXPECT_EQ(restored[Fate::refused], size) << testing::PrintToString(restored.bad);
  const Tally verified = try_each(size, [&](std::size_t length) {
    cut(length);
    return verify();
  });
  EXPECT_EQ(verified[Fate::refused], size) << testing::PrintToString(verified.bad);
  RecordProperty("truncations", static_cast<int>(size));
}

TEST_F(Corruption, NoFlippedBitIsRestored) {
  const std::size_t bits = valid_.size() * bits_per_byte();
  const Tally tally = try_each(bits, [&](std::size_t i) { return with_flipped(i, [this] { return restore(); }); });
  // HDF5's own structures, which a restore does not look at, are the ones that do not matter.
  EXPECT_EQ(tally[Fate::refused] + tally[Fate::unchanged], bits) << testing::PrintToString(tally.bad);
  EXPECT_GT(tally[Fate::refused], std::size_t{4096} * bits_per_byte()) << "the commit record and the data";
  RecordProperty("bits", static_cast<int>(bits));
}

TEST_F(Corruption, EveryFlippedBitIsVerified) {
  const std::size_t bits = valid_.size() * bits_per_byte();
  const Tally tally = try_each(bits, [&](std::size_t i) { return with_flipped(i, [this] { return verify(); }); });
  EXPECT_EQ(tally[Fate::refused], bits) << testing::PrintToString(tally.bad);
}

/// Whole bytes, and bursts of them, as a bad disk or a wrong block makes them.
TEST_F(Corruption, NoOverwrittenRangeIsRestored) {
  constexpr std::array<std::size_t, 3> kLengths{1, 8, 512};
  const std::size_t stride = bits_per_byte() == 8 ? 1 : 23;
  const std::size_t places = valid_.size() / stride;
  const Tally tally = try_each(places * kLengths.size(), [&](std::size_t i) {
    storage::Bytes content = valid_;
    const std::size_t begin = i % places * stride;
    const std::size_t end = std::min(content.size(), begin + kLengths[i / places]);
    for (std::size_t at = begin; at < end; ++at) {
      content[at] ^= std::byte{0xff};
    }
    put_content(file_, content);
    const Fate fate = restore();
    return fate == Fate::unchanged && verify() != Fate::refused ? Fate::wrong : fate;
  });
  EXPECT_EQ(tally[Fate::refused] + tally[Fate::unchanged], places * kLengths.size())
      << testing::PrintToString(tally.bad);
}

// Checkpoints that other versions of HDF5 have written: the files in recorded/, with the values of the sample.

class Recorded : public testing::TestWithParam<const char*> {};

TEST_P(Recorded, IsRestoredAndVerified) {
  const std::filesystem::path file = std::filesystem::path(REPRIEVE_RECORDED_DIR) / GetParam();
  const Tally tally = try_all(
      2, [] {},
      [&](std::size_t i) {
        if (i == 0) {
          return SampleReader().restore(file, GetParam());
        }
        return storage::verify_file(file).empty() ? Fate::unchanged : Fate::refused;
      });
  EXPECT_EQ(tally[Fate::unchanged], 2U) << testing::PrintToString(tally.bad);
}

INSTANTIATE_TEST_SUITE_P(By, Recorded, testing::Values("hdf5-1.10.h5", "hdf5-1.14.h5"),
                         [](const auto& file) { return file.index == 0 ? "Hdf5_1_10" : "Hdf5_1_14"; });

/// Makes such a file: REPRIEVE_RECORD=FILE file_tests --gtest_also_run_disabled_tests --gtest_filter='*Records*'
TEST(Recording, DISABLED_RecordsASample) {
  ASSERT_NE(std::getenv("REPRIEVE_RECORD"), nullptr);
  save_sample(std::getenv("REPRIEVE_RECORD"));
}

// A run on another node retires a checkpoint and writes the next one over it while a tool reads it here: that is never
// called corruption, nor are the new bytes taken for the old ones.

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

TEST_F(RetiredMeanwhile, CorruptionOfAFileThatStaysIsReported) {
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
