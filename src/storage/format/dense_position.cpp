// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/dense_position.hpp"

namespace reprieve::storage {

std::optional<std::uint64_t> dense_position(std::span<const std::uint64_t> shape, std::span<const std::uint64_t> offset,
                                            std::span<const std::uint64_t> extent, std::size_t element_size) {
  std::uint64_t position = 0;
  std::uint64_t stride = element_size;
  bool is_whole = true;  // in all dimensions so far
  for (std::size_t d = extent.size(); d-- > 0;) {
    if (extent[d] == 0 || (!is_whole && extent[d] > 1)) {
      return std::nullopt;
    }
    is_whole = is_whole && extent[d] == shape[d];
    position += offset[d] * stride;
    stride *= shape[d];
  }
  return position;
}

}  // namespace reprieve::storage
