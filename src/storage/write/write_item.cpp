// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/write_item.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <new>
#include <numeric>
#include <utility>

#include "core/failpoint.hpp"

namespace reprieve::storage {

// Unchanged ranges are not written. A file that is written over holds an older checkpoint, complete and durable, that
// this run has written itself. So a rank that remembers a digest of each range that it wrote there knows what a range
// holds, and leaves it as it lies if the new checkpoint has the same bytes there.
//
// - A range counts only if this rank wrote it as a whole, both times: then no other rank, and no structure of the file,
//   has a byte in it. It does not matter which variable lay there.
// - What a save wrote is known by the number of that save. Rank 0 says which save left the file that is written
//   over, and only if the file has not been touched since (CheckpointDirectory::take_recycled). A new file, a file of
//   another run, and the file of a save that failed hold nothing that is known.
// - The digests have 128 bits, of XXH3, which is not made to resist somebody who wants two states with one digest.
// - Every 16th time a file is written as a whole, so that what a disk has changed under us does not stay for ever.
//   Before that it is found, by the checksums, which are those of the new state.
// - Digests cost time. Where next to nothing was equal, some ranges are checked to see whether that changes.
//
// Chunks are compressed while the disk is busy. A chunk is tried only if the stream would have to wait for earlier
// writes: then the time costs nothing, and a disk that is fast enough gets the bytes as they are. So nothing needs to
// be measured from save to save, and the first save, which may be the last, gains as much as later ones. A compressed
// chunk lies at the place that the layout gave it, since that is known before the bytes are: time is saved, not space.

namespace {

constexpr int kAllIsWrittenEvery = 16;
/// One range in so many is checked where nothing is left out.
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

const std::byte* first_of(const BoxView<const std::byte>& view, const Box& block) {
  return view.data + displacement(view.box, view.strides_bytes, block.offset);
}

/// Calls @p visit(block, bytes) for every block of an item: while it uses one, the next comes from its device.
/// @param next  the item after it, whose first block is begun; or null
template <class Visit>
void for_each_content(const WriteItem& item, const WriteItem* next, BlockFeed& feed, Visit&& visit) {
  const std::size_t element_size = item.dataset.element_size;
  const BlockSplit split(item.source.box, element_size);
  for (std::uint64_t i = 0; i < split.count(); ++i) {
    const Box block = split.block(i);
    const std::span<const std::byte> content = feed.take(item.source, block, element_size);
    if (i + 1 < split.count()) {
      feed.expect(item.source, split.block(i + 1), element_size);
    } else if (next != nullptr) {
      if (const BlockSplit of_next(next->source.box, next->dataset.element_size); of_next.count() > 0) {
        feed.expect(next->source, of_next.block(0), next->dataset.element_size);
      }
    }
    visit(block, content);
  }
}

/// Writes bytes, but for what the file holds already.
void write_changes(DataStream& stream, std::span<const std::byte> bytes, std::uint64_t offset, Xxh3Stream& digest,
                   WrittenRanges& ranges) {
  std::size_t begin = 0;  // of what comes before the piece and was left out so far
  for (std::size_t at = 0; at < bytes.size();) {
    const std::uint64_t to_next_range = kRangeBytes - (offset + at) % kRangeBytes;
    const auto piece = bytes.subspan(at, std::min<std::uint64_t>(bytes.size() - at, to_next_range));
    digest.update(piece);
    at += piece.size();
    if (ranges.holds(piece, offset + at - piece.size())) {
      continue;
    }
    const std::size_t gap = at - piece.size() - begin;
    if (gap >= kLeastGapBytes) {
      stream.leave_out(gap);
      begin += gap;
    }
    stream.write(bytes.subspan(begin, at - begin), offset + begin);
    begin = at;
  }
  stream.leave_out(bytes.size() - begin);
}

/// Writes items one by one, in any order, and keeps their checksums in the order of the items.
class ItemWriter {
 public:
  ItemWriter(DataStream& stream, std::span<const WriteItem> items, WrittenRanges* ranges, CompressItems compress)
      : stream_(stream), items_(items), ranges_(ranges), if_busy_(compress.if_busy) {
    for (const WriteItem& item : items) {
      first_block_.push_back(written_blocks_.checksums.size());
      written_blocks_.checksums.resize(written_blocks_.checksums.size() + item.block_count());
    }
    if (compress.compression != Compression::none) {
      compressor_.emplace(compress.compression);
      written_blocks_.compressed_sizes.resize(written_blocks_.checksums.size());
    }
  }

