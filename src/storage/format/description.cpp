// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/description.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/log.hpp"
#include "core/values.hpp"
#include "reprieve/containers.hpp"
#include "storage/format/shared_copies.hpp"

namespace reprieve::storage {

namespace {

/// HDF5's limit.
constexpr std::size_t kMaxDimensions = 32;
/// Link names are marked as UTF-8.
void check_utf8(const std::string& text, const std::string& name, const char* what) {
  if (!is_utf8(text)) {
    const std::string of_variable = &text == &name ? "" : "variable '" + name + "': ";
    throw UsageError(of_variable + what + " '" + text + "' is not valid UTF-8");
  }
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

LocalVariable collect_array(const std::string& name, const state::Variable& variable, const devices::Spaces& spaces) {
  LocalVariable local;
  local.description = describe_registration(name, variable);
  DistributedArray array = variable.describe();
  state::check_array(name, array, spaces, variable.space.get());
  local.description.type = array.type;
  local.description.shape = std::move(array.global_shape);
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

using Texts = std::vector<std::string>;

constexpr ElementType kBytes{ElementClass::opaque, 1};
constexpr ElementType kText{ElementClass::text, 1};

/// A text of one byte is a part of a text: the elements of an array have at least two.
constexpr std::uint64_t kLeastLength = 2;
constexpr std::uint64_t kMostLength = std::uint64_t{1} << 20U;
/// How much larger an array may be than the texts themselves.
constexpr std::uint64_t kMostGrowth = 4;
constexpr std::uint64_t kRoomInAnyCase = std::uint64_t{64} << 10U;

/// From the bytes of a value in memory.
Texts texts_in(ElementType type, std::span<const std::byte> bytes) {
  if (type == kText) {
    return {core::to_text(bytes)};
  }
  Texts texts;
  Serializer<Texts>::load(texts, bytes);
  return texts;
}

/// Whether a value is a text, or a list of texts, that may become an array.
bool may_be_texts(const state::Variable& variable) {
  const ValueAccess& value = *variable.value;
  const bool is_text_of_rank =
      variable.distribution == state::Distribution::per_rank && value.type() == kText && value.resizable();
  return is_text_of_rank || value.is_text_list();
}

/// What an array of the texts of a value would need. Nothing for values that are no texts, or that no array can hold.
std::optional<TextLengths> lengths_of(const state::Variable& variable, std::span<const std::byte> bytes) {
  if (!may_be_texts(variable)) {
    return std::nullopt;
  }
  const Texts texts = texts_in(variable.value->type(), bytes);
  TextLengths lengths{texts.size(), 0};
  for (const std::string& text : texts) {
    if (text.ends_with('\0')) {
      return std::nullopt;
    }
    lengths.longest = std::max<std::uint64_t>(lengths.longest, text.size());
  }
  return lengths;
}

LocalVariable collect_value(const std::string& name, const state::Variable& variable, const devices::Spaces& spaces) {
  LocalVariable collected;
  collected.description = describe_registration(name, variable);
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

using Distribution = state::Distribution;
using Words = std::vector<std::uint64_t>;

/// What is equal on all ranks; but of the shape of a per-rank value that is only the number of dimensions.
template <class Facts>
auto equal_facts(Facts& facts) {
  return std::tie(facts.name, facts.distribution, facts.type, facts.is_shared, facts.is_copy, facts.annotation,
                  facts.members);
}

void encode_facts(const Description& description, Encoder& message) {
  message.put(equal_facts(description));
  message.put(description.texts.has_value());
  const bool is_per_rank = description.distribution == Distribution::per_rank;
  message.words(is_per_rank ? Extents(description.shape.size(), 0) : description.shape);
}

Description decode_facts(Decoder& message) {
  Description description;
  auto facts = equal_facts(description);
  message.get(facts);
  if (message.get<bool>()) {
    description.texts.emplace();
  }
  description.shape = message.words();
  return description;
}

void encode_numbers(const Description& description, Encoder& message) {
  if (description.distribution == Distribution::distributed) {
    message.word(description.boxes.size());
    for (const Box& box : description.boxes) {
      message.plain_words(box.offset);
      message.plain_words(box.extent);
    }
  }
  if (description.distribution == Distribution::per_rank) {
    message.plain_words(description.shape);
  }
  if (description.texts) {
    message.word(description.texts->count);
    message.word(description.texts->longest);
  }
}

Extents taken(Decoder& message, std::size_t count) {
  Extents words;
  message.plain_words(count, words);
  return words;
}

void decode_numbers(Decoder& message, Description& description) {
  const std::size_t dimensions = description.shape.size();
  if (description.distribution == Distribution::distributed) {
    for (std::uint64_t left = message.word(); left > 0; --left) {
      Box& box = description.boxes.emplace_back();
      box.offset = taken(message, dimensions);
      box.extent = taken(message, dimensions);
    }
  }
  if (description.distribution == Distribution::per_rank) {
    description.shape = taken(message, dimensions);
  }
  if (description.texts) {
    description.texts->count = message.word();
    description.texts->longest = message.word();
  }
}

/// Adds the next rank's numbers in @p message to @p numbers, for a variable with the facts of @p of_rank_0: the number
/// of its boxes, then the offset and extent of each; or the shape of its value; for texts their number and the length
/// of the longest.
void take_numbers(Decoder& message, const Description& of_rank_0, std::vector<std::uint64_t>& numbers) {
  const std::size_t dimensions = of_rank_0.shape.size();
  if (of_rank_0.distribution == Distribution::distributed) {
    numbers.push_back(message.word());
    message.plain_words(numbers.back() * 2 * dimensions, numbers);
  }
  if (of_rank_0.distribution == Distribution::per_rank) {
    message.plain_words(dimensions, numbers);
  }
  if (of_rank_0.texts) {
    message.plain_words(2, numbers);
  }
}

const Description& description_of(const Description& description) { return description; }
const Description& description_of(const LocalVariable& variable) { return variable.description; }

template <class Variable>
DescriptionMessage encode_all(std::span<const Variable> variables) {
  constexpr std::size_t likely_bytes = 128;  // of the facts of one variable: to grow would be to copy them again
  Encoder facts;
  Encoder numbers;
  facts.reserve(variables.size() * likely_bytes);
  facts.word(variables.size());
  for (const Variable& variable : variables) {
    encode_facts(description_of(variable), facts);
    encode_numbers(description_of(variable), numbers);
  }
  return {facts.take(), numbers.take()};
}

/// What an array of all texts of a variable would need.
class ArrayOfTexts {
 public:
  /// @param bytes  that the texts take in memory
  void add(const TextLengths& texts, std::uint64_t bytes) {
    length_ = std::max(length_, texts.longest);
    count_ += texts.count;
    bytes_ += bytes;
  }
  /// The length of its elements, if there should be one.
  [[nodiscard]] std::optional<std::uint64_t> length() const {
    const bool is_small = length_ <= kMostLength && count_ <= (kRoomInAnyCase + kMostGrowth * bytes_) / length_;
    return is_small ? std::optional(length_) : std::nullopt;
  }

 private:
  std::uint64_t length_ = kLeastLength;
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

/// The shape and the type of the value in the file.
void arrange(Description& description, std::uint64_t length) {
  const bool is_list = description.type == kBytes;
  description.shape = is_list ? Extents{description.texts ? description.texts->count : 0} : Extents{};
  description.type = {ElementClass::text, static_cast<std::uint32_t>(length)};
  if (!is_list) {
    Annotation annotation = description.annotation;
    annotation.dims.clear();  // the one dimension of the dataset is that of the ranks
    description.annotation = std::move(annotation);
  }
}

void arrange_replicated(GatheredVariable& variable) {
  ArrayOfTexts array;
  array.add(*variable.of_rank_0.texts, volume(variable.of_rank_0.shape));
  if (const auto length = array.length()) {
    arrange(variable.of_rank_0, *length);
  }
  variable.numbers.clear();
}

/// The numbers of each rank are the shape of its value, and the number and length of its texts.
void arrange_per_rank(GatheredVariable& variable, std::size_t ranks) {
  const std::size_t dimensions = variable.of_rank_0.shape.size();
  const std::vector<std::uint64_t> all = std::exchange(variable.numbers, {});
  const auto of_rank = [&](std::size_t rank) {
    return std::span(all).subspan(rank * (dimensions + 2), dimensions + 2);
  };
  ArrayOfTexts array;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto numbers = of_rank(rank);
    array.add({numbers[dimensions], numbers[dimensions + 1]}, volume(numbers.first(dimensions)));
  }
  const auto length = array.length();
  if (length) {
    arrange(variable.of_rank_0, *length);
  }
  const std::size_t kept = variable.of_rank_0.shape.size();  // a list has the number of its texts, a text nothing
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto shape = of_rank(rank).subspan(length ? dimensions : 0, kept);
    variable.numbers.insert(variable.numbers.end(), shape.begin(), shape.end());
  }
}

}  // namespace

bool is_utf8(const std::string& text) {
  // Most texts are ASCII, and there can be very many.
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    return true;
  }
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

Description describe_registration(const std::string& name, const state::Variable& variable) {
  check_texts(name, variable.annotation);
  check_member_names(name, variable.members);
  Description description;
  description.name = name;
  description.distribution = variable.distribution;
  description.is_shared = variable.shared;
  description.annotation = variable.annotation;
  description.members = variable.members;
  return description;
}

std::vector<LocalVariable> collect_variables(const Checkpoint::Registry& registry) {
  const devices::Spaces spaces;
  std::vector<LocalVariable> variables;
  variables.reserve(registry.variables.size());
  run_for_all(registry.variables, [&](const auto& entry) {
    const auto& [name, variable] = entry;
    const bool distributed = variable.distribution == state::Distribution::distributed;
    variables.push_back(distributed ? collect_array(name, variable, spaces) : collect_value(name, variable, spaces));
    const Description& description = variables.back().description;
    if (description.shape.size() > kMaxDimensions) {
      throw UsageError("variable '" + name + "' has more than " + std::to_string(kMaxDimensions) + " dimensions");
    }
    state::check_dimension_names(name, variable.annotation, description.shape.size());
    state::check_members(name, variable.members, description.type);
  });
  add_copies(variables);
  return variables;
}

std::vector<LocalVariable> collect_replicated(const Checkpoint::Registry& registry) {
  const devices::Spaces spaces;
  std::vector<LocalVariable> variables;
  for (const auto& [name, variable] : registry.variables) {
    if (variable.distribution == state::Distribution::replicated &&
        variable.value->type().element_class != ElementClass::opaque) {
      variables.push_back(collect_value(name, variable, spaces));
    }
  }
  return variables;
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
  if (!spaces.is_mapped(memory.data(), memory.size())) {
    throw UsageError(
        "variable '" + name + "': its memory of " + std::to_string(memory.size()) +
        " bytes is not the program's, or no longer: it was freed or moved after it was registered. Register "
        "the container itself, or a function that returns where the memory is");
  }
  return nullptr;
}

DescriptionMessage encode_descriptions(std::span<const Description> descriptions) { return encode_all(descriptions); }
DescriptionMessage encode_descriptions(std::span<const LocalVariable> variables) { return encode_all(variables); }

std::vector<Description> decode_descriptions(std::span<const std::byte> facts, std::span<const std::byte> numbers) {
  constexpr std::size_t least_bytes = 48;  // of the facts of one variable
  Decoder from_facts(facts);
  Decoder from_numbers(numbers);
  std::vector<Description> descriptions;
  std::uint64_t left = from_facts.word();
  descriptions.reserve(std::min<std::uint64_t>(left, facts.size() / least_bytes));
  for (; left > 0; --left) {
    descriptions.push_back(decode_facts(from_facts));
    decode_numbers(from_numbers, descriptions.back());
  }
  return descriptions;
}

std::vector<Box> GatheredVariable::boxes() const {
  std::vector<Box> boxes;
  for_each_box([&](std::size_t, std::span<const std::uint64_t> offset, std::span<const std::uint64_t> extent) {
    boxes.push_back({to_extents(offset), to_extents(extent)});
  });
  return boxes;
}

Gathered gather_numbers(std::vector<Description> of_rank_0, std::vector<DescriptionMessage> messages) {
  Gathered all{messages.size()};
  all.variables.reserve(of_rank_0.size());
  for (Description& description : of_rank_0) {
    all.variables.push_back({std::move(description)});
  }
  for (DescriptionMessage& of_rank : messages) {
    const Bytes message =
        std::exchange(of_rank.numbers, {});  // freed here: both forms at once would be twice the memory
    Decoder decoder(message);
    for (GatheredVariable& variable : all.variables) {
      const bool is_first = variable.numbers.empty();
      take_numbers(decoder, variable.of_rank_0, variable.numbers);
      if (is_first) {
        variable.numbers.reserve(variable.numbers.size() * all.ranks);  // enough if all ranks have as much
      }
    }
  }
  return all;
}

void arrange_texts(Gathered& all) {
  for (GatheredVariable& variable : all.variables) {
    if (variable.of_rank_0.texts) {
      variable.of_rank_0.distribution == Distribution::replicated ? arrange_replicated(variable)
                                                                  : arrange_per_rank(variable, all.ranks);
    }
  }
}

void pad_texts(LocalVariable& variable, std::uint64_t length) {
  const std::span<const std::byte> bytes(variable.views.front().data,
                                         static_cast<std::size_t>(volume(variable.description.shape)));
  const Texts texts = texts_in(variable.description.type, bytes);
  Bytes content(texts.size() * static_cast<std::size_t>(length));
  std::byte* next = content.data();
  for (const std::string& text : texts) {
    // The copies of a replicated value that are not written may be longer than rank 0's.
    std::memcpy(next, text.data(), std::min<std::size_t>(text.size(), length));
    next += length;
  }
  arrange(variable.description, length);
  variable.content = std::move(content);
  const Extents& shape = variable.description.shape;
  variable.views = {{variable.content.data(), whole(shape), dense_strides(shape, length)}};
}

bool is_text_array(const StoredVariable& variable) {
  return variable.type.element_class == ElementClass::text && variable.type.size_bytes > 1;
}

bool is_list_of_texts(const StoredVariable& variable) {
  return variable.distribution != Distribution::per_rank || variable.piece_dimensions == 1;
}

ElementType type_in_memory(const StoredVariable& variable) {
  if (!is_text_array(variable)) {
    return variable.type;
  }
  return is_list_of_texts(variable) ? kBytes : kText;
}

Bytes unpadded_texts(const StoredVariable& variable, std::span<const std::byte> stored) {
  Texts texts;
  for (std::size_t at = 0; at < stored.size(); at += variable.type.size_bytes) {
    std::string text = core::to_text(stored.subspan(at, variable.type.size_bytes));
    text.resize(text.find_last_not_of('\0') + 1);
    texts.push_back(std::move(text));
  }
  if (is_list_of_texts(variable)) {
    return Serializer<Texts>::save(texts);
  }
  const auto bytes = std::as_bytes(std::span(texts.front()));
  return {bytes.begin(), bytes.end()};
}

}  // namespace reprieve::storage
