// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/description.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/mapped_memory.hpp"
#include "core/text.hpp"
#include "storage/format/shared_copies.hpp"
#include "storage/format/texts.hpp"

namespace reprieve::storage {

namespace {

/// HDF5's limit.
constexpr std::size_t kMaxDimensions = 32;
/// The manifest is JSON, and link names are marked as UTF-8. Most texts are ASCII, and there can be very many.
void check_utf8(const std::string& text, const std::string& name, const char* what) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    return;
  }
  try {
    static_cast<void>(nlohmann::json(text).dump());
  } catch (const nlohmann::json::exception&) {
    const std::string of_variable = &text == &name ? "" : "variable '" + name + "': ";
    throw UsageError(of_variable + what + " '" + text + "' is not valid UTF-8");
  }
}

LocalVariable collect_array(const std::string& name, const state::Variable& variable, const devices::Spaces& spaces) {
  DistributedArray array = variable.describe();
  state::check_array(name, array, spaces, variable.space.get());
  LocalVariable local;
  local.description.name = name;
  local.description.distribution = variable.distribution;
  local.description.type = array.type;
  local.description.shape = std::move(array.global_shape);
  local.description.is_shared = variable.shared;
  for (MemoryBox& box : array.boxes) {
    if (volume(box.extent) > 0) {
      local.views.push_back(view_of<const std::byte>(std::move(box), array.type.size_bytes));
      local.description.boxes.push_back(local.views.back().box);
    }
  }
  return local;
}

/// What an access finds wrong with its memory, it says without the name of the variable.
std::span<const std::byte> bytes_of(const std::string& name, ValueAccess& value) {
  try {
    return value.bytes();
  } catch (const UsageError& error) {
    const std::string what = error.what();
    throw UsageError(what.find("'" + name + "'") == std::string::npos ? "variable '" + name + "': " + what : what);
  }
}

LocalVariable collect_value(const std::string& name, const state::Variable& variable, const devices::Spaces& spaces) {
  ValueAccess& value = *variable.value;
  const ElementType type = value.type();
  MemorySpace* const named = space_to_check(value, variable.space.get());
  const std::span<const std::byte> bytes = bytes_of(name, value);
  MemorySpace* const space = check_value_memory(name, bytes, spaces, named);
  // The shape of a serialized value follows from its number of bytes; asking for it would serialize once more.
  const bool serialized = type == ElementType{ElementClass::opaque, 1} && value.resizable();
  const Extents shape = serialized ? Extents{bytes.size()} : value.shape();
  std::uint64_t expected = 0;
  if (!checked_bytes(shape, type.size_bytes, expected) || expected != bytes.size()) {
    throw UsageError("variable '" + name + "' has the shape " + core::list_text(shape) + " of " + to_string(type) +
                     ", but " + std::to_string(bytes.size()) + " bytes");
  }
  // One after the other: where memory runs out amid nested braces, GCC 12 destroys some members twice.
  LocalVariable collected;
  collected.description.name = name;
  collected.description.distribution = variable.distribution;
  collected.description.type = type;
  collected.description.shape = shape;
  BoxView<const std::byte>& view = collected.views.emplace_back();
  view.data = bytes.data();
  view.box = whole(shape);
  view.strides_bytes = dense_strides(shape, type.size_bytes);
  view.space = space;
  if (space == nullptr) {
    collected.description.texts = lengths_of(variable, bytes);
  } else if (may_be_texts(variable)) {
    throw UsageError("variable '" + name + "': texts cannot lie in the memory space '" + space->name() +
                     "': register bytes, or a copy on the host");
  }
  return collected;
}

}  // namespace

std::vector<LocalVariable> collect_variables(const Checkpoint::Registry& registry) {
  const devices::Spaces spaces;
  std::vector<LocalVariable> variables;
  variables.reserve(registry.variables.size());
  for (const auto& [name, variable] : registry.variables) {
    check_texts(name, variable.annotation);
    check_member_names(name, variable.members);
    const bool distributed = variable.distribution == state::Distribution::distributed;
    variables.push_back(distributed ? collect_array(name, variable, spaces) : collect_value(name, variable, spaces));
    if (variables.back().description.shape.size() > kMaxDimensions) {
      throw UsageError("variable '" + name + "' has more than " + std::to_string(kMaxDimensions) + " dimensions");
    }
    state::check_dimension_names(name, variable.annotation, variables.back().description.shape.size());
    variables.back().description.annotation = variable.annotation;
    state::check_members(name, variable.members, variables.back().description.type);
    variables.back().description.members = variable.members;
  }
  add_copies(variables);
  return variables;
}

void check_texts(const std::string& name, const Annotation& annotation) {
  check_utf8(name, name, "the variable name");
  check_utf8(annotation.units, name, "the units");
  check_utf8(annotation.description, name, "the description");
  for (const std::string& dim : annotation.dims) {
    check_utf8(dim, name, "the name of a dimension");
  }
}

void check_member_names(const std::string& name, const Members& members) {
  for (const Member& member : members) {
    check_utf8(member.name, name, "the name of a member");
    check_member_names(name, member.members);
  }
}

MemorySpace* space_to_check(ValueAccess& value, MemorySpace* named) {
  return named != nullptr && value.checks_space(named) ? nullptr : named;
}

MemorySpace* check_value_memory(const std::string& name, std::span<const std::byte> memory,
                                const devices::Spaces& spaces, MemorySpace* named) {
  try {
    if (MemorySpace* const space = spaces.find(memory.data(), memory.size(), named)) {
      return space;
    }
  } catch (const UsageError& error) {
    throw UsageError("variable '" + name + "': " + error.what());
  } catch (const StorageError& error) {
    throw StorageError(error.code(), "variable '" + name + "': " + error.what());
  }
  if (!core::is_mapped(memory.data(), memory.size())) {
    throw UsageError("variable '" + name + "': its memory of " + std::to_string(memory.size()) +
                     " bytes is not the program's (any more): it was freed or moved after it was registered. Register "
                     "the container itself, or a function that tells where the memory is");
  }
  return nullptr;
}

}  // namespace reprieve::storage