  /// @param after  what is written next, or the same
  void write(std::size_t i, std::size_t after) {
    std::size_t next = first_block_[i];
    const WriteItem& written = items_[i];
    written_ = written.dataset.file_offset;
    for_each_content(written, after == i ? nullptr : &items_[after], feed_, [&](const Box& block, auto content) {
      if (!write_compressed(written, content, next)) {
        written_blocks_.checksums[next] = write_block(written, block, content);
      }
      ++next;
      core::failpoint("save.block_written");
    });
    if (written.fills_dataset) {
      fill_up_to(written.dataset.file_offset + volume(written.dataset.shape) * written.dataset.element_size);
    }
  }

  [[nodiscard]] WrittenBlocks take() { return std::move(written_blocks_); }

 private:
  /// Whole chunks alone. False if the block is to be written as it is.
  bool write_compressed(const WriteItem& item, std::span<const std::byte> content, std::size_t number) {
    if (!compressor_ || !item.dataset.compressed || item.source.box.extent != item.dataset.shape ||
        (if_busy_ && !stream_.is_busy())) {
      return false;
    }
    const auto compressed = compressor_->compress(content, item.dataset.element_size);
    if (compressed.size == 0) {
      return false;
    }
    written_blocks_.checksums[number] = xxh3(content);
    written_blocks_.compressed_sizes[number] = compressed.size;
    stream_.write(compressed.padded, item.dataset.file_offset);
    stream_.leave_out(content.size() - compressed.padded.size());
    written_ = item.dataset.file_offset + content.size();
    return true;
  }

  std::uint64_t write_block(const WriteItem& item, const Box& block, std::span<const std::byte> content) {
    digest_.reset();
    for_each_run(block, item.dataset.shape, [&](std::uint64_t first, std::uint64_t count) {
      const std::size_t size = static_cast<std::size_t>(count) * item.dataset.element_size;
      const std::uint64_t offset = item.dataset.file_offset + first * item.dataset.element_size;
      if (item.fills_dataset) {
        fill_up_to(offset);
        written_ = offset + size;
      }
      if (ranges_ != nullptr && size >= kRangeBytes) {
        write_changes(stream_, content.first(size), offset, digest_, *ranges_);
      } else {
        stream_.write(content.first(size), offset, &digest_);
      }
      content = content.subspan(size);
    });
    return digest_.digest();
  }

  /// Zeros from the last byte written up to @p offset: the runs of an item ascend in the file.
  void fill_up_to(std::uint64_t offset) {
    static constexpr std::array<std::byte, 4096> kZeros{};
    while (written_ < offset) {
      const auto zeros = std::span(kZeros).first(std::min<std::uint64_t>(kZeros.size(), offset - written_));
      stream_.write(zeros, written_);
      written_ += zeros.size();
    }
  }

  DataStream& stream_;
  std::span<const WriteItem> items_;
  WrittenRanges* ranges_;      ///< or null
  std::uint64_t written_ = 0;  ///< where the item that fills its dataset has been written up to
  std::optional<Compressor> compressor_;
  bool if_busy_;
  std::vector<std::size_t> first_block_;  ///< by item
  WrittenBlocks written_blocks_;
  Xxh3Stream digest_;
  BlockFeed feed_;
};

/// Calls @p visit(item, offset) for each item that is not empty; returns the size of the whole.
template <class Items, class Visit>
std::size_t for_each_in_copy(Items items, Visit&& visit) {
  // Copied with full cache lines; and large rows so that they can be handed to direct I/O as they are.
  constexpr std::size_t row_alignment = 64;
  constexpr std::size_t large_row = std::size_t{64} << 10U;
  constexpr std::size_t large_row_alignment = 4096;
  std::size_t next = 0;
  for (auto& item : items) {
    const std::size_t size = item.bytes();
    if (size == 0) {
      continue;
    }
    if (!item.continues_row) {
      const std::size_t alignment = size < large_row ? row_alignment : large_row_alignment;
      next = (next + alignment - 1) / alignment * alignment;
    }
    visit(item, next);
    next += size;
  }
  return next;
}

}  // namespace

WrittenRanges::WrittenRanges(Checks checks, std::shared_ptr<const WrittenRanges> before, bool leaves_out)
    : checks_(checks),
      before_(std::move(before)),
      leaves_out_(leaves_out && before_ && checks == Checks::all && before_->checks_ == Checks::all),
      saves_since_all_(leaves_out_ ? before_->saves_since_all_ + 1 : 0) {}

bool WrittenRanges::holds(std::span<const std::byte> bytes, std::uint64_t offset) {
  const std::uint64_t range = offset / kRangeBytes;
  if (bytes.size() != kRangeBytes || offset % kRangeBytes != 0 || (checks_ == Checks::some && !is_sample(range))) {
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
  const std::uint64_t index = range - run->first;
  return index < run->second.size() ? &run->second[static_cast<std::size_t>(index)] : nullptr;
}

/// Without the memory for it the save continues, and nothing is known of what it writes.
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
  last_ = std::make_shared<WrittenRanges>(checks_, std::move(before), leaves_out);
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
      checks_ = WrittenRanges::Checks::some;
    } else if (hundredths > kEnough) {
      checks_ = WrittenRanges::Checks::all;
    }
  }
  last_->before_.reset();
  last_.reset();
}

