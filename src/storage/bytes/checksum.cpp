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

#include <algorithm>
#include <cstring>

namespace reprieve::storage {

namespace {

constexpr std::size_t kStripe = 64;  ///< also a line of the processor's cache
constexpr std::size_t kWords = kStripe / sizeof(std::uint64_t);
/// Then the sums are scrambled.
constexpr std::size_t kStripesOfBlock = 16;
/// Bytes. Shorter inputs have other algorithms.
constexpr std::size_t kLongestShort = 240;

constexpr std::uint64_t kPrime32 = 0x9E3779B1U;
constexpr std::uint64_t kPrime64 = 0x9E3779B185EBCA87U;
constexpr std::array<std::uint64_t, kWords> kFirstSums{0xC2B2AE3DU,         0x9E3779B185EBCA87U, 0xC2B2AE3D27D4EB4FU,
                                                       0x165667B19E3779F9U, 0x85EBCA77C2B2AE63U, 0x85EBCA77U,
                                                       0x27D4EB2F165667C5U, 0x9E3779B1U};

/// The default secret of the specification.
constexpr std::array<std::uint8_t, 192> kSecret{
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4,
    0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e,
    0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43,
    0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
    0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19,
    0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7,
    0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78,
    0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16,
    0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e};
constexpr std::size_t kScrambleKey = kSecret.size() - kStripe;
constexpr std::size_t kLastStripeKey = kSecret.size() - kStripe - 7;
constexpr std::size_t kMergeKey = 11;

std::uint64_t word_at(const void* bytes, std::size_t i) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, static_cast<const std::byte*>(bytes) + i * sizeof word, sizeof word);
  return word;
}

/// So far ahead the kernels ask for memory: the processor itself does not look into the next page. Measured best.
constexpr std::size_t kAhead = 1024;

/// Stripes that lie side by side.
struct Stripes {
  const std::byte* first = nullptr;
  std::size_t count = 0;
  const std::byte* from = nullptr;  ///< as many lines that are copied beside, or null
  std::byte* to = nullptr;          ///< at the begin of a line
};

using Sums = std::array<std::uint64_t, kWords>;

void scramble(Sums& sums) noexcept {
  for (std::size_t i = 0; i < kWords; ++i) {
    sums[i] = (sums[i] ^ (sums[i] >> 47U) ^ word_at(&kSecret[kScrambleKey], i)) * kPrime32;
  }
}

void add_stripe(Sums& sums, const std::byte* stripe, const std::uint8_t* key) noexcept {
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint64_t word = word_at(stripe, i);
    const std::uint64_t keyed = word ^ word_at(key, i);
    sums[i ^ 1U] += word;
    sums[i] += (keyed & UINT32_MAX) * (keyed >> 32U);
  }
}

// Each kernel adds stripes to the sums, and returns the stripes since the sums were scrambled.

std::size_t add_plain(Sums& sums, std::size_t since, const Stripes& stripes) noexcept {
  for (std::size_t i = 0; i < stripes.count; ++i) {
    add_stripe(sums, stripes.first + i * kStripe, &kSecret[since * sizeof(std::uint64_t)]);
    if (++since == kStripesOfBlock) {
      scramble(sums);
      since = 0;
    }
  }
  if (stripes.from != nullptr) {
    const std::size_t size = stripes.count * kStripe;
    streaming_copy({stripes.from, size}, {stripes.to, size});
  }
  return since;
}

#if defined(__x86_64__)
// NOLINTBEGIN: as the intrinsics want it

[[gnu::target("avx2")]] inline __m256i half(const void* bytes, std::size_t i) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(bytes) + i);
}

[[gnu::target("avx2")]] inline __m256i added(__m256i sums, __m256i words, __m256i key) noexcept {
  const __m256i keyed = _mm256_xor_si256(words, key);
  const __m256i products = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
  return _mm256_add_epi64(sums, _mm256_add_epi64(products, _mm256_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2))));
}

[[gnu::target("avx2")]] inline __m256i scrambled(__m256i sums, __m256i key) noexcept {
  const __m256i prime = _mm256_set1_epi32(static_cast<int>(kPrime32));
  const __m256i mixed = _mm256_xor_si256(_mm256_xor_si256(sums, _mm256_srli_epi64(sums, 47)), key);
  const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime);
  return _mm256_add_epi64(_mm256_mul_epu32(mixed, prime), _mm256_slli_epi64(high, 32));
}

