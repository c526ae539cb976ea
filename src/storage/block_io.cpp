#include "storage/block_io.hpp"

#include "storage/checksum.hpp"

namespace reprieve::storage {

namespace {

std::size_t bytes_of(const Box& block, std::size_t element_size) {
  return static_cast<std::size_t>(volume(block.extent)) * element_size;
}

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

}  // namespace

std::span<const std::byte> dense_block(const BoxView<const std::byte>& view, const Box& block, std::size_t element_size,
                                       Bytes& buffer) {
  const std::size_t size = bytes_of(block, element_size);
  const std::byte* first = view.data + displacement(view.box, view.strides_bytes, block.offset);
  if (is_dense(block.extent, view.strides_bytes, element_size)) {
    return {first, size};
  }
  if (buffer.size() < size) {
    buffer.resize(size);
  }
  copy_box(buffer.data(), dense_strides(block.extent, element_size), first, view.strides_bytes, block.extent,
           element_size);
  return {buffer.data(), size};
}

void write_block(const PosixFile& file, const Dataset& dataset, const Box& block, std::span<const std::byte> content) {
  for_each_run(block, dataset.shape, [&](std::uint64_t first, std::uint64_t count) {
    const std::size_t size = static_cast<std::size_t>(count) * dataset.element_size;
    file.write_all(content.first(size), dataset.file_offset + first * dataset.element_size);
    content = content.subspan(size);
  });
}

void read_block(const PosixFile& file, const Dataset& dataset, const Box& block, std::span<std::byte> content) {
  for_each_run(block, dataset.shape, [&](std::uint64_t first, std::uint64_t count) {
    const std::size_t size = static_cast<std::size_t>(count) * dataset.element_size;
    file.read_all(content.first(size), dataset.file_offset + first * dataset.element_size);
    content = content.subspan(size);
  });
}

std::vector<std::uint64_t> write_items(const PosixFile& file, std::span<const WriteItem> items) {
  std::vector<std::uint64_t> checksums;
  Bytes buffer;
  for_each_block(items, [&](const WriteItem& item, const Box& block) {
    const auto content = dense_block(item.source, block, item.dataset.element_size, buffer);
    checksums.push_back(xxh3(content));
    write_block(file, item.dataset, block, content);
  });
  return checksums;
}

std::vector<std::uint64_t> checksums_of(std::span<const WriteItem> items) {
  std::vector<std::uint64_t> checksums;
  Bytes buffer;
  for_each_block(items, [&](const WriteItem& item, const Box& block) {
    checksums.push_back(xxh3(dense_block(item.source, block, item.dataset.element_size, buffer)));
  });
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
