#include "storage/format/description.hpp"

#include <nlohmann/json.hpp>

#include "core/mapped_memory.hpp"
#include "core/text.hpp"
#include "storage/format/shared_copies.hpp"
#include "storage/format/texts.hpp"

namespace reprieve::storage {

namespace {

/// HDF5's limit.
constexpr std::size_t kMaxDimensions = 32;
/// In messages between ranks.
constexpr std::uint64_t kSharedFlag = 1;
constexpr std::uint64_t kCopyFlag = 2;
constexpr std::uint64_t kAnnotatedFlag = 4;
constexpr std::uint64_t kTextsFlag = 8;
constexpr std::uint64_t kMembersFlag = 16;

/// The manifest is JSON, and link names are marked as UTF-8.
void check_utf8(const std::string& text, const std::string& what) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
  } catch (const nlohmann::json::exception&) {
    throw UsageError(what + " '" + text + "' is not valid UTF-8");
  }
}

void encode_annotation(const Annotation& annotation, Encoder& message) {
  message.text(annotation.units);
  message.text(annotation.description);
  message.word(annotation.dims.size());
  for (const std::string& dim : annotation.dims) {
    message.text(dim);
  }
}

Annotation decode_annotation(Decoder& message) {
  Annotation annotation{message.text(), message.text(), {}};
  for (std::uint64_t left = message.word(); left > 0; --left) {
    annotation.dims.push_back(message.text());
  }
  return annotation;
}

LocalVariable collect_array(const std::string& name, const state::Variable& variable) {
  const DistributedArray array = variable.describe();
  state::check_array(name, array);
  LocalVariable local;
  local.description.name = name;
  local.description.distribution = variable.distribution;
  local.description.type = array.type;
  local.description.shape = array.global_shape;
  local.description.is_shared = variable.shared;
  for (const MemoryBox& box : array.boxes) {
    if (volume(box.extent) > 0) {
      local.views.push_back(view_of<const std::byte>(box, array.type.size_bytes));
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

LocalVariable collect_value(const std::string& name, const state::Variable& variable) {
  ValueAccess& value = *variable.value;
  const ElementType type = value.type();
  const std::span<const std::byte> bytes = bytes_of(name, value);
  check_value_memory(name, bytes);
  // The shape of bytes follows from their number; asking a serialized value for it would serialize once more.
  const bool plain_bytes = type == ElementType{ElementClass::opaque, 1};
  const Extents shape = plain_bytes ? Extents{bytes.size()} : value.shape();
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
  collected.description.texts = lengths_of(variable, bytes);
  return collected;
}

}  // namespace

std::vector<LocalVariable> collect_variables(const Checkpoint::Registry& registry) {
  std::vector<LocalVariable> variables;
  variables.reserve(registry.variables.size());
  for (const auto& [name, variable] : registry.variables) {
    check_texts(name, variable.annotation);
    check_member_names(name, variable.members);
    const bool distributed = variable.distribution == state::Distribution::distributed;
    variables.push_back(distributed ? collect_array(name, variable) : collect_value(name, variable));
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
  check_utf8(name, "the variable name");
  check_utf8(annotation.units, "variable '" + name + "': the units");
  check_utf8(annotation.description, "variable '" + name + "': the description");
  for (const std::string& dim : annotation.dims) {
    check_utf8(dim, "variable '" + name + "': the name of a dimension");
  }
}

void check_member_names(const std::string& name, const Members& members) {
  for (const Member& member : members) {
    check_utf8(member.name, "variable '" + name + "': the name of a member");
    check_member_names(name, member.members);
  }
}

void check_value_memory(const std::string& name, std::span<const std::byte> memory) {
  if (!core::is_mapped(memory.data(), memory.size())) {
    throw UsageError("variable '" + name + "': its memory of " + std::to_string(memory.size()) +
                     " bytes is not the program's (any more): it was freed or moved after it was registered. Register "
                     "the container itself, or a function that tells where the memory is");
  }
}

void encode_boxes(std::span<const Box> boxes, Encoder& message) {
  message.word(boxes.size());
  for (const Box& box : boxes) {
    message.words(box.offset);
    message.words(box.extent);
  }
}

std::vector<Box> decode_boxes(Decoder& message) {
  std::vector<Box> boxes;
  for (std::uint64_t left = message.word(); left > 0; --left) {
    Box& box = boxes.emplace_back();
    box.offset = message.words();
    box.extent = message.words();
  }
  return boxes;
}

void encode_members(const Members& members, Encoder& message) {
  message.word(members.size());
  for (const Member& member : members) {
    message.text(member.name);
    message.word(static_cast<std::uint64_t>(member.type.element_class));
    message.word(member.type.size_bytes);
    message.word(member.offset);
    message.words(member.shape);
    encode_members(member.members, message);
  }
}

Members decode_members(Decoder& message) {
  Members members;
  for (std::uint64_t left = message.word(); left > 0; --left) {
    Member& member = members.emplace_back();
    member.name = message.text();
    member.type.element_class = static_cast<ElementClass>(message.word());
    member.type.size_bytes = static_cast<std::uint32_t>(message.word());
    member.offset = message.word();
    member.shape = message.words();
    member.members = decode_members(message);
  }
  return members;
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
    const bool is_annotated = description.annotation != Annotation{};
    message.word((description.is_shared ? kSharedFlag : 0) | (description.is_copy ? kCopyFlag : 0) |
                 (is_annotated ? kAnnotatedFlag : 0) | (description.texts ? kTextsFlag : 0) |
                 (description.members.empty() ? 0 : kMembersFlag));
    if (is_annotated) {
      encode_annotation(description.annotation, message);
    }
    if (!description.members.empty()) {
      encode_members(description.members, message);
    }
    if (description.texts) {
      message.word(description.texts->count);
      message.word(description.texts->longest);
    }
    message.words(description.shape);
    encode_boxes(description.boxes, message);
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
    const std::uint64_t flags = decoder.word();
    description.is_shared = (flags & kSharedFlag) != 0;
    description.is_copy = (flags & kCopyFlag) != 0;
    if ((flags & kAnnotatedFlag) != 0) {
      description.annotation = decode_annotation(decoder);
    }
    if ((flags & kMembersFlag) != 0) {
      description.members = decode_members(decoder);
    }
    if ((flags & kTextsFlag) != 0) {
      TextLengths& texts = description.texts.emplace();
      texts.count = decoder.word();
      texts.longest = decoder.word();
    }
    description.shape = decoder.words();
    description.boxes = decode_boxes(decoder);
  }
  return descriptions;
}

}  // namespace reprieve::storage
