// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Boxes whose elements lie side by side in an array. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace reprieve::storage {

/// How far behind the first byte of an array in C order those of a box begin, if they lie side by side there. Takes no
/// memory.
[[nodiscard]] std::optional<std::uint64_t> dense_position(std::span<const std::uint64_t> shape,
                                                          std::span<const std::uint64_t> offset,
                                                          std::span<const std::uint64_t> extent,
                                                          std::size_t element_size);

}  // namespace reprieve::storage
