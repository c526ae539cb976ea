// SPDX-License-Identifier: BSD-3-Clause
// Unchanged ranges are not written. A file that is written over holds an older checkpoint, complete and durable, that
// this run has written itself. So a rank that remembers a digest of each range that it wrote there knows what a range
// holds, and leaves it as it lies if the new checkpoint has the same bytes there.
//
// - A range counts only if this rank wrote it as a whole, both times: then no other rank, and no structure of the file,
//   has a byte in it. It does not matter which variable lay there.
// - What a save wrote is known by the number of that save. The chief tells which save left the file that is written
//   over, and only if the file has not been touched since (CheckpointDirectory::take_spare). A new file, a file of
//   another run, and the file of a save that failed hold nothing that is known.
// - The digests have 128 bits, of XXH3, which is not made to resist somebody who wants two states with one digest.
// - Every 16th time a file is written as a whole, so that what a disk has changed under us does not stay for ever.
//   Before that it is found, by the checksums, which are those of the new state.
// - Digests cost time. Where next to nothing was equal, some ranges are looked at to find out whether that changes.

#include "storage/write/written_ranges.hpp"

#include <new>
#include <utility>

namespace reprieve::storage {

namespace {

constexpr int kAllIsWrittenEvery = 16;
/// One range in so many is looked at where nothing is left out.
constexpr std::uint64_t kSampleOf = 16;
/// Shares of equal ranges, in hundredths, below and above which the other look pays.
constexpr std::uint64_t kTooFew = 4;
constexpr std::uint64_t kEnough = 8;
/// To judge by.
constexpr std::uint64_t kLeastCompared = 8;
/// Files that are never written over again would be remembered for ever.
constexpr std::size_t kMostSaves = 32;

/// Scattered, since states repeat themselves at powers of two.
bool is_sample(std::uint64_t range) { return (range * 0x9E3779B97F4A7C15U) >> 60U == 0; }
static_assert(kSampleOf == 16);

}  // namespace

WrittenRanges::WrittenRanges(Look look, std::shared_ptr<const WrittenRanges> before, bool leaves_out)
    : look_(look),
      before_(std::move(before)),
      leaves_out_(leaves_out && before_ && look == Look::all && before_->look_ == Look::all),
      saves_since_all_(leaves_out_ ? before_->saves_since_all_ + 1 : 0) {}

bool WrittenRanges::holds(std::span<const std::byte> bytes, std::uint64_t offset) {
  const std::uint64_t range = offset / kRangeBytes;
  if (bytes.size() != kRangeBytes || offset % kRangeBytes != 0 || (look_ == Look::some && !is_sample(range))) {
    return false;
  }
  const Digest128 digest = xxh3_128(bytes);
  add(range, digest);
  const Digest128* const held = before_ ? before_->find(range) : nullptr;
  if (held == nullptr) {
    return false;
  }
  ++compared_;
  const bool is_equal = *held == digest;
  equal_ += is_equal ? 1U : 0U;
  return is_equal && leaves_out_;
}

const Digest128* WrittenRanges::find(std::uint64_t range) const {
  auto run = runs_.upper_bound(range);
  if (run == runs_.begin()) {
    return nullptr;
  }
  --run;
  const std::uint64_t place = range - run->first;
  return place < run->second.size() ? &run->second[static_cast<std::size_t>(place)] : nullptr;
}

/// Without the memory for it the save goes on, and nothing is known of what it writes.
void WrittenRanges::add(std::uint64_t range, const Digest128& digest) noexcept {
  if (!has_memory_) {
    return;
  }
  try {
    if (last_run_ == runs_.end() || last_run_->first + last_run_->second.size() != range) {
      last_run_ = runs_.insert_or_assign(range, std::vector<Digest128>()).first;
    }
    last_run_->second.push_back(digest);
  } catch (const std::bad_alloc&) {
    has_memory_ = false;
    runs_.clear();
    last_run_ = runs_.end();
  }
}

std::shared_ptr<WrittenRanges> WriteHistory::begin(std::uint64_t over, std::uint64_t save, bool is_last) {
  learn_from_last();
  std::shared_ptr<WrittenRanges> before;
  if (const auto known = by_save_.find(over); known != by_save_.end()) {
    before = std::move(known->second);
    by_save_.erase(known);
  }
  if (is_last && !before) {
    return nullptr;
  }
  const bool leaves_out = before && before->saves_since_all_ + 1 < kAllIsWrittenEvery;
  last_ = std::make_shared<WrittenRanges>(look_, std::move(before), leaves_out);
  by_save_.insert_or_assign(save, last_);
  while (by_save_.size() > kMostSaves) {
    by_save_.erase(by_save_.begin());
  }
  return last_;
}

/// The save before is over.
void WriteHistory::learn_from_last() {
  if (!last_) {
    return;
  }
  if (last_->compared_ >= kLeastCompared) {
    const std::uint64_t hundredths = last_->equal_ * 100 / last_->compared_;
    if (hundredths < kTooFew) {
      look_ = WrittenRanges::Look::some;
    } else if (hundredths > kEnough) {
      look_ = WrittenRanges::Look::all;
    }
  }
  last_->before_.reset();
  last_.reset();
}

}  // namespace reprieve::storage
