// SPDX-License-Identifier: BSD-3-Clause
#include "storage/read/stored_checkpoint.hpp"

#include <algorithm>

#include "storage/format/description.hpp"
#include "storage/format/texts.hpp"
#include "storage/read/comparison.hpp"

namespace reprieve::storage {

int StoredPieces::count() const { return checkpoint_.index().metadata.world_size; }

BoxRow StoredPieces::row(int saved_rank) const {
  if (saved_rank < 0 || saved_rank >= count()) {
    throw UsageError("variable '" + variable_.name + "' was saved by " + std::to_string(count()) +
                     " ranks; there is no rank " + std::to_string(saved_rank));
  }
  return checkpoint_.index().row(variable_, static_cast<std::size_t>(saved_rank));
}

ElementType StoredPieces::type() const { return type_in_memory(variable_); }

Extents StoredPieces::shape(int saved_rank) const {
  return is_text_array(variable_) ? Extents{bytes(saved_rank).size()} : row(saved_rank).extent;
}

std::vector<std::byte> StoredPieces::bytes(int saved_rank) const {
  return checkpoint_.content_of(variable_, row(saved_rank));
}

const PerRankPieces& StoredPieces::of(const std::string& name) const { return checkpoint_.pieces(name); }

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
  return pieces_.try_emplace(name, *this, find(name, state::Distribution::per_rank)).first->second;
}

void StoredCheckpoint::read_value(const std::string& name, ValueAccess& value) const {
  const StoredVariable& variable = find(name, state::Distribution::replicated);
  throw_unless_fits(name, value_difference(index_, variable, 0, value));
  read_box(variable, 0, value);
  value.commit();
}

void StoredCheckpoint::read_distributed(const std::string& name, const DistributedArray& array) const {
  const StoredVariable& variable = find(name, state::Distribution::distributed);
  DistributedArray placed = array;
  state::check_array(name, placed, devices::Spaces());
  throw_unless_fits(name, array_difference(variable, placed));
  fill(variable, placed);
}

void StoredCheckpoint::read_box(const StoredVariable& variable, std::size_t box, ValueAccess& value,
                                MemorySpace* named) const {
  const BoxRowView row = index_.view(variable, box);
  const bool is_padded = is_text_array(variable);
  const Bytes unpadded = is_padded ? content_of(variable, index_.row(variable, box)) : Bytes{};
  const auto size =
      is_padded ? unpadded.size() : static_cast<std::size_t>(volume(row.extent)) * variable.type.size_bytes;
  MemorySpace* const to_check = space_to_check(value, named);
  const std::span<std::byte> memory = value.prepare(size);
  if (memory.size() != size) {
    throw UsageError("variable '" + variable.name + "' gave memory of " + std::to_string(memory.size()) +
                     " bytes for a value of " + std::to_string(size));
  }
  MemorySpace* const space = check_value_memory(variable.name, memory, devices::Spaces(), to_check);
  if (!is_padded && space == nullptr && reader_.read_small(variable, row, memory)) {
    return;
  }
  if (!is_padded) {
    reader_.read_box(variable, index_.row(variable, box), memory, space);
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
  for (const MemoryBox& box : array.boxes) {
    if (volume(box.extent) > 0) {
      reader_.fill(variable, view_of<std::byte>(box, array.type.size_bytes));
    }
  }
  reader_.finish();
}

}  // namespace reprieve::storage
