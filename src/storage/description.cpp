#include "storage/description.hpp"

#include <nlohmann/json.hpp>

namespace reprieve::storage {

namespace {

/// HDF5's limit.
constexpr std::size_t kMaxDimensions = 32;

/// The manifest is JSON, and link names are marked as UTF-8.
void check_utf8(const std::string& name) {
  try {
    static_cast<void>(nlohmann::json(name).dump());
  } catch (const nlohmann::json::exception&) {
    throw UsageError("the variable name '" + name + "' is not valid UTF-8");
  }
}

LocalVariable collect_array(const std::string& name, const state::Variable& variable) {
  const DistributedArray array = variable.describe();
  state::check_array(name, array);
  LocalVariable local{{name, variable.distribution, array.type, array.global_shape, {}}, {}};
  for (const MemoryBox& box : array.boxes) {
    if (volume(box.extent) > 0) {
      local.views.push_back(view_of<const std::byte>(box, array.type.size_bytes));
      local.description.boxes.push_back(local.views.back().box);
    }
  }
  return local;
}

LocalVariable collect_value(const std::string& name, const state::Variable& variable) {
  ValueAccess& value = *variable.value;
  const ElementType type = value.type();
  const std::span<const std::byte> bytes = value.bytes();
  // The shape of bytes follows from their number; asking a serialized value for it would serialize once more.
  const bool plain_bytes = type == ElementType{ElementClass::opaque, 1};
  const Extents shape = plain_bytes ? Extents{bytes.size()} : value.shape();
  std::uint64_t expected = 0;
  if (!checked_bytes(shape, type.size_bytes, expected) || expected != bytes.size()) {
    throw UsageError("variable '" + name + "' has the shape " + text_of(shape) + " of " + to_string(type) + ", but " +
                     std::to_string(bytes.size()) + " bytes");
  }
  return {{name, variable.distribution, type, shape, {}},
          {{bytes.data(), whole(shape), dense_strides(shape, type.size_bytes)}}};
}

}  // namespace

std::vector<LocalVariable> collect_variables(const Checkpoint::Registry& registry) {
  std::vector<LocalVariable> variables;
  variables.reserve(registry.variables.size());
  for (const auto& [name, variable] : registry.variables) {
    check_utf8(name);
    const bool distributed = variable.distribution == state::Distribution::distributed;
    variables.push_back(distributed ? collect_array(name, variable) : collect_value(name, variable));
    if (variables.back().description.shape.size() > kMaxDimensions) {
      throw UsageError("variable '" + name + "' has more than " + std::to_string(kMaxDimensions) + " dimensions");
    }
  }
  return variables;
}

Bytes encode_descriptions(std::span<const LocalVariable> variables) {
  Encoder message;
  message.word(variables.size());
  for (const LocalVariable& variable : variables) {
    const Description& description = variable.description;
    message.text(description.name);
    message.word(static_cast<std::uint64_t>(description.distribution));
    message.word(static_cast<std::uint64_t>(description.type.element_class));
    message.word(description.type.size_bytes);
    message.words(description.shape);
    message.word(description.boxes.size());
    for (const Box& box : description.boxes) {
      message.words(box.offset);
      message.words(box.extent);
    }
  }
  return message.take();
}

std::vector<Description> decode_descriptions(std::span<const std::byte> message) {
  Decoder decoder(message);
  std::vector<Description> descriptions;
  for (std::uint64_t left = decoder.word(); left > 0; --left) {
    Description& description = descriptions.emplace_back();
    description.name = decoder.text();
    description.distribution = static_cast<state::Distribution>(decoder.word());
    description.type.element_class = static_cast<ElementClass>(decoder.word());
    description.type.size_bytes = static_cast<std::uint32_t>(decoder.word());
    description.shape = decoder.words();
    for (std::uint64_t boxes = decoder.word(); boxes > 0; --boxes) {
      Box& box = description.boxes.emplace_back();
      box.offset = decoder.words();
      box.extent = decoder.words();
    }
  }
  return descriptions;
}

}  // namespace reprieve::storage
