// SPDX-License-Identifier: BSD-3-Clause
// Every truncation and every flipped bit of a small checkpoint: a restore gives the saved values or an error, and the
// verification tells of every one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "faults/files/sample.hpp"
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

}  // namespace
}  // namespace reprieve::test