std::uint64_t WriteItem::run_bytes() const {
  return (fills_dataset ? volume(dataset.shape) : run_length(source.box, dataset.shape)) * dataset.element_size;
}

std::size_t WriteItem::block_count() const { return BlockSplit(source.box, dataset.element_size).count(); }

std::span<const std::byte> BlockFeed::take(const BoxView<const std::byte>& view, const Box& block,
                                           std::size_t element_size) {
  const std::size_t size = bytes_of(block, element_size);
  const std::byte* first = first_of(view, block);
  const bool fits = size <= std::max<std::size_t>(state::Staging::kBufferBytes, element_size);
  if (view.space != nullptr && fits) {
    if (expected_ != first) {
      staging_.begin(*view.space, first, view.strides_bytes, block.extent, element_size);
    }
    expected_ = nullptr;
    return staging_.take();
  }
  if (view.space == nullptr && is_dense(block.extent, view.strides_bytes, element_size)) {
    return {first, size};
  }
  if (buffer_.size() < size) {
    buffer_.resize(size);
  }
  copy_from(view, first, block.extent, element_size, buffer_.data(), dense_strides(block.extent, element_size),
            staging_);
  return {buffer_.data(), size};
}

void BlockFeed::expect(const BoxView<const std::byte>& view, const Box& block, std::size_t element_size) {
  if (view.space != nullptr && bytes_of(block, element_size) <= state::Staging::kBufferBytes) {
    expected_ = first_of(view, block);
    staging_.begin(*view.space, expected_, view.strides_bytes, block.extent, element_size);
  }
}

/// What goes through the page cache comes first: a write there waits for all direct writes that are under way in the
/// file, and holds up the next ones; and the system flushes it while the direct ones are made.
WrittenBlocks write_items(DataStream& stream, std::span<const WriteItem> items, WrittenRanges* ranges,
                          CompressItems compress) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto first_large = std::stable_partition(
      order.begin(), order.end(), [&](std::size_t i) { return items[i].run_bytes() < kLeastDirectBytes; });
  ItemWriter writer(stream, items, ranges, compress);
  for (auto i = order.begin(); i != order.end(); ++i) {
    if (i == first_large) {
      stream.start_writeback();
    }
    const auto after = std::next(i);
    writer.write(*i, after == order.end() ? *i : *after);
  }
  return writer.take();
}

void add_checksums(const WriteItem& item, BlockFeed& feed, std::vector<std::uint64_t>& checksums) {
  for_each_content(item, nullptr, feed, [&](const Box&, auto content) { checksums.push_back(xxh3(content)); });
}

std::vector<std::uint64_t> checksums_of(std::span<const WriteItem> items) {
  std::vector<std::uint64_t> checksums;
  BlockFeed feed;
  for (const WriteItem& item : items) {
    add_checksums(item, feed, checksums);
  }
  return checksums;
}

void check_items(const PosixFile& file, std::span<const WriteItem> items, std::span<const std::uint64_t> checksums) {
  Bytes buffer;
  std::size_t next = 0;
  for (const WriteItem& item : items) {
    const BlockSplit split(item.source.box, item.dataset.element_size);
    for (std::uint64_t i = 0; i < split.count(); ++i) {
      const Box block = split.block(i);
      buffer.resize(bytes_of(block, item.dataset.element_size));
      read_block(file, item.dataset, block, buffer);
      if (xxh3(buffer) != checksums[next++]) {
        throw CorruptError(file.path().string() + " does not hold what was written: elements " + text_of(block) +
                           " of the dataset at byte " + std::to_string(item.dataset.file_offset) + " differ");
      }
    }
  }
}

