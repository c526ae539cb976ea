// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// XXH3 with 64 bits, the checksum of everything in a checkpoint file.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct XXH3_state_s;

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

/// Pieces of this size stay in the processor's cache between their checksum and what else is done with them.
inline constexpr std::size_t kCachedBytes = std::size_t{128} << 10U;

/// The same, of bytes that come in pieces.
class Xxh3Stream {
 public:
  Xxh3Stream();
  /// Begins again.
  void reset() noexcept;
  void update(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace reprieve::storage
