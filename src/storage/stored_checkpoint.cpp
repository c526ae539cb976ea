#include "storage/stored_checkpoint.hpp"

#include "storage/comparison.hpp"
#include "storage/description.hpp"

namespace reprieve::storage {

using Distribution = state::Distribution;

int StoredPieces::count() const { return checkpoint_.index().metadata.world_size; }

BoxRow StoredPieces::row(int saved_rank) const {
  if (saved_rank < 0 || saved_rank >= count()) {
    throw UsageError("variable '" + variable_.name + "' was saved by " + std::to_string(count()) +
                     " ranks; there is no rank " + std::to_string(saved_rank));
  }
  return checkpoint_.index().row(variable_, static_cast<std::size_t>(saved_rank));
}

Extents StoredPieces::shape(int saved_rank) const { return row(saved_rank).extent; }

std::vector<std::byte> StoredPieces::bytes(int saved_rank) const {
  const BoxRow piece = row(saved_rank);
  std::vector<std::byte> content(static_cast<std::size_t>(volume(piece.extent)) * variable_.type.size_bytes);
  checkpoint_.reader().read_box(variable_, piece, content);
  return content;
}

const PerRankPieces& StoredPieces::of(const std::string& name) const { return checkpoint_.pieces(name); }

const StoredVariable& StoredCheckpoint::find(const std::string& name) const {
  const StoredVariable* const found = index_.find(name);
  if (found == nullptr) {
    throw UsageError("the checkpoint has no variable '" + name + "'");
  }
  return *found;
}

const StoredVariable& StoredCheckpoint::find(const std::string& name, Distribution distribution) const {
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
    names.push_back(variable.name);
  }
  return names;
}

bool StoredCheckpoint::contains(const std::string& name) const { return index_.find(name) != nullptr; }

ElementType StoredCheckpoint::type(const std::string& name) const { return find(name).type; }

Extents StoredCheckpoint::shape(const std::string& name) const {
  const StoredVariable& variable = find(name);
  if (variable.distribution == Distribution::per_rank) {
    throw UsageError("variable '" + name + "' of the checkpoint is per_rank: its values have a shape each");
  }
  return variable.shape;
}

const PerRankPieces& StoredCheckpoint::pieces(const std::string& name) const {
  return pieces_.try_emplace(name, *this, find(name, Distribution::per_rank)).first->second;
}

void StoredCheckpoint::read_value(const std::string& name, ValueAccess& value) const {
  const StoredVariable& variable = find(name, Distribution::replicated);
  throw_unless_fits(name, value_difference(index_, variable, 0, value));
  read_box(variable, 0, value);
  value.commit();
}

void StoredCheckpoint::read_distributed(const std::string& name, const DistributedArray& array) const {
  const StoredVariable& variable = find(name, Distribution::distributed);
  state::check_array(name, array);
  throw_unless_fits(name, array_difference(variable, array));
  fill(variable, array);
}

void StoredCheckpoint::read_box(const StoredVariable& variable, std::size_t box, ValueAccess& value) const {
  const BoxRow row = index_.row(variable, box);
  const auto size = static_cast<std::size_t>(volume(row.extent)) * variable.type.size_bytes;
  const std::span<std::byte> memory = value.prepare(size);
  if (memory.size() != size) {
    throw UsageError("variable '" + variable.name + "' gave memory of " + std::to_string(memory.size()) +
                     " bytes for a value of " + std::to_string(size));
  }
  reader_.read_box(variable, row, memory);
}

void StoredCheckpoint::fill(const StoredVariable& variable, const DistributedArray& array) const {
  for (const MemoryBox& box : array.boxes) {
    if (volume(box.extent) > 0) {
      reader_.fill(variable, view_of<std::byte>(box, array.type.size_bytes));
    }
  }
}

}  // namespace reprieve::storage
