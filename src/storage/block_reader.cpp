#include "storage/block_reader.hpp"

namespace reprieve::storage {

namespace {

Dataset dataset_of(const StoredVariable& variable) {
  return {variable.file_offset, variable.shape, variable.type.size_bytes};
}

}  // namespace

std::string BlockReader::region_of(const StoredVariable& variable, const BoxRow& row, const Box& block) {
  const std::string rank = std::to_string(row.rank);
  if (variable.distribution != state::Distribution::per_rank) {
    return (block.extent.empty() ? std::string("the value") : "elements " + text_of(block)) + " written by rank " +
           rank;
  }
  const Box piece{{block.offset[0] - row.offset[0]}, block.extent};
  return "elements " + text_of(piece) + " of the value of rank " + rank;
}

void BlockReader::read_into(const StoredVariable& variable, const Box& block, std::span<std::byte> content) const {
  digest_.reset();
  read_block(file_, dataset_of(variable), block, content, verify_ ? &digest_ : nullptr);
}

std::span<const std::byte> BlockReader::read(const StoredVariable& variable, const Box& block) {
  buffer_.resize(static_cast<std::size_t>(volume(block.extent)) * variable.type.size_bytes);
  read_into(variable, block, buffer_);
  return buffer_;
}

bool BlockReader::matches(const BoxRow& row, std::uint64_t block) const {
  return digest_.digest() == index_.checksums[static_cast<std::size_t>(row.first_checksum + block)];
}

void BlockReader::verify(const StoredVariable& variable, const BoxRow& row, std::uint64_t number,
                         const Box& block) const {
  if (verify_ && !matches(row, number)) {
    throw CorruptError(file_.path().string() + ": variable '" + variable.name +
                       "' is damaged: " + region_of(variable, row, block) + " (checksum differs)");
  }
}

void BlockReader::read_box(const StoredVariable& variable, const BoxRow& row, std::span<std::byte> content) const {
  const BlockSplit split(FileIndex::dataset_box(variable, row), variable.type.size_bytes);
  for (std::uint64_t i = 0; i < split.count(); ++i) {
    const Box block = split.block(i);
    const auto part = content.first(static_cast<std::size_t>(volume(block.extent)) * variable.type.size_bytes);
    read_into(variable, block, part);
    verify(variable, row, i, block);
    content = content.subspan(part.size());
  }
}

void BlockReader::fill(const StoredVariable& variable, const BoxView<std::byte>& target) {
  std::uint64_t missing = volume(target.box.extent);
  const std::vector<std::size_t> boxes = places_of(variable).meeting(target.box);
  for (const std::size_t box : boxes) {
    const Box stored = FileIndex::dataset_box(variable, index_.row(variable, box));
    missing -= std::min(volume(intersection(stored, target.box).extent), missing);
  }
  if (missing > 0) {
    zero_box(target.data, target.strides_bytes, target.box.extent, variable.type.size_bytes);
  }
  for (const std::size_t box : boxes) {
    fill_from(variable, index_.row(variable, box), target);
  }
}

const BoxSearch& BlockReader::places_of(const StoredVariable& variable) {
  if (searched_ != &variable) {
    std::vector<Box> boxes;
    boxes.reserve(variable.box_count);
    for (std::size_t b = 0; b < variable.box_count; ++b) {
      boxes.push_back(FileIndex::dataset_box(variable, index_.row(variable, b)));
    }
    places_.emplace(std::move(boxes));
    searched_ = &variable;
  }
  return *places_;
}

void BlockReader::fill_from(const StoredVariable& variable, const BoxRow& row, const BoxView<std::byte>& target) {
  const std::size_t element_size = variable.type.size_bytes;
  const BlockSplit split(FileIndex::dataset_box(variable, row), element_size);
  for (std::uint64_t i = 0; i < split.count(); ++i) {
    const Box block = split.block(i);
    const Box common = intersection(block, target.box);
    if (volume(common.extent) == 0) {
      continue;
    }
    std::byte* const place = target.data + displacement(target.box, target.strides_bytes, common.offset);
    if (common == block && is_dense(block.extent, target.strides_bytes, element_size)) {
      const std::span content(place, static_cast<std::size_t>(volume(block.extent)) * element_size);
      read_into(variable, block, content);
      verify(variable, row, i, block);
      continue;
    }
    const auto content = read(variable, block);
    verify(variable, row, i, block);
    const Strides strides = dense_strides(block.extent, element_size);
    copy_box(place, target.strides_bytes, content.data() + displacement(block, strides, common.offset), strides,
             common.extent, element_size);
  }
}

}  // namespace reprieve::storage
