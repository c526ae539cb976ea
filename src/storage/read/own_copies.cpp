// SPDX-License-Identifier: BSD-3-Clause
#include "storage/read/own_copies.hpp"

#include <vector>

#include "storage/format/shared_copies.hpp"

namespace reprieve::storage {

namespace {

/// A per-rank variable that stands beside another one; null if the file has none.
const StoredVariable* beside(const FileIndex& index, const std::string& name) {
  const StoredVariable* const found = index.find(name);
  return found != nullptr && found->is_copy && found->distribution == state::Distribution::per_rank ? found : nullptr;
}

/// The boxes of an array that hold anything, as they were described when they were saved.
std::vector<BoxView<std::byte>> views_of(const DistributedArray& array) {
  std::vector<BoxView<std::byte>> views;
  for (const MemoryBox& box : array.boxes) {
    if (volume(box.extent) > 0) {
      views.push_back(view_of<std::byte>(box, array.type.size_bytes));
    }
  }
  return views;
}

Bytes read_piece(const StoredCheckpoint& stored, const StoredVariable& variable, const BoxRow& row) {
  Bytes content(bytes_of(FileIndex::dataset_box(variable, row), variable.type.size_bytes));
  stored.reader().read_box(variable, row, content);
  return content;
}

}  // namespace

bool has_copies(const FileIndex& index, const StoredVariable& variable, int ranks) {
  return index.metadata.world_size == ranks && beside(index, boxes_name(variable.name)) != nullptr &&
         beside(index, copies_name(variable.name)) != nullptr;
}

bool had_these_boxes(const StoredCheckpoint& stored, const StoredVariable& variable, const DistributedArray& array,
                     int rank) {
  const StoredVariable& boxes = *beside(stored.index(), boxes_name(variable.name));
  const std::vector<Box> present = boxes_of(views_of(array));
  const BoxRow row = stored.index().row(boxes, static_cast<std::size_t>(rank));
  return boxes.type == kBoxWord && row.extent == Extents{present.size(), 2 * variable.shape.size()} &&
         read_piece(stored, boxes, row) == words_of(present);
}

void restore_copies(const StoredCheckpoint& stored, const StoredVariable& variable, const DistributedArray& array,
                    int rank) {
  const FileIndex& index = stored.index();
  const StoredVariable& values = *beside(index, copies_name(variable.name));
  const std::vector<BoxView<std::byte>> views = views_of(array);
  const auto copies = copies_of(boxes_of(views), parts_written_by(index, variable, static_cast<std::uint64_t>(rank)));
  const Bytes content = read_piece(stored, values, index.row(values, static_cast<std::size_t>(rank)));
  std::size_t wanted = 0;
  for (const Copy& copy : copies) {
    wanted += bytes_of(copy.place, variable.type.size_bytes);
  }
  if (values.type != variable.type || wanted != content.size()) {
    throw CorruptError("variable '" + variable.name + "': rank " + std::to_string(rank) + " saved " +
                       std::to_string(content.size()) + " bytes of copies of shared elements, where its boxes have " +
                       std::to_string(wanted));
  }
  state::Staging staging;
  const std::byte* next = content.data();
  for (const Copy& copy : copies) {
    const auto& view = views[copy.box];
    copy_into(view, view.data + displacement(view.box, view.strides_bytes, copy.place.offset), copy.place.extent,
              variable.type.size_bytes, next, dense_strides(copy.place.extent, variable.type.size_bytes), staging);
    next += bytes_of(copy.place, variable.type.size_bytes);
  }
}

}  // namespace reprieve::storage