[[gnu::target("avx2")]] std::size_t add_avx2(Sums& sums, std::size_t since, const Stripes& stripes) noexcept {
  __m256i low = half(sums.data(), 0);
  __m256i high = half(sums.data(), 1);
  for (std::size_t i = 0; i < stripes.count; ++i) {
    const std::byte* const stripe = stripes.first + i * kStripe;
    _mm_prefetch(stripe + kAhead, _MM_HINT_T0);
    const std::uint8_t* const key = &kSecret[since * sizeof(std::uint64_t)];
    if (stripes.from != nullptr) {
      auto* const to = reinterpret_cast<__m256i*>(stripes.to + i * kStripe);
      _mm256_stream_si256(to, half(stripes.from + i * kStripe, 0));
      _mm256_stream_si256(to + 1, half(stripes.from + i * kStripe, 1));
    }
    low = added(low, half(stripe, 0), half(key, 0));
    high = added(high, half(stripe, 1), half(key, 1));
    if (++since == kStripesOfBlock) {
      low = scrambled(low, half(&kSecret[kScrambleKey], 0));
      high = scrambled(high, half(&kSecret[kScrambleKey], 1));
      since = 0;
    }
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums.data()), low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums.data()) + 1, high);
  _mm_sfence();  // the copy comes before anything that is written later
  return since;
}

/// The forms without a mask are taken for uses of unset values by g++ 12.
constexpr __mmask8 kAll = 0xFF;
constexpr __mmask16 kAllHalves = 0xFFFF;

[[gnu::target("avx512f")]] std::size_t add_avx512(Sums& sums, std::size_t since, const Stripes& stripes) noexcept {
  const __m512i prime = _mm512_set1_epi32(static_cast<int>(kPrime32));
  const __m512i scramble_key = _mm512_loadu_si512(&kSecret[kScrambleKey]);
  __m512i all = _mm512_loadu_si512(sums.data());
  for (std::size_t i = 0; i < stripes.count; ++i) {
    const std::byte* const stripe = stripes.first + i * kStripe;
    _mm_prefetch(stripe + kAhead, _MM_HINT_T0);
    if (stripes.from != nullptr) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(stripes.to + i * kStripe),
                          _mm512_loadu_si512(stripes.from + i * kStripe));
    }
    const __m512i words = _mm512_loadu_si512(stripe);
    const __m512i keyed = _mm512_xor_si512(words, _mm512_loadu_si512(&kSecret[since * sizeof(std::uint64_t)]));
    const __m512i products = _mm512_maskz_mul_epu32(kAll, keyed, _mm512_maskz_srli_epi64(kAll, keyed, 32));
    const __m512i neighbours =
        _mm512_maskz_shuffle_epi32(kAllHalves, words, static_cast<_MM_PERM_ENUM>(_MM_SHUFFLE(1, 0, 3, 2)));
    all = _mm512_add_epi64(all, _mm512_add_epi64(products, neighbours));
    if (++since == kStripesOfBlock) {
      const __m512i mixed =
          _mm512_xor_si512(_mm512_xor_si512(all, _mm512_maskz_srli_epi64(kAll, all, 47)), scramble_key);
      const __m512i high = _mm512_maskz_mul_epu32(kAll, _mm512_maskz_srli_epi64(kAll, mixed, 32), prime);
      all = _mm512_add_epi64(_mm512_maskz_mul_epu32(kAll, mixed, prime), _mm512_maskz_slli_epi64(kAll, high, 32));
      since = 0;
    }
  }
  _mm512_storeu_si512(sums.data(), all);
  _mm_sfence();  // the copy comes before anything that is written later
  return since;
}

[[gnu::target("avx")]] void zero_upper_halves() noexcept { _mm256_zeroupper(); }
// NOLINTEND

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

std::size_t add_stripes(Xxh3Kernel kernel, Sums& sums, std::size_t since, const Stripes& stripes) noexcept {
#if defined(__x86_64__)
  if (kernel != Xxh3Kernel::plain) {
    since = kernel == Xxh3Kernel::avx512 ? add_avx512(sums, since, stripes) : add_avx2(sums, since, stripes);
    zero_upper_halves();  // the compiler does not where it does not optimise
    return since;
  }
#endif
  return add_plain(sums, since, stripes);
}

std::size_t bytes_to_next_line(const std::byte* address) noexcept {
  return (kStripe - reinterpret_cast<std::uintptr_t>(address) % kStripe) % kStripe;  // NOLINT
}

/// The same, with a copy to any place. Lines there are none of the source: beside a stripe the line is copied that
/// ends behind it.
std::size_t add_and_copy(Xxh3Kernel kernel, Sums& sums, std::size_t since, std::span<const std::byte> stripes,
                         std::byte* to) noexcept {
  const std::size_t shift = bytes_to_next_line(to);
  const std::size_t lines = stripes.size() / kStripe - (shift == 0 ? 0 : 1);
  const auto rest = stripes.subspan(lines * kStripe);
  std::memcpy(to, stripes.data(), shift);
  since = add_stripes(kernel, sums, since, {stripes.data(), lines, stripes.data() + shift, to + shift});
  std::memcpy(to + shift + lines * kStripe, rest.data() + shift, rest.size() - shift);
  return add_stripes(kernel, sums, since, {rest.data(), rest.size() / kStripe});
}

