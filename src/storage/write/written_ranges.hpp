// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a rank has written into a file, as digests of its ranges. Where a file is written over, ranges that are to hold
/// what they hold already are left as they lie. Local: no MPI.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "storage/bytes/checksum.hpp"
#include "storage/format/blocks.hpp"

namespace reprieve::storage {

/// Ranges that need not be written, but lie in a shorter row of such than this between two that must, are written as
/// well: one long write is faster than two.
inline constexpr std::uint64_t kLeastGapBytes = 4 * kRangeBytes;

/// What one save has written into one file, on one rank. Not thread-safe.
class WrittenRanges {
 public:
  /// Which ranges are looked at.
  enum class Look { all, some };

  /// @param before  what the file holds by now, of this rank; null: that is not known
  /// @param leaves_out  whether what is equal may be left as it lies
  WrittenRanges(Look look, std::shared_ptr<const WrittenRanges> before, bool leaves_out);

  /// Takes note of bytes that the file is to hold at @p offset. True if it holds them already and they need not be
  /// written: only for a whole range.
  [[nodiscard]] bool holds(std::span<const std::byte> bytes, std::uint64_t offset);
  [[nodiscard]] bool leaves_out() const noexcept { return leaves_out_; }

  [[nodiscard]] Look look() const noexcept { return look_; }
  /// Of those that could be compared, how many were equal.
  [[nodiscard]] std::uint64_t compared() const noexcept { return compared_; }
  [[nodiscard]] std::uint64_t equal() const noexcept { return equal_; }
  /// How many saves it is since all was written.
  [[nodiscard]] int saves_since_all() const noexcept { return saves_since_all_; }

 private:
  [[nodiscard]] const Digest128* find(std::uint64_t range) const;
  void add(std::uint64_t range, const Digest128& digest) noexcept;

  const Look look_;
  std::shared_ptr<const WrittenRanges> before_;  ///< until this save is over
  const bool leaves_out_;
  const int saves_since_all_;
  std::map<std::uint64_t, std::vector<Digest128>> runs_;  ///< of ranges that follow each other, by the first
  std::map<std::uint64_t, std::vector<Digest128>>::iterator last_run_ = runs_.end();
  bool has_memory_ = true;
  std::uint64_t compared_ = 0;
  std::uint64_t equal_ = 0;

  friend class WriteHistory;
};

/// What this rank has written in which save of a run, for files that may be written over.
class WriteHistory {
 public:
  /// A save begins. @param over  the save whose file is written over, as it left it; 0: it is a new file, or nobody
  /// knows
  /// @param save  its own number, which is greater
  /// @param is_last  no save will follow: what it writes need not be known
  /// Returns what to ask while it is written; null: nothing. It may be used for as long as the save is written.
  [[nodiscard]] std::shared_ptr<WrittenRanges> begin(std::uint64_t over, std::uint64_t save, bool is_last);

 private:
  void learn_from_last();

  std::map<std::uint64_t, std::shared_ptr<WrittenRanges>> by_save_;
  std::shared_ptr<WrittenRanges> last_;
  WrittenRanges::Look look_ = WrittenRanges::Look::all;
};

}  // namespace reprieve::storage
