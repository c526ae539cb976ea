// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Boxes, the slow and obvious way, bytes to fill them with, and bytes of files that change.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "storage/format/blocks.hpp"

namespace reprieve::storage {

/// Calls visit(index) for every index of the box, in C order.
template <class Visit>
void for_each_index(const Box& box, Visit&& visit) {
  Extents index = box.offset;
  for (std::uint64_t left = volume(box.extent); left > 0; --left) {
    visit(index);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < box.offset[d] + box.extent[d]) {
        break;
      }
      index[d] = box.offset[d];
    }
  }
}

/// The same each time.
inline std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937 random(7);  // NOLINT: repeatable
  std::vector<std::byte> bytes(size);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

/// Changes these bits of a byte of a file. To do it again makes the file what it was.
inline void flip(const std::filesystem::path& file, std::uint64_t at, int bits = 0x10) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const int byte = stream.get() ^ bits;
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(static_cast<char>(byte));
  ASSERT_TRUE(stream.good()) << file;
}

}  // namespace reprieve::storage
