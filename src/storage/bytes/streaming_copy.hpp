// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Copies that do not stay in the processor's cache.

#include <cstddef>
#include <span>

namespace reprieve::storage {

/// As `std::memcpy`, for bytes that nobody looks at for a while: where the processor can do it, they go past its cache,
/// which saves reading the memory before it is written over. @p to has the size of @p from, and they do not overlap.
void streaming_copy(std::span<const std::byte> from, std::span<std::byte> to) noexcept;

}  // namespace reprieve::storage
