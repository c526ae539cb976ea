// SPDX-License-Identifier: BSD-3-Clause
#include "storage/bytes/streaming_copy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace reprieve::storage {

namespace {

#if defined(__SSE2__)
/// What is written together: a line of the processor's cache.
constexpr std::size_t kLineBytes = 64;

void copy_line(const std::byte* from, std::byte* to) noexcept {
  constexpr std::size_t words = kLineBytes / sizeof(__m128i);
  const auto* const source = reinterpret_cast<const __m128i*>(from);  // NOLINT: as the intrinsics want it
  auto* const target = reinterpret_cast<__m128i*>(to);                // NOLINT
  __m128i line[words];                                                // NOLINT: stays in registers
  for (std::size_t i = 0; i < words; ++i) {
    line[i] = _mm_loadu_si128(source + i);  // NOLINT
  }
  for (std::size_t i = 0; i < words; ++i) {
    _mm_stream_si128(target + i, line[i]);  // NOLINT
  }
}

std::size_t bytes_to_next_line(const std::byte* place) noexcept {
  return (kLineBytes - reinterpret_cast<std::uintptr_t>(place) % kLineBytes) % kLineBytes;  // NOLINT
}
#endif

}  // namespace

void streaming_copy(std::span<const std::byte> from, std::span<std::byte> to) noexcept {
#if defined(__SSE2__)
  const std::size_t before = std::min(bytes_to_next_line(to.data()), from.size());
  const std::size_t end = before + (from.size() - before) / kLineBytes * kLineBytes;
  std::memcpy(to.data(), from.data(), before);
  for (std::size_t i = before; i < end; i += kLineBytes) {
    copy_line(from.data() + i, to.data() + i);
  }
  _mm_sfence();  // before anything that is written later
  std::memcpy(to.data() + end, from.data() + end, from.size() - end);
#else
  std::memcpy(to.data(), from.data(), from.size());
#endif
}

}  // namespace reprieve::storage
