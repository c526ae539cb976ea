// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/description_message.hpp"

#include <algorithm>

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;
using Words = std::vector<std::uint64_t>;

constexpr std::uint64_t kSharedFlag = 1;
constexpr std::uint64_t kCopyFlag = 2;
constexpr std::uint64_t kAnnotatedFlag = 4;
constexpr std::uint64_t kTextsFlag = 8;
constexpr std::uint64_t kMembersFlag = 16;

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

std::uint64_t flags_of(const Description& description) {
  return (description.is_shared ? kSharedFlag : 0) | (description.is_copy ? kCopyFlag : 0) |
         (description.annotation.is_set() ? kAnnotatedFlag : 0) | (description.texts ? kTextsFlag : 0) |
         (description.members.empty() ? 0 : kMembersFlag);
}

/// Of the shape of a per-rank value only the number of dimensions is the same on all ranks.
void encode_facts(const Description& description, Encoder& message) {
  message.text(description.name);
  message.word(static_cast<std::uint64_t>(description.distribution));
  message.word(static_cast<std::uint64_t>(description.type.element_class));
  message.word(description.type.size_bytes);
  const std::uint64_t flags = flags_of(description);
  message.word(flags);
  if ((flags & kAnnotatedFlag) != 0) {
    encode_annotation(description.annotation, message);
  }
  if ((flags & kMembersFlag) != 0) {
    encode_members(description.members, message);
  }
  const bool is_per_rank = description.distribution == Distribution::per_rank;
  message.words(is_per_rank ? Extents(description.shape.size(), 0) : description.shape);
}

Description decode_facts(Decoder& message) {
  Description description;
  description.name = message.text();
  description.distribution = static_cast<Distribution>(message.word());
  description.type.element_class = static_cast<ElementClass>(message.word());
  description.type.size_bytes = static_cast<std::uint32_t>(message.word());
  const std::uint64_t flags = message.word();
  description.is_shared = (flags & kSharedFlag) != 0;
  description.is_copy = (flags & kCopyFlag) != 0;
  if ((flags & kAnnotatedFlag) != 0) {
    description.annotation = decode_annotation(message);
  }
  if ((flags & kMembersFlag) != 0) {
    description.members = decode_members(message);
  }
  if ((flags & kTextsFlag) != 0) {
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

const Description& description_of(const Description& description) { return description; }
const Description& description_of(const LocalVariable& variable) { return variable.description; }

template <class Variable>
DescriptionMessage encode_all(std::span<const Variable> variables) {
  constexpr std::size_t likely_bytes = 96;  // of the facts of one variable: to grow would be to copy them again
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

}  // namespace

DescriptionMessage encode_descriptions(std::span<const Description> descriptions) { return encode_all(descriptions); }
DescriptionMessage encode_descriptions(std::span<const LocalVariable> variables) { return encode_all(variables); }

DescriptionDigest digest_of(const DescriptionMessage& message) noexcept {
  return {xxh3_128(message.facts), xxh3_128(message.numbers)};
}

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

void take_numbers(Decoder& message, const Description& chiefs, std::vector<std::uint64_t>& numbers) {
  const std::size_t dimensions = chiefs.shape.size();
  if (chiefs.distribution == Distribution::distributed) {
    numbers.push_back(message.word());
    message.plain_words(numbers.back() * 2 * dimensions, numbers);
  }
  if (chiefs.distribution == Distribution::per_rank) {
    message.plain_words(dimensions, numbers);
  }
  if (chiefs.texts) {
    message.plain_words(2, numbers);
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

}  // namespace reprieve::storage
