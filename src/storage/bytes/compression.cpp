// SPDX-License-Identifier: BSD-3-Clause
#include "storage/bytes/compression.hpp"

#include <algorithm>

#include "reprieve/error.hpp"

#ifdef REPRIEVE_HAS_BLOSC
#include <blosc.h>
#endif

namespace reprieve::storage {

#ifdef REPRIEVE_HAS_BLOSC

namespace {

constexpr int kLevel = 1;  // the next ones take longer than they save
constexpr unsigned kMostSkipped = 16;

}  // namespace

bool can_compress() noexcept { return true; }

Compressor::Compressed Compressor::compress(std::span<const std::byte> chunk, std::size_t element_size) {
  if (skipped_ < std::min(failed_, kMostSkipped)) {
    ++skipped_;
    return {};
  }
  skipped_ = 0;
  const std::size_t most = chunk.size() - chunk.size() / 8;
  buffer_.resize(most + kPageBytes);
  const int written =
      blosc_compress_ctx(kLevel, BLOSC_SHUFFLE, element_size, chunk.size(), chunk.data(), buffer_.data(), most,
                         compression_ == Compression::zstd ? "zstd" : "lz4", 0, 1);
  failed_ = written > 0 ? 0 : failed_ + 1;
  const auto size = static_cast<std::size_t>(std::max(written, 0));
  const std::size_t padded = (size + kPageBytes - 1) / kPageBytes * kPageBytes;
  std::fill(buffer_.begin() + static_cast<std::ptrdiff_t>(size), buffer_.begin() + static_cast<std::ptrdiff_t>(padded),
            std::byte{});
  return {size, std::span(buffer_).first(padded)};
}

bool decompress(std::span<const std::byte> compressed, std::span<std::byte> chunk) {
  std::size_t size = 0;
  return blosc_cbuffer_validate(compressed.data(), compressed.size(), &size) == 0 && size == chunk.size() &&
         blosc_decompress_ctx(compressed.data(), chunk.data(), chunk.size(), 1) == static_cast<int>(chunk.size());
}

#else

bool can_compress() noexcept { return false; }

Compressor::Compressed Compressor::compress(std::span<const std::byte> /*chunk*/, std::size_t /*element_size*/) {
  return {};
}

bool decompress(std::span<const std::byte> /*compressed*/, std::span<std::byte> /*chunk*/) {
  throw MismatchError(
      "the checkpoint has compressed arrays, and this library was built without Blosc; install it "
      "(Debian: libblosc-dev) and build the library again");
}

#endif

}  // namespace reprieve::storage
