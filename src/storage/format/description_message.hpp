// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a rank tells the chief about its variables, as bytes, in two parts. The facts are equal on all ranks that
/// registered the same, so that a digest of them is enough; the numbers are a rank's own.

#include <cstdint>
#include <span>
#include <vector>

#include "storage/bytes/checksum.hpp"
#include "storage/bytes/codec.hpp"
#include "storage/format/description.hpp"

namespace reprieve::storage {

struct DescriptionMessage {
  Bytes facts{};    ///< names, kinds, types, annotations, global shapes, numbers of dimensions
  Bytes numbers{};  ///< boxes, shapes of per-rank values, lengths of texts
};

/// What is kept of a message to tell whether a later one says the same.
struct DescriptionDigest {
  Digest128 facts;
  Digest128 numbers;

  friend bool operator==(const DescriptionDigest&, const DescriptionDigest&) = default;
};
[[nodiscard]] DescriptionDigest digest_of(const DescriptionMessage& message) noexcept;

[[nodiscard]] DescriptionMessage encode_descriptions(std::span<const Description> descriptions);
[[nodiscard]] DescriptionMessage encode_descriptions(std::span<const LocalVariable> variables);
/// @throws Error (internal) if a part is cut short
[[nodiscard]] std::vector<Description> decode_descriptions(std::span<const std::byte> facts,
                                                           std::span<const std::byte> numbers);

/// Adds to @p numbers what the next rank in @p message has of a variable with the facts of @p chiefs: the number of its
/// boxes, then of each its offset and extent; or the shape of its value; and of texts their number and the length of
/// the longest.
void take_numbers(Decoder& message, const Description& chiefs, std::vector<std::uint64_t>& numbers);

void encode_boxes(std::span<const Box> boxes, Encoder& message);
[[nodiscard]] std::vector<Box> decode_boxes(Decoder& message);

}  // namespace reprieve::storage
