// SPDX-License-Identifier: BSD-3-Clause
#include "storage/read/stored_checkpoint.hpp"

#include <algorithm>

#include "storage/format/description.hpp"
#include "storage/format/shared_copies.hpp"
#include "storage/read/comparison.hpp"

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

class StoredPieces final : public PerRankPieces {
 public:
  StoredPieces(const StoredCheckpoint& checkpoint, const StoredVariable& variable)
      : checkpoint_(checkpoint), variable_(variable) {}

  [[nodiscard]] int count() const override { return checkpoint_.index().metadata.world_size; }
  [[nodiscard]] ElementType type() const override { return type_in_memory(variable_); }
  [[nodiscard]] Extents shape(int saved_rank) const override {
    return is_text_array(variable_) ? Extents{bytes(saved_rank).size()} : to_extents(row(saved_rank).extent);
  }
  [[nodiscard]] std::vector<std::byte> bytes(int saved_rank) const override {
    return checkpoint_.content_of(variable_, row(saved_rank));
  }
  [[nodiscard]] const PerRankPieces& of(const std::string& name) const override { return checkpoint_.pieces(name); }

 private:
  [[nodiscard]] BoxRow row(int saved_rank) const {
    if (saved_rank < 0 || saved_rank >= count()) {
      throw UsageError("variable '" + variable_.name + "' was saved by " + std::to_string(count()) +
                       " ranks; there is no rank " + std::to_string(saved_rank));
    }
    return checkpoint_.index().row(variable_, static_cast<std::size_t>(saved_rank));
  }

  const StoredCheckpoint& checkpoint_;
  const StoredVariable& variable_;
};

}  // namespace

const StoredVariable& StoredCheckpoint::find(const std::string& name) const {
  const StoredVariable* const found = index_.find(name);
  if (found == nullptr) {
    throw UsageError("the checkpoint has no variable '" + name + "'");
  }
  return *found;
}

const StoredVariable& StoredCheckpoint::find(const std::string& name, state::Distribution distribution) const {
  const StoredVariable& found = find(name);
  if (found.distribution != distribution) {
    throw UsageError("variable '" + name + "' of the checkpoint is " + to_string(found.distribution) + ", not " +
                     to_string(distribution));
  }
  return found;
}

std::vector<std::string> StoredCheckpoint::names() const {
  std::vector<std::string> names;
  for (const StoredVariable& variable : index_.variables) {
    if (!variable.is_copy) {
      names.push_back(variable.name);
    }
  }
  return names;
}

bool StoredCheckpoint::contains(const std::string& name) const { return index_.find(name) != nullptr; }

ElementType StoredCheckpoint::type(const std::string& name) const { return type_in_memory(find(name)); }

Extents StoredCheckpoint::shape(const std::string& name) const {
  const StoredVariable& variable = find(name);
  if (variable.distribution == state::Distribution::per_rank) {
    throw UsageError("variable '" + name + "' of the checkpoint is per_rank: its values have a shape each");
  }
  return is_text_array(variable) ? Extents{content_of(variable, index_.row(variable, 0)).size()} : variable.shape;
}

const PerRankPieces& StoredCheckpoint::pieces(const std::string& name) const {
  auto& pieces = pieces_[name];
  if (!pieces) {
    pieces = std::make_unique<StoredPieces>(*this, find(name, state::Distribution::per_rank));
  }
  return *pieces;
}

void StoredCheckpoint::read_value(const std::string& name, ValueAccess& value) const {
  const StoredVariable& variable = find(name, state::Distribution::replicated);
  throw_unless_fits(name, value_difference(index_, variable, 0, value));
  read_box(variable, 0, value);
  value.commit();
}

void StoredCheckpoint::read_distributed(const std::string& name, const DistributedArray& array) const {
  const StoredVariable& variable = find(name, state::Distribution::distributed);
  DistributedArray checked = array;
  state::check_array(name, checked, devices::Spaces());
  throw_unless_fits(name, array_difference(variable, checked));
  fill(variable, checked);
}

