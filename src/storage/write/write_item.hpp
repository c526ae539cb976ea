// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Boxes in memory with their offsets in the file, and how they get there. Local: no MPI, no HDF5, safe on any thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/directory.hpp"
#include "core/memory.hpp"
#include "reprieve/save.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/bytes/compression.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/blocks.hpp"
#include "storage/format/dataset.hpp"
#include "storage/format/file_index.hpp"
#include "storage/write/data_stream.hpp"

namespace reprieve::storage {

/// Ranges that need not be written, but lie in a shorter row of such than this between two that must, are written as
/// well: one long write is faster than two.
inline constexpr std::uint64_t kLeastGapBytes = 4 * kRangeBytes;

/// What one save has written into one file, on one rank, as digests of its ranges. Where a file is written over, ranges
/// that must hold what they hold already are left as they lie. Not thread-safe.
class WrittenRanges {
 public:
  /// Which ranges are checked.
  enum class Checks { all, some };

  /// @param before  what the file holds by now, of this rank; null: that is not known
  /// @param leaves_out  whether what is equal may be left as it lies
  WrittenRanges(Checks checks, std::shared_ptr<const WrittenRanges> before, bool leaves_out);

  /// Takes note of bytes that the file must hold at @p offset. True if it holds them already and they need not be
  /// written: only for a whole range.
  [[nodiscard]] bool holds(std::span<const std::byte> bytes, std::uint64_t offset);
  [[nodiscard]] bool leaves_out() const noexcept { return leaves_out_; }
  [[nodiscard]] Checks checks() const noexcept { return checks_; }

 private:
  [[nodiscard]] const Digest128* find(std::uint64_t range) const;
  void add(std::uint64_t range, const Digest128& digest) noexcept;

  const Checks checks_;
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
  WrittenRanges::Checks checks_ = WrittenRanges::Checks::all;
};

/// A box of a dataset with the memory to be written there. The box is in the dataset's indexes.
struct WriteItem {
  Dataset dataset;
  BoxView<const std::byte> source;
  /// Nobody else writes into this dataset: what the box does not cover, at its far edges, is filled with zeros
  /// (not where pieces are exchanged: there it keeps what the file held).
  bool fills_dataset = false;
  /// The item before is a part of the same row of the table of boxes.
  bool continues_row = false;

  [[nodiscard]] std::size_t bytes() const { return bytes_of(source.box, dataset.element_size); }
  /// Of each of its pieces that lie side by side in the file, with what is filled between them.
  [[nodiscard]] std::uint64_t run_bytes() const;
  /// Blocks with a checksum of their own.
  [[nodiscard]] std::size_t block_count() const;
};

/// Gives the elements of blocks side by side on the host. For one thread.
class BlockFeed {
 public:
  /// @param block  lies inside of the view. In place if they lie so in memory, else a copy, until the next call. What
  /// lies on a device is copied in pieces; a block that a buffer holds stays there
  [[nodiscard]] std::span<const std::byte> take(const BoxView<const std::byte>& view, const Box& block,
                                                std::size_t element_size);
  /// This block is taken next: if it lies on a device, it is on its way while the last one is used.
  void expect(const BoxView<const std::byte>& view, const Box& block, std::size_t element_size);