Region region_of(const WriteItem& item) {
  const Strides strides = dense_strides(item.dataset.shape, item.dataset.element_size);
  Extents span = item.source.box.extent;  // from the first element to the last
  std::ranges::for_each(span, [](std::uint64_t& length) { --length; });
  const auto bytes_to = [&](const Extents& index) {
    return static_cast<std::uint64_t>(state::distance(index, strides, strides.size()));
  };
  return {item.dataset.file_offset + bytes_to(item.source.box.offset), bytes_to(span) + item.dataset.element_size};
}

/// Elements that the range cuts are taken whole, and then cut.
void for_each_piece(const WriteItem& item, std::uint64_t begin, std::uint64_t end, BlockFeed& feed,
                    const UsePiece& use) {
  const Dataset& dataset = item.dataset;
  const std::size_t element_size = dataset.element_size;
  const auto elements_to = [&](std::uint64_t offset, std::size_t rounding) {
    const std::uint64_t bytes = std::max(offset, dataset.file_offset) - dataset.file_offset;
    return std::min((bytes + rounding) / element_size, volume(dataset.shape));
  };
  const std::uint64_t first = elements_to(begin, 0);
  for (const Box& range : boxes_of_range(dataset.shape, first, elements_to(end, element_size - 1) - first)) {
    const Box part = intersection(range, item.source.box);
    if (volume(part.extent) == 0) {
      continue;
    }
    auto content = feed.take(item.source, part, element_size);
    for_each_run(part, dataset.shape, [&](std::uint64_t at, std::uint64_t count) {
      const std::uint64_t offset = dataset.file_offset + at * element_size;
      const auto run = content.first(static_cast<std::size_t>(count) * element_size);
      const std::uint64_t from = std::max(begin, offset);
      use(from, run.subspan(from - offset, std::min(end, offset + run.size()) - from));
      content = content.subspan(run.size());
    });
  }
}

std::uint64_t WritePlan::own_bytes() const { return sum_of(items, &WriteItem::bytes); }

std::uint64_t WritePlan::end_in_file() const {
  std::uint64_t end = 0;
  for (const Variable& variable : variables) {
    end = std::max(end, variable.file_offset + variable.bytes);
  }
  return end;
}

WrittenPart write_directly(const WritePlan& plan) {
  WrittenPart part;
  if (plan.items.empty()) {
    return part;
  }
  check_file_size_limit(plan.file, plan.end_in_file());  // this rank may have another one than rank 0
  part.file.emplace(PosixFile::open_to_write(plan.file));
  DataStream stream(*part.file, plan.io, plan.own_bytes(), plan.least_direct_bytes());
  part.bypasses_page_cache = stream.is_direct();
  part.blocks = write_items(stream, plan.items, plan.ranges.get(), plan.compress);
  stream.finish();
  return part;
}

std::size_t bytes_of_copy(std::span<const WriteItem> items) {
  return for_each_in_copy(items, [](const WriteItem&, std::size_t) {});
}

std::vector<std::uint64_t> copy_items(std::span<WriteItem> items, std::span<std::byte> memory) {
  state::Staging staging;
  for_each_in_copy(items, [&](const WriteItem& item, std::size_t offset) {
    const BoxView<const std::byte>& source = item.source;
    const Strides dense = dense_strides(source.box.extent, item.dataset.element_size);
    copy_from(source, source.data, source.box.extent, item.dataset.element_size, &memory[offset], dense, staging);
  });
  // Only now: if a device fails, the items are as they were.
  std::vector<std::uint64_t> rows;
  for_each_in_copy(items, [&](WriteItem& item, std::size_t offset) {
    item.source.data = &memory[offset];
    item.source.strides_bytes = dense_strides(item.source.box.extent, item.dataset.element_size);
    item.source.space = nullptr;
    if (!item.continues_row) {
      rows.push_back(offset);
    }
  });
  return rows;
}

void StateCopy::take(std::span<WriteItem> items) {
  if (const std::size_t size = bytes_of_copy(items); size > capacity()) {
    memory_ = {};
    memory_ = core::Mapping::of_process(size);
  }
  copy_items(items, memory_.bytes());
}

}  // namespace reprieve::storage
