#pragma once

/// @file
/// Copies of memory that are too large for the processor's caches. Safe on any thread.

#include <cstddef>
#include <span>

#include "storage/bytes/checksum.hpp"

namespace reprieve::storage {

/// Copies as many bytes as @p to has, past the caches where the processor can do that. With @p digest, adds to it what
/// was copied: also if @p from changes meanwhile, it is the checksum of the bytes that now lie in @p to.
void copy_streamed(std::span<std::byte> to, const std::byte* from, Xxh3Stream* digest);

}  // namespace reprieve::storage
