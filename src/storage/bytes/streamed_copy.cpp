#include "storage/bytes/streamed_copy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace reprieve::storage {

namespace {

void copy_through_caches(std::span<std::byte> to, const std::byte* from, Xxh3Stream* digest) {
  while (!to.empty()) {
    const auto piece = to.first(std::min(to.size(), kCachedBytes));
    std::memcpy(piece.data(), from, piece.size());
    if (digest != nullptr) {
      digest->update(piece);
    }
    to = to.subspan(piece.size());
    from += piece.size();
  }
}

#if defined(__x86_64__)

// The processor fetches ahead within a page, not into the next one: so four pages are read side by side.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 4;
constexpr std::size_t kPiece = kPage * kPages;
constexpr std::size_t kLine = 64;  ///< of a cache
constexpr std::size_t kVector = 32;

bool has_vectors() noexcept {
  static const bool has_them = __builtin_cpu_supports("avx2") != 0;
  return has_them;
}

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i load(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

[[gnu::target("avx2")]] void bring_into_cache(std::byte* to, const std::byte* from) {
  for (std::size_t line = 0; line < kPage; line += kLine) {
    for (std::size_t place = line; place < kPiece; place += kPage) {
      const __m256i first = load(from + place);
      const __m256i second = load(from + place + kVector);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + place), first);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + place + kVector), second);
    }
  }
}

/// @param to    begins at a cache line
/// @param next  what comes next is fetched meanwhile
[[gnu::target("avx2")]] void stream_out(std::byte* to, const std::byte* from, const std::byte* next) {
  for (std::size_t lines = 0; lines < kPage; lines += 2 * kLine) {
    for (std::size_t place = lines; place < kPiece; place += kPage) {
      _mm_prefetch(reinterpret_cast<const char*>(next + place), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(next + place + kLine), _MM_HINT_T0);
      for (std::size_t i = place; i < place + 2 * kLine; i += kVector) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), load(from + i));
      }
    }
  }
}

void copy_past_caches(std::span<std::byte> to, const std::byte* from, Xxh3Stream* digest) {
  alignas(kPage) std::byte cached[kPiece];  // NOLINT(cppcoreguidelines-avoid-c-arrays): not to be set to zero first
  while (to.size() >= kPiece) {
    const std::byte* const next = to.size() >= 2 * kPiece ? from + kPiece : from;
    if (digest != nullptr) {
      bring_into_cache(cached, from);
      digest->update(cached);
    }
    stream_out(to.data(), digest != nullptr ? cached : from, next);
    to = to.subspan(kPiece);
    from += kPiece;
  }
  _mm_sfence();
  copy_through_caches(to, from, digest);
}

#endif

}  // namespace

void copy_streamed(std::span<std::byte> to, const std::byte* from, Xxh3Stream* digest) {
#if defined(__x86_64__)
  if (to.size() >= kPiece && has_vectors()) {
    const std::size_t before_line = (kLine - reinterpret_cast<std::uintptr_t>(to.data()) % kLine) % kLine;
    copy_through_caches(to.first(before_line), from, digest);
    copy_past_caches(to.subspan(before_line), from + before_line, digest);
    return;
  }
#endif
  copy_through_caches(to, from, digest);
}

}  // namespace reprieve::storage
