// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/texts.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/bytes.hpp"
#include "reprieve/containers.hpp"

namespace reprieve::storage {

namespace {

using Texts = std::vector<std::string>;
using state::Distribution;

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

}  // namespace

bool may_be_texts(const state::Variable& variable) {
  const ValueAccess& value = *variable.value;
  const bool is_text_of_rank =
      variable.distribution == Distribution::per_rank && value.type() == kText && value.resizable();
  return is_text_of_rank || value.is_text_list();
}

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

namespace {

void arrange_replicated(GatheredVariable& variable) {
  ArrayOfTexts array;
  array.add(*variable.chiefs.texts, volume(variable.chiefs.shape));
  if (const auto length = array.length()) {
    arrange(variable.chiefs, *length);
  }
  variable.numbers.clear();
}

/// The numbers of each rank are the shape of its value, and the number and length of its texts.
void arrange_per_rank(GatheredVariable& variable, std::size_t ranks) {
  const std::size_t dimensions = variable.chiefs.shape.size();
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
    arrange(variable.chiefs, *length);
  }
  const std::size_t kept = variable.chiefs.shape.size();  // a list has the number of its texts, a text nothing
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto shape = of_rank(rank).subspan(length ? dimensions : 0, kept);
    variable.numbers.insert(variable.numbers.end(), shape.begin(), shape.end());
  }
}

}  // namespace

void arrange_texts(Gathered& all) {
  for (GatheredVariable& variable : all.variables) {
    if (variable.chiefs.texts) {
      variable.chiefs.distribution == Distribution::replicated ? arrange_replicated(variable)
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
    // The copies of a replicated value that are not written may be longer than the chief's.
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
