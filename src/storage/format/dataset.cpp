// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/dataset.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "storage/format/tiles.hpp"

namespace reprieve::storage {

namespace {

/// Reads the runs of a block in ascending order. Short ones that lie close to each other are read together with what is
/// between them: a call for each would cost more than the bytes. (Data sieving: Thakur, Gropp, Lusk,
/// "Data sieving and collective I/O in ROMIO", 1999.)
class RunReader {
 public:
  RunReader(const PosixFile& file, const Dataset& dataset, const Box& block, ReadFrom from) : file_(file), from_(from) {
    const std::uint64_t run = run_length(block, dataset.shape) * dataset.element_size;
    if (run == 0 || run > kLongestSieved) {
      return;
    }
    const Strides strides = dense_strides(dataset.shape, dataset.element_size);
    const auto offset_of = [&](const Extents& index) {
      return dataset.file_offset + static_cast<std::uint64_t>(state::distance(index, strides, strides.size()));
    };
    Extents last = block.offset;
    for (std::size_t d = 0; d < last.size(); ++d) {
      last[d] += block.extent[d] - 1;
    }
    end_of_block_ = offset_of(last) + dataset.element_size;
    const std::uint64_t hull = end_of_block_ - offset_of(block.offset);
    sieves_ = run < hull && hull <= kMostPerByte * bytes_of(block, dataset.element_size);
  }

  /// Adds what it has read to @p digest, if there is one.
  void read(std::span<std::byte> to, std::uint64_t offset, Xxh3Stream* digest) {
    if (!sieves_) {
      read_bytes(to, offset, digest);
      return;
    }
    if (offset + to.size() > end_) {
      load(offset);
    }
    std::memcpy(to.data(), window_.get() + (offset - begin_), to.size());
    if (digest != nullptr) {
      digest->update(to);
    }
  }

 private:
  static constexpr std::uint64_t kLongestSieved = std::uint64_t{64} << 10U;
  static constexpr std::uint64_t kWindow = std::uint64_t{1} << 20U;
  /// Bytes that are read for one that is wanted.
  static constexpr std::uint64_t kMostPerByte = 8;

  void load(std::uint64_t offset) {
    if (!window_) {
      window_ = std::make_unique_for_overwrite<std::byte[]>(kWindow);
    }
    begin_ = offset;
    end_ = std::min(offset + kWindow, end_of_block_);
    read_bytes({window_.get(), static_cast<std::size_t>(end_ - begin_)}, begin_, nullptr);
  }

  void read_bytes(std::span<std::byte> to, std::uint64_t offset, Xxh3Stream* digest) {
    if (from_ == ReadFrom::cache) {
      file_.read_and_digest(to, offset, digest);
      return;
    }
    file_.read_all_again(to, offset);
    if (digest != nullptr) {
      digest->update(to);
    }
  }

  const PosixFile& file_;
  ReadFrom from_;
  bool sieves_ = false;
  std::uint64_t end_of_block_ = 0;
  std::unique_ptr<std::byte[]> window_;  ///< the file from `begin_` to `end_`
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace

std::optional<std::uint64_t> offset_if_dense(const Dataset& dataset, const Box& block) {
  if (!dataset.tile.empty()) {
    const TilePart part = tile_part(dataset, block);
    return offset_if_dense(part.dataset, part.within);
  }
  if (volume(block.extent) == 0 || run_length(block, dataset.shape) != volume(block.extent)) {
    return std::nullopt;
  }
  const Strides strides = dense_strides(dataset.shape, dataset.element_size);
  return dataset.file_offset + static_cast<std::uint64_t>(state::distance(block.offset, strides, strides.size()));
}

void read_block(const PosixFile& file, const Dataset& dataset, const Box& block, std::span<std::byte> content,
                Xxh3Stream* digest, ReadFrom from) {
  if (!dataset.tile.empty()) {
    const TilePart part = tile_part(dataset, block);
    read_block(file, part.dataset, part.within, content, digest, from);
    return;
  }
  RunReader reader(file, dataset, block, from);
  for_each_run(block, dataset.shape, [&](std::uint64_t first, std::uint64_t count) {
    const auto run = content.first(static_cast<std::size_t>(count) * dataset.element_size);
    reader.read(run, dataset.file_offset + first * dataset.element_size, digest);
    content = content.subspan(run.size());
  });
}

}  // namespace reprieve::storage
