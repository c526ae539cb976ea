// SPDX-License-Identifier: BSD-3-Clause
#include "storage/bytes/checksum.hpp"

// With this header the library chooses the instruction set at run time; xxhash.h alone means SSE2.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <new>

namespace reprieve::storage {

namespace {

#if defined(__x86_64__)
[[gnu::target("avx")]] void zero_upper_halves() noexcept { _mm256_zeroupper(); }

/// The dispatched functions of xxHash 0.8.1 return with the upper halves of the AVX registers in use. SSE code of the
/// program, which runs after them on this thread, is then some three times slower, until somebody cleans them.
void clean_registers() noexcept {
  static const bool has_them = __builtin_cpu_supports("avx") != 0;
  if (has_them) {
    zero_upper_halves();
  }
}
#else
void clean_registers() noexcept {}
#endif

}  // namespace

std::uint64_t xxh3(std::span<const std::byte> bytes) noexcept {
  const std::uint64_t hash = XXH3_64bits(bytes.data(), bytes.size());
  clean_registers();
  return hash;
}

Digest128 xxh3_128(std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  clean_registers();
  return {hash.low64, hash.high64};
}

Xxh3Stream::Xxh3Stream() : state_(XXH3_createState()) {
  if (state_ == nullptr) {
    throw std::bad_alloc();
  }
  reset();
}

void Xxh3Stream::reset() noexcept { XXH3_64bits_reset(state_.get()); }

void Xxh3Stream::update(std::span<const std::byte> bytes) noexcept {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
  clean_registers();
}

std::uint64_t Xxh3Stream::digest() const noexcept {
  const std::uint64_t hash = XXH3_64bits_digest(state_.get());
  clean_registers();
  return hash;
}

void Xxh3Stream::Free::operator()(XXH3_state_s* state) const noexcept { XXH3_freeState(state); }

}  // namespace reprieve::storage
