// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the chief knows of the variables of all ranks: what is equal on all of them once, and the numbers of every rank
/// as nothing but numbers, since there may be very many of them. Pure.

#include <cstdint>
#include <span>
#include <vector>

#include "storage/format/description.hpp"

namespace reprieve::storage {

/// One variable of all ranks.
struct GatheredVariable {
  Description chiefs{};
  std::vector<std::uint64_t> numbers{};  ///< of one rank after the other, see take_numbers

  /// Calls @p visit(rank, offset, extent) for each box of a distributed variable.
  template <class Visit>
  void for_each_box(Visit&& visit) const {
    const std::size_t dimensions = chiefs.shape.size();
    std::size_t rank = 0;
    for (std::span<const std::uint64_t> rest(numbers); !rest.empty(); ++rank) {
      const std::uint64_t count = rest.front();
      rest = rest.subspan(1);
      for (std::uint64_t box = 0; box < count; ++box) {
        visit(rank, rest.first(dimensions), rest.subspan(dimensions, dimensions));
        rest = rest.subspan(2 * dimensions);
      }
    }
  }

  [[nodiscard]] std::vector<Box> boxes() const;
};

struct Gathered {
  std::size_t ranks = 0;
  std::vector<GatheredVariable> variables{};  ///< sorted by name
};

/// @param chiefs  its own descriptions; all ranks have the same facts
/// @param numbers  of each rank, the second part of its message
/// @throws Error (internal) if a message is cut short
[[nodiscard]] Gathered gather_numbers(std::vector<Description> chiefs, std::vector<Bytes> numbers);

}  // namespace reprieve::storage
