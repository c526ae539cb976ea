// SPDX-License-Identifier: BSD-3-Clause
#include "storage/read/block_reader.hpp"

#include <algorithm>
#include <cstring>

#include "core/log.hpp"
#include "storage/bytes/compression.hpp"

namespace reprieve::storage {

std::string BlockReader::region_of(const StoredVariable& variable, const BoxRow& row, const Box& block) {
  const std::string rank = std::to_string(row.rank);
  if (variable.distribution != state::Distribution::per_rank) {
    return (block.extent.empty() ? std::string("the value") : "elements " + text_of(block)) + " written by rank " +
           rank;
  }
  const Box piece{{block.offset[0] - row.offset[0]}, block.extent};
  return "elements " + text_of(piece) + " of the value of rank " + rank;
}

std::uint64_t BlockReader::expected_digest(const StoredBlock& stored) const {
  return index_.checksums[static_cast<std::size_t>(stored.row.first_checksum + stored.number)];
}

std::uint64_t BlockReader::compressed_size(const StoredBlock& stored) const {
  if (file_ == nullptr || !stored.variable.compressed) {
    return 0;
  }
  const std::uint64_t size =
      index_.compressed_sizes[static_cast<std::size_t>(stored.row.first_checksum + stored.number)];
  const std::size_t element_size = stored.variable.type.size_bytes;
  if (size > 0 &&
      (volume(stored.block.extent) != volume(stored.variable.chunk) || size > bytes_of(stored.block, element_size))) {
    throw CorruptError(name_ + ": variable '" + stored.variable.name + "': an impossible size of compressed " +
                       region_of(stored.variable, stored.row, stored.block));
  }
  return size;
}

bool BlockReader::read_compressed(const StoredBlock& stored, std::uint64_t size, std::span<std::byte> content,
                                  ReadFrom from) const {
  const std::uint64_t offset = chunk_part(stored.variable.dataset(), stored.block).dataset.file_offset;
  compressed_.resize(static_cast<std::size_t>(size));
  if (from == ReadFrom::device) {
    file_->read_all_again(compressed_, offset);
  } else {
    file_->read_all(compressed_, offset);
  }
  if (!decompress(compressed_, content)) {
    return false;
  }
  digest_.update(content);
  return true;
}

void BlockReader::expect(const StoredVariable& variable, const ChunkedSplit& split, std::uint64_t first,
                         std::uint64_t last) const {
  if (!reader_) {
    return;
  }
  const Dataset dataset = variable.dataset();
  const Box last_block = split.block(last);
  const auto begin = offset_if_dense(dataset, split.block(first));
  const auto end = offset_if_dense(dataset, last_block);
  if (begin && end && *begin < *end) {
    reader_->expect(*begin, *end + bytes_of(last_block, dataset.element_size));
  }
}

void BlockReader::read_once(const StoredBlock& stored, std::span<std::byte> content) const {
  digest_.reset();
  Xxh3Stream* const digest = verify_ ? &digest_ : nullptr;
  if (source_ != nullptr) {
    source_->for_each_piece(stored.variable, stored.row, stored.number, content.size(), copying_to(content, digest));
    return;
  }
  if (const std::uint64_t size = compressed_size(stored); size > 0) {
    if (!read_compressed(stored, size, content, ReadFrom::cache) && !verify_) {
      throw CorruptError(name_ + ": variable '" + stored.variable.name +
                         "': " + region_of(stored.variable, stored.row, stored.block) + " cannot be decompressed");
    }
    return;
  }
  const Dataset dataset = stored.variable.dataset();
  const auto offset = offset_if_dense(dataset, stored.block);
  if (!offset || !reader_->read(content, *offset, digest)) {
    read_block(*file_, dataset, stored.block, content, digest);
  }
}

void BlockReader::expect_small(std::uint64_t begin, std::uint64_t end) const noexcept {
  if (reader_) {
    reader_->expect_small(begin, end);
  }
}

std::optional<Region> BlockReader::small_region(const StoredVariable& variable, const BoxRow& row) {
  const std::size_t element_size = variable.type.size_bytes;
  const std::uint64_t elements = volume(row.extent);
  if (elements == 0 || elements > WindowReader::kMostBytes / element_size || !variable.chunk.empty()) {
    return std::nullopt;
  }
  const auto position = variable.distribution == state::Distribution::per_rank
                            ? std::optional(row.offset[0] * element_size)
                            : dense_position(variable.shape, row.offset, row.extent, element_size);
  return position ? std::optional(Region{variable.file_offset + *position, elements * element_size}) : std::nullopt;
}

std::span<const std::byte> BlockReader::small(const StoredVariable& variable, const BoxRow& row) const {
  const auto region = reader_ ? small_region(variable, row) : std::nullopt;
  if (!region) {
    return {};
  }
  const auto bytes = reader_->view(region->offset, region->size);
  if (bytes.empty() || (verify_ && xxh3(bytes) != index_.checksums[static_cast<std::size_t>(row.first_checksum)])) {
    return {};
  }
  if (news_ != nullptr) {
    news_->add(bytes.size());
  }
  return bytes;
}

bool BlockReader::read_small(const StoredVariable& variable, const BoxRow& row, std::span<std::byte> content) const {
  const auto bytes = small(variable, row);
  if (bytes.empty() || bytes.size() != content.size()) {
    return false;
  }
  std::memcpy(content.data(), bytes.data(), bytes.size());
  return true;
}

bool BlockReader::small_is_right(const StoredVariable& variable, const BoxRow& row) const {
  return verify_ && !small(variable, row).empty();
}

bool BlockReader::read_right(const StoredBlock& stored, std::span<std::byte> content) const {
  read_once(stored, content);
  if (news_ != nullptr) {
    news_->add(content.size());
  }
  const std::uint64_t expected = expected_digest(stored);
  if (!verify_ || digest_.digest() == expected) {
    return true;
  }
  if (file_ == nullptr) {
    return false;
  }
  digest_.reset();
  if (const std::uint64_t size = compressed_size(stored); size > 0) {
    static_cast<void>(read_compressed(stored, size, content, ReadFrom::device));
  } else {
    read_block(*file_, stored.variable.dataset(), stored.block, content, &digest_, ReadFrom::device);
  }
  if (digest_.digest() != expected) {
    return false;
  }
  core::log::warning(
      "{}: variable '{}', {}: read with wrong bits, and right when it was read once more; the memory or a disk of this "
      "host may be failing",
      name_, stored.variable.name, region_of(stored.variable, stored.row, stored.block));
  return true;
}

void BlockReader::read_into(const StoredBlock& stored, std::span<std::byte> content) const {
  if (!read_right(stored, content)) {
    throw CorruptError(name_ + ": variable '" + stored.variable.name +
                       "' is corrupt: " + region_of(stored.variable, stored.row, stored.block) + " (checksum differs)");
  }
}

std::span<std::byte> BlockReader::buffer_for(const StoredBlock& stored) {
  buffer_.resize(bytes_of(stored.block, stored.variable.type.size_bytes));
  return buffer_;
}

bool BlockReader::block_is_right(const StoredBlock& stored) {
  const std::size_t size = bytes_of(stored.block, stored.variable.type.size_bytes);
  const auto offset = offset_if_dense(stored.variable.dataset(), stored.block);
  digest_.reset();
  const auto add_to_digest = [&] {
    if (source_ != nullptr) {
      source_->for_each_piece(stored.variable, stored.row, stored.number, size, adding_to(digest_));
      return true;
    }
    return reader_ && offset && compressed_size(stored) == 0 && reader_->digest(*offset, size, digest_);
  };
  if (add_to_digest() && digest_.digest() == expected_digest(stored)) {
    if (news_ != nullptr) {
      news_->add(size);
    }
    return true;
  }
  return read_right(stored, buffer_for(stored));
}

void BlockReader::read_box(const StoredVariable& variable, const BoxRow& row, std::span<std::byte> content,
                           MemorySpace* space) {
  Box box = FileIndex::dataset_box(variable, row);
  Strides dense = dense_strides(box.extent, variable.type.size_bytes);
  fill_from(variable, row, {content.data(), std::move(box), std::move(dense), space});
}

void BlockReader::fill(const StoredVariable& variable, const BoxView<std::byte>& target) {
  if (const auto row = expected_row(variable, target.box)) {
    if (!fill_small(variable, index_.row(variable, *row), target)) {
      fill_from(variable, index_.row(variable, *row), target);
    }
    return;
  }
  std::uint64_t missing = volume(target.box.extent);
  const std::vector<std::size_t> boxes = search_of(variable).intersecting(target.box);
  for (const std::size_t box : boxes) {
    const Box stored = FileIndex::dataset_box(variable, index_.row(variable, box));
    missing -= std::min(volume(intersection(stored, target.box).extent), missing);
  }
  if (missing > 0) {
    zero(target, variable.type.size_bytes);
  }
  for (const std::size_t box : boxes) {
    fill_from(variable, index_.row(variable, box), target);
  }
}

void BlockReader::zero(const BoxView<std::byte>& target, std::size_t element_size) const {
  if (target.space != nullptr) {
    staging_.zero(*target.space, target.data, target.strides_bytes, target.box.extent, element_size);
  } else {
    zero_box(target.data, target.strides_bytes, target.box.extent, element_size);
  }
}

/// The next row of the expected rank, if it is this very box. Boxes of an array do not overlap: then it holds all of
/// it.
std::optional<std::size_t> BlockReader::expected_row(const StoredVariable& variable, const Box& box) {
  if (!expected_rank_ || variable.distribution != state::Distribution::distributed) {
    return std::nullopt;
  }
  if (expected_of_ != &variable) {
    expected_ = index_.rows_of(variable, *expected_rank_, *expected_rank_ + 1);
    expected_of_ = &variable;
  }
  if (expected_.begin == expected_.end) {
    return std::nullopt;
  }
  const BoxRow row = index_.row(variable, expected_.begin);
  if (!std::ranges::equal(row.offset, box.offset) || !std::ranges::equal(row.extent, box.extent)) {
    return std::nullopt;
  }
  return expected_.begin++;
}

bool BlockReader::fill_small(const StoredVariable& variable, const BoxRow& row,
                             const BoxView<std::byte>& target) const {
  const std::size_t element_size = variable.type.size_bytes;
  return target.space == nullptr && is_dense(target.box.extent, target.strides_bytes, element_size) &&
         read_small(variable, row, {target.data, bytes_of(target.box, element_size)});
}

/// What was made for the last variable serves one on the same grid too.
const BoxSearch& BlockReader::search_of(const StoredVariable& variable) {
  if (searched_ == nullptr || (searched_ != &variable && !index_.have_same_boxes(*searched_, variable))) {
    search_.emplace(index_.dataset_boxes(variable));
  }
  searched_ = &variable;
  return *search_;
}

namespace {

/// How many of the blocks, from the first one on, lie inside of the box, and in the file one right behind the other.
/// Of arrays without shared elements others read none of them; blocks that the border of the box cuts are read by
/// neighbours too, through the page cache.
std::size_t run_inside(const Dataset& dataset, const ChunkedSplit& split, std::span<const std::uint64_t> blocks,
                       const Box& box) {
  std::size_t count = 0;
  std::uint64_t end = 0;
  for (; count < blocks.size(); ++count) {
    const Box block = split.block(blocks[count]);
    const auto begin = offset_if_dense(dataset, block);
    if (!begin || (count > 0 && *begin != end) || intersection(block, box) != block) {
      break;
    }
    end = *begin + bytes_of(block, dataset.element_size);
  }
  return count;
}

}  // namespace

void BlockReader::fill_from(const StoredVariable& variable, const BoxRow& row, const BoxView<std::byte>& target) {
  const std::size_t element_size = variable.type.size_bytes;
  const ChunkedSplit split = FileIndex::blocks_of(variable, row);
  const auto blocks = split.intersecting(target.box);
  // What all ranks read comes through the page cache, so that a node asks the device for it once.
  const bool reads_ahead =
      reader_ && blocks.size() > 1 && !variable.compressed && variable.distribution != state::Distribution::replicated;
  std::size_t run_end = 0;  // of the blocks that are read ahead
  for (std::size_t n = 0; n < blocks.size(); ++n) {
    const std::uint64_t i = blocks[n];
    if (reads_ahead && n >= run_end) {
      run_end = n + run_inside(variable.dataset(), split, std::span(blocks).subspan(n), target.box);
      if (run_end > n + 1) {
        expect(variable, split, i, blocks[run_end - 1]);
      }
    }
    const Box block = split.block(i);
    const Box common = intersection(block, target.box);
    if (volume(common.extent) == 0) {
      continue;
    }
    std::byte* const to = target.data + displacement(target.box, target.strides_bytes, common.offset);
    const Strides strides = dense_strides(block.extent, element_size);
    if (target.space != nullptr) {
      const auto content = staging_.buffer_for(*target.space, to, bytes_of(block, element_size));
      read_into({variable, row, i, block}, content);
      staging_.send(*target.space, to, target.strides_bytes,
                    content.data() + displacement(block, strides, common.offset), strides, common.extent, element_size);
      continue;
    }
    if (common == block && is_dense(block.extent, target.strides_bytes, element_size)) {
      const std::span content(to, static_cast<std::size_t>(volume(block.extent)) * element_size);
      read_into({variable, row, i, block}, content);
      continue;
    }
    const std::span<std::byte> content = buffer_for({variable, row, i, block});
    read_into({variable, row, i, block}, content);
    copy_box(to, target.strides_bytes, content.data() + displacement(block, strides, common.offset), strides,
             common.extent, element_size);
  }
}

}  // namespace reprieve::storage