std::uint64_t merged(const Sums& sums, std::uint64_t total) noexcept {
  __extension__ using Product = unsigned __int128;
  std::uint64_t hash = total * kPrime64;
  for (std::size_t i = 0; i < kWords; i += 2) {
    const auto product = static_cast<Product>(sums[i] ^ word_at(&kSecret[kMergeKey], i)) *
                         (sums[i + 1] ^ word_at(&kSecret[kMergeKey], i + 1));
    hash += static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
  }
  hash = (hash ^ (hash >> 37U)) * 0x165667919E3779F9U;
  return hash ^ (hash >> 32U);
}

#if defined(__SSE2__)
void copy_line(const std::byte* from, std::byte* to) noexcept {
  constexpr std::size_t words = kStripe / sizeof(__m128i);
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

void streaming_copy(std::span<const std::byte> from, std::span<std::byte> to) noexcept {
#if defined(__SSE2__)
  const std::size_t before = std::min(bytes_to_next_line(to.data()), from.size());
  const std::size_t end = before + (from.size() - before) / kStripe * kStripe;
  std::memcpy(to.data(), from.data(), before);
  for (std::size_t i = before; i < end; i += kStripe) {
    _mm_prefetch(from.data() + i + kAhead, _MM_HINT_T0);
    copy_line(from.data() + i, to.data() + i);
  }
  _mm_sfence();  // before anything that is written later
  std::memcpy(to.data() + end, from.data() + end, from.size() - end);
#else
  std::memcpy(to.data(), from.data(), from.size());
#endif
}

Xxh3Kernel fastest_xxh3_kernel() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0) {
    return Xxh3Kernel::avx512;
  }
  if (__builtin_cpu_supports("avx2") != 0) {
    return Xxh3Kernel::avx2;
  }
#endif
  return Xxh3Kernel::plain;
}

void Xxh3Stream::reset() noexcept {
  sums_ = kFirstSums;
  kept_ = stripes_ = 0;
  total_ = 0;
}

void Xxh3Stream::keep(std::span<const std::byte> bytes) noexcept {
  std::ranges::copy(bytes, bytes_.begin() + static_cast<std::ptrdiff_t>(kept_));
  kept_ += bytes.size();
}

/// A stripe is added once a byte behind it is there: the last stripe of all has another key.
void Xxh3Stream::add(std::span<const std::byte> bytes, std::byte* to) noexcept {
  total_ += bytes.size();
  const auto keep_first = [&](std::size_t size) {
    keep(bytes.first(size));
    if (to != nullptr) {
      std::ranges::copy(bytes.first(size), to);
      to += size;
    }
    bytes = bytes.subspan(size);
  };
  if (kept_ > 0) {
    keep_first(std::min(kMostKept - kept_, bytes.size()));
    if (bytes.empty()) {
      return;
    }
    stripes_ = add_stripes(kernel_, sums_, stripes_, {bytes_.data(), kMostKept / kStripe});
    std::ranges::copy(std::span(bytes_).last<kStripe>(), before_.begin());
    kept_ = 0;
  }
  if (bytes.size() > kMostKept) {
    const auto whole = bytes.first((bytes.size() - 1) / kStripe * kStripe);
    stripes_ = to == nullptr ? add_stripes(kernel_, sums_, stripes_, {whole.data(), whole.size() / kStripe})
                             : add_and_copy(kernel_, sums_, stripes_, whole, to);
    to = to == nullptr ? nullptr : to + whole.size();
    std::ranges::copy(whole.last<kStripe>(), before_.begin());
    bytes = bytes.subspan(whole.size());
  }
  keep_first(bytes.size());
}

std::uint64_t Xxh3Stream::digest() const noexcept {
  const auto kept = std::span(bytes_).first(kept_);
  if (total_ <= kLongestShort) {
    return xxh3(kept);
  }
  Sums sums = sums_;
  add_stripes(kernel_, sums, stripes_, {kept.data(), (kept.size() - 1) / kStripe});
  std::array<std::byte, 2 * kStripe> end{};  // the last bytes of all
  std::ranges::copy(before_, end.begin());
  const auto last = kept.last(std::min(kept.size(), kStripe));
  std::ranges::copy(last, end.begin() + kStripe);
  add_stripe(sums, end.data() + last.size(), &kSecret[kLastStripeKey]);
  return merged(sums, total_);
}

}  // namespace reprieve::storage
