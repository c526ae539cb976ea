// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// XXH3 with 64 bits, the checksum of everything in a checkpoint file; and copies past the processor's cache.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprieve::storage {

/// The checksum of bytes that lie side by side.
[[nodiscard]] std::uint64_t xxh3(std::span<const std::byte> bytes) noexcept;

/// 128 bits that show whether bytes are equal, without a copy of the older ones.
struct Digest128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const Digest128&, const Digest128&) = default;
};
[[nodiscard]] Digest128 xxh3_128(std::span<const std::byte> bytes) noexcept;

/// Pieces of this size stay in the processor's cache between their checksum and what else is done with them. Smaller
/// ones would need more calls of the system.
inline constexpr std::size_t kCachedBytes = std::size_t{256} << 10U;

/// As `std::memcpy`, for bytes that nobody reads for a while: where the processor can do it, they go past its cache,
/// which saves reading the memory before it is written over. @p to has the size of @p from, and they do not overlap.
void streaming_copy(std::span<const std::byte> from, std::span<std::byte> to) noexcept;

/// Which instructions add stripes. All give the same sums.
enum class Xxh3Kernel { plain, avx2, avx512 };
/// The fastest that this processor has.
[[nodiscard]] Xxh3Kernel fastest_xxh3_kernel() noexcept;

/// The checksum of bytes that come in pieces, and that are copied on the way where that is asked for: one pass over
/// the memory takes hardly longer than the copy alone. The library of XXH3 has no such pass. The algorithm is that of
/// its specification (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), without a seed.
class Xxh3Stream {
 public:
  explicit Xxh3Stream(Xxh3Kernel kernel = fastest_xxh3_kernel()) noexcept : kernel_(kernel) { reset(); }
  /// Begins again.
  void reset() noexcept;
  void update(std::span<const std::byte> bytes) noexcept { add(bytes, nullptr); }
  /// The same; also copies the bytes, as `streaming_copy` does.
  void update_and_copy(std::span<const std::byte> from, std::span<std::byte> to) noexcept { add(from, to.data()); }
  [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
  static constexpr std::size_t kMostKept = 256;

  void add(std::span<const std::byte> bytes, std::byte* to) noexcept;
  void keep(std::span<const std::byte> bytes) noexcept;

  Xxh3Kernel kernel_;
  std::size_t kept_ = 0;                      ///< bytes that wait for those behind them
  std::size_t stripes_ = 0;                   ///< that were added since the sums were scrambled
  std::uint64_t total_ = 0;                   ///< bytes
  std::array<std::uint64_t, 8> sums_{};       ///< the accumulators of the specification
  std::array<std::byte, 64> before_{};        ///< the stripe before the kept bytes
  std::array<std::byte, kMostKept> bytes_{};  ///< the kept ones
};

/// `update_and_copy`, or `streaming_copy` without a digest.
inline void copy_and_digest(std::span<const std::byte> from, std::span<std::byte> to, Xxh3Stream* digest) noexcept {
  if (digest != nullptr) {
    digest->update_and_copy(from, to);
  } else {
    streaming_copy(from, to);
  }
}

/// A function that takes one piece after the other: the next bytes of @p to, which are added to @p digest if there is
/// one.
inline auto copying_to(std::span<std::byte> to, Xxh3Stream* digest) noexcept {
  return [to, digest](std::span<const std::byte> piece) mutable {
    copy_and_digest(piece, to.first(piece.size()), digest);
    to = to.subspan(piece.size());
  };
}
/// The same without a copy.
inline auto adding_to(Xxh3Stream& digest) noexcept {
  return [&digest](std::span<const std::byte> piece) { digest.update(piece); };
}

}  // namespace reprieve::storage
