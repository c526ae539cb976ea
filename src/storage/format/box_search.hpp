// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Finds the boxes of an array that meet another one. Pure.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "storage/format/blocks.hpp"

namespace reprieve::storage {

/// Boxes sorted by where they begin in one dimension, the one in which they begin at the most places: a search looks
/// only at those that begin early enough there, and end late enough.
class BoxSearch {
 public:
  explicit BoxSearch(std::vector<Box> boxes);

  /// Indexes of the boxes that have elements in common with @p wanted, ascending.
  [[nodiscard]] std::vector<std::size_t> meeting(const Box& wanted) const;

 private:
  std::vector<Box> boxes_;
  std::size_t dimension_ = 0;
  std::vector<std::size_t> order_;       ///< of the boxes, by their begin
  std::vector<std::uint64_t> last_end_;  ///< the greatest end of each box in that order and of those before it
};

}  // namespace reprieve::storage