 private:
  Bytes buffer_;
  state::Staging staging_;
  const std::byte* expected_ = nullptr;  ///< the first element of the block that was begun; null: none
};

/// What is known of blocks that were written, in the order of the items.
struct WrittenBlocks {
  std::vector<std::uint64_t> checksums;
  /// The bytes in the file of those that are compressed, of others 0. Empty: none is.
  std::vector<std::uint64_t> compressed_sizes{};
};

/// Which items are compressed, of those that may be.
struct CompressItems {
  Compression compression = Compression::none;
  bool if_busy = true;  ///< only those that would wait for the disk
};

/// Writes all items block by block. What was written is in the stream: its `finish` is the caller's.
/// @throws StorageError
/// @param ranges  what the file holds already, which is not written again; null: nothing is known of that
[[nodiscard]] WrittenBlocks write_items(DataStream& stream, std::span<const WriteItem> items,
                                        WrittenRanges* ranges = nullptr, CompressItems compress = {});

/// Adds the checksums of an item as it is in memory, block by block. @param feed  to be used again for the next
void add_checksums(const WriteItem& item, BlockFeed& feed, std::vector<std::uint64_t>& checksums);

/// The same of all items.
[[nodiscard]] std::vector<std::uint64_t> checksums_of(std::span<const WriteItem> items);

/// Reads all items back and compares them with the checksums. @throws CorruptError, StorageError
void check_items(const PosixFile& file, std::span<const WriteItem> items, std::span<const std::uint64_t> checksums);

/// What of the file lies between the first and the last byte of an item that is not empty.
[[nodiscard]] Region region_of(const WriteItem& item);

/// What takes bytes and where in the file they belong.
using UsePiece = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;

/// Calls @p use for the bytes of an item that belong from @p begin to before @p end in the file, in ascending order.
/// @param feed  to be used again for the next
void for_each_piece(const WriteItem& item, std::uint64_t begin, std::uint64_t end, BlockFeed& feed,
                    const UsePiece& use);

/// Everything a rank needs to write its part of a file: offsets from rank 0, and the memory that goes there.
/// Made collectively; from then on the direct writer needs neither MPI nor HDF5.
struct WritePlan {
  /// One variable, as much as all ranks must know of it to write it together.
  struct Variable {
    std::string name;
    std::uint64_t file_offset = 0;  ///< of the dataset
    std::uint64_t bytes = 0;        ///< of the whole dataset
    bool scattered = false;         ///< some rank has it in pieces too small for a write of their own
    std::size_t first_item = 0;     ///< this rank's boxes of it
    std::size_t item_count = 0;
  };

  core::FileAddress file;
  FileIo io = FileIo::automatic;  ///< how bytes go to the file system
  std::vector<Variable> variables;
  std::vector<WriteItem> items;  ///< by variable
  CompressItems compress;
  /// What the file holds already, of this rank; null: nothing is known of that.
  std::shared_ptr<WrittenRanges> ranges;
  std::uint64_t state_bytes = 0;  ///< of all ranks

  /// For the stream: with ranges that are left out, the pieces between them are shorter. So are compressed chunks.
  [[nodiscard]] std::uint64_t least_direct_bytes() const {
    return (ranges && ranges->leaves_out()) || compress.compression != Compression::none ? kRangeBytes
                                                                                         : kLeastDirectBytes;
  }
  /// What this rank writes.
  [[nodiscard]] std::uint64_t own_bytes() const;
  /// Where the last dataset ends.
  [[nodiscard]] std::uint64_t end_in_file() const;
};

/// This rank's part of a file, written but not yet durable.
struct WrittenPart {
  WrittenBlocks blocks;  ///< of the plan's items
  /// The file, if this rank wrote anything. It stays open until it is synced: the kernel reports a failed write-back to
  /// those who had the file open.
  std::optional<PosixFile> file;
  bool bypasses_page_cache = true;  ///< else nothing of it is compressed
};

/// Every rank its own items at their offsets, in the file that is laid out. Needs neither MPI nor HDF5, on any thread.
/// @throws StorageError
[[nodiscard]] WrittenPart write_directly(const WritePlan& plan);

// A copy of one rank's part of the state, so that the program can continue while it is written.

/// What a copy of items takes: row after row of the table of boxes, each with its elements side by side.
[[nodiscard]] std::size_t bytes_of_copy(std::span<const WriteItem> items);

/// Copies what the items refer to, and lets them refer to the copy. Returns where each row that is not empty begins.
/// @param memory  for so many bytes @throws what a device's memory throws: then the items are as they were
std::vector<std::uint64_t> copy_items(std::span<WriteItem> items, std::span<std::byte> memory);

/// Memory for one copy, kept from one save to the next: only the first pays for getting it from the system.
/// Not thread-safe.
class StateCopy {
 public:
  /// As `copy_items`. The copy lives until the next call. @throws std::bad_alloc too
  void take(std::span<WriteItem> items);

  [[nodiscard]] std::size_t capacity() const noexcept { return memory_.bytes().size(); }

 private:
  core::Mapping memory_;
};

}  // namespace reprieve::storage
