// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How a range is split over the ranks.

#include <cstddef>

namespace apps {

/// A contiguous part of a range.
struct Slice {
  std::size_t offset = 0;
  std::size_t size = 0;

  friend bool operator==(const Slice&, const Slice&) = default;
};

/// Part @p index of @p parts of a range of @p total elements: in order, without gaps, sizes differing by at most one.
constexpr Slice slice_of(std::size_t total, std::size_t index, std::size_t parts) {
  const std::size_t base = total / parts;
  const std::size_t longer_parts = total % parts;
  const std::size_t longer_before = index < longer_parts ? index : longer_parts;
  return {index * base + longer_before, base + (index < longer_parts ? 1U : 0U)};
}

}  // namespace apps
