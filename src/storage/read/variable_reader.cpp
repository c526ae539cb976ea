// SPDX-License-Identifier: BSD-3-Clause
#include "storage/read/variable_reader.hpp"

#include "reprieve/error.hpp"

namespace reprieve::storage {

VariableReader::VariableReader(const std::filesystem::path& file)
    : file_(PosixFile::open_to_read(file)), seal_(seal_bytes(file_)), index_(read_index(file_)) {}

void VariableReader::read(const std::string& variable, std::uint64_t first, std::span<std::byte> elements) const {
  const StoredVariable* stored = index_.find(variable);
  if (stored == nullptr) {
    throw UsageError(file_.path().string() + " has no variable " + variable);
  }
  const std::uint64_t count = volume(stored->shape);
  if (first > count || elements.size() > (count - first) * stored->type.size_bytes) {
    throw UsageError("the elements asked for are not all in " + variable);
  }
  if (stored->tile.empty()) {
    file_.read_all(elements, stored->file_offset + first * stored->type.size_bytes);
  } else {
    read_tiles(*stored, first, elements);
  }
}

void VariableReader::read_tiles(const StoredVariable& stored, std::uint64_t first,
                                std::span<std::byte> elements) const {
  const std::size_t element_size = stored.type.size_bytes;
  const Dataset dataset = stored.dataset();
  Bytes buffer;
  for (const Box& box : boxes_of_range(stored.shape, first, elements.size() / element_size)) {
    const Strides strides = dense_strides(box.extent, element_size);
    for (const TilePart& part : tile_parts(dataset, box)) {
      buffer.resize(bytes_of(part.within, element_size));
      read_block(file_, part.dataset, part.within, buffer);
      copy_box(elements.data() + displacement(box, strides, part.box.offset), strides, buffer.data(),
               dense_strides(part.within.extent, element_size), part.within.extent, element_size);
    }
    elements = elements.subspan(bytes_of(box, element_size));
  }
}

}  // namespace reprieve::storage
