// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Chunks compressed by Blosc, which sorts the bytes of the elements by significance first. Local, for one thread each.

#include <cstddef>
#include <span>
#include <vector>

#include "reprieve/save.hpp"

namespace reprieve::storage {

/// What is compressed is filled up with zeros to a multiple of it: then it goes past the page cache.
inline constexpr std::size_t kPageBytes = 4096;

/// HDF5's number of the filter that reads such chunks ("Registered Filter Plugins", The HDF Group).
inline constexpr int kBloscFilter = 32001;

/// Whether this library was built with Blosc.
[[nodiscard]] bool can_compress() noexcept;

class Compressor {
 public:
  /// @param compression  not `none`; the library can compress
  explicit Compressor(Compression compression) : compression_(compression) {}

  struct Compressed {
    std::size_t size = 0;
    std::span<const std::byte> padded{};  ///< with the zeros; valid until the next call
  };

  /// The chunk in fewer bytes. Nothing if that saves less than an eighth, or if chunks before were of that kind: then
  /// the next ones are not tried.
  [[nodiscard]] Compressed compress(std::span<const std::byte> chunk, std::size_t element_size);

 private:
  Compression compression_;
  std::vector<std::byte> buffer_;
  unsigned failed_ = 0;   ///< chunks in a row that were tried
  unsigned skipped_ = 0;  ///< chunks since the last that was tried
};

/// Fills @p chunk. False if the bytes are not a chunk of that size. @throws MismatchError without Blosc
[[nodiscard]] bool decompress(std::span<const std::byte> compressed, std::span<std::byte> chunk);

}  // namespace reprieve::storage