void StoredCheckpoint::read_box(const StoredVariable& variable, std::size_t box, ValueAccess& value,
                                const devices::Spaces& spaces, MemorySpace* named) const {
  const BoxRow row = index_.row(variable, box);
  const bool is_padded = is_text_array(variable);
  const Bytes unpadded = is_padded ? content_of(variable, row) : Bytes{};
  const auto size =
      is_padded ? unpadded.size() : static_cast<std::size_t>(volume(row.extent)) * variable.type.size_bytes;
  MemorySpace* const to_check = space_to_check(value, named);
  const std::span<std::byte> memory = value.prepare(size);
  if (memory.size() != size) {
    throw UsageError("variable '" + variable.name + "' gave memory of " + std::to_string(memory.size()) +
                     " bytes for a value of " + std::to_string(size));
  }
  MemorySpace* const space = check_value_memory(variable.name, memory, spaces, to_check);
  if (!is_padded && space == nullptr && reader_.read_small(variable, row, memory)) {
    return;
  }
  if (!is_padded) {
    reader_.read_box(variable, row, memory, space);
    reader_.finish();
  } else if (space == nullptr) {
    std::ranges::copy(unpadded, memory.begin());
  } else {
    state::Staging().copy_in(*space, memory.data(), {1}, unpadded.data(), {1}, {size}, 1);
  }
}

Bytes StoredCheckpoint::content_of(const StoredVariable& variable, const BoxRow& row) const {
  Bytes stored(static_cast<std::size_t>(volume(row.extent)) * variable.type.size_bytes);
  reader_.read_box(variable, row, stored);
  return is_text_array(variable) ? unpadded_texts(variable, stored) : stored;
}

void StoredCheckpoint::fill(const StoredVariable& variable, const DistributedArray& array) const {
  for (const BoxView<std::byte>& view : views_of(array)) {
    reader_.fill(variable, view);
  }
  reader_.finish();
}

bool has_copies(const FileIndex& index, const StoredVariable& variable, int ranks) {
  return index.metadata.world_size == ranks && beside(index, boxes_name(variable.name)) != nullptr &&
         beside(index, copies_name(variable.name)) != nullptr;
}

bool had_these_boxes(const StoredCheckpoint& stored, const StoredVariable& variable, const DistributedArray& array,
                     int rank) {
  const StoredVariable& boxes = *beside(stored.index(), boxes_name(variable.name));
  const std::vector<Box> present = boxes_of(views_of(array));
  const BoxRow row = stored.index().row(boxes, static_cast<std::size_t>(rank));
  return boxes.type == kBoxWord && to_extents(row.extent) == Extents{present.size(), 2 * variable.shape.size()} &&
         stored.content_of(boxes, row) == words_of(present);
}

void restore_copies(const StoredCheckpoint& stored, const StoredVariable& variable, const DistributedArray& array,
                    int rank) {
  const FileIndex& index = stored.index();
  const StoredVariable& values = *beside(index, copies_name(variable.name));
  const std::vector<BoxView<std::byte>> views = views_of(array);
  const auto copies = copies_of(boxes_of(views), parts_written_by(index, variable, static_cast<std::uint64_t>(rank)));
  const Bytes content = stored.content_of(values, index.row(values, static_cast<std::size_t>(rank)));
  const auto size_of = [&](const Copy& copy) { return bytes_of(copy.part, variable.type.size_bytes); };
  const std::uint64_t wanted = sum_of(copies, size_of);
  if (values.type != variable.type || wanted != content.size()) {
    throw CorruptError("variable '" + variable.name + "': rank " + std::to_string(rank) + " saved " +
                       std::to_string(content.size()) + " bytes of copies of shared elements, where its boxes have " +
                       std::to_string(wanted));
  }
  state::Staging staging;
  const std::byte* next = content.data();
  for (const Copy& copy : copies) {
    const auto& view = views[copy.box];
    copy_into(view, view.data + displacement(view.box, view.strides_bytes, copy.part.offset), copy.part.extent,
              variable.type.size_bytes, next, dense_strides(copy.part.extent, variable.type.size_bytes), staging);
    next += size_of(copy);
  }
}

}  // namespace reprieve::storage
