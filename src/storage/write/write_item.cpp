// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/write_item.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "core/kill_point.hpp"

namespace reprieve::storage {

namespace {

/// Calls @p visit(block) for every block of every item.
template <class Visit>
void for_each_block(std::span<const WriteItem> items, Visit&& visit) {
  for (const WriteItem& item : items) {
    const BlockSplit split(item.source.box, item.dataset.element_size);
    for (std::uint64_t i = 0; i < split.count(); ++i) {
      visit(item, split.block(i));
    }
  }
}

const std::byte* first_of(const BoxView<const std::byte>& view, const Box& block) {
  return view.data + displacement(view.box, view.strides_bytes, block.offset);
}

/// Calls @p visit(block, bytes) for every block of an item: while it looks at one, the next comes from its device.
/// @param next  the item after it, of which the first block is begun; or null
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

/// Writes bytes in pieces that stay in the processor's cache between the checksum and the copy.
void write_run(DataStream& stream, std::span<const std::byte> bytes, std::uint64_t offset, Xxh3Stream& digest) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kCachedBytes));
    digest.update(piece);
    stream.write(piece, offset);
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

/// The same, but for what the file holds already.
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
  ItemWriter(DataStream& stream, std::span<const WriteItem> items, WrittenRanges* ranges)
      : stream_(stream), items_(items), ranges_(ranges) {
    for (const WriteItem& item : items) {
      first_checksum_.push_back(checksums_.size());
      checksums_.resize(checksums_.size() + item.block_count());
    }
  }

  /// @param after  what is written next, or the same
  void write(std::size_t i, std::size_t after) {
    std::size_t next = first_checksum_[i];
    const WriteItem& written = items_[i];
    written_ = written.dataset.file_offset;
    for_each_content(written, after == i ? nullptr : &items_[after], feed_, [&](const Box& block, auto content) {
      checksums_[next++] = write_block(written, block, content);
      core::kill_point(core::KillPoint::save_block_written);
    });
    if (written.fills_dataset) {
      fill_up_to(written.dataset.file_offset + volume(written.dataset.shape) * written.dataset.element_size);
    }
  }

  [[nodiscard]] std::vector<std::uint64_t> take_checksums() { return std::move(checksums_); }

 private:
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
        write_run(stream_, content.first(size), offset, digest_);
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
  WrittenRanges* ranges_;                    ///< or null
  std::uint64_t written_ = 0;                ///< where the item that fills its dataset has been written up to
  std::vector<std::size_t> first_checksum_;  ///< by item
  std::vector<std::uint64_t> checksums_;
  Xxh3Stream digest_;
  BlockFeed feed_;
};

}  // namespace

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
/// file, and holds up the next ones; and the system brings it to the device while the direct ones are made.
std::vector<std::uint64_t> write_items(DataStream& stream, std::span<const WriteItem> items, WrittenRanges* ranges) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto first_large = std::stable_partition(
      order.begin(), order.end(), [&](std::size_t i) { return items[i].run_bytes() < kLeastDirectBytes; });
  ItemWriter writer(stream, items, ranges);
  for (auto i = order.begin(); i != order.end(); ++i) {
    if (i == first_large) {
      stream.start_writeback();
    }
    const auto after = std::next(i);
    writer.write(*i, after == order.end() ? *i : *after);
  }
  return writer.take_checksums();
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
  for_each_block(items, [&](const WriteItem& item, const Box& block) {
    buffer.resize(bytes_of(block, item.dataset.element_size));
    read_block(file, item.dataset, block, buffer);
    if (xxh3(buffer) != checksums[next++]) {
      throw CorruptError(file.path().string() + " does not hold what was written: elements " + text_of(block) +
                         " of the dataset at byte " + std::to_string(item.dataset.file_offset) + " differ");
    }
  });
}

}  // namespace reprieve::storage
