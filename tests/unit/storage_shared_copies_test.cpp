// SPDX-License-Identifier: BSD-3-Clause
// Boxes that may overlap, parted so that every element has one owner.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "storage/format/shared_copies.hpp"

namespace reprieve::storage {
namespace {

std::vector<Box> random_boxes(std::mt19937& random, std::size_t count, std::size_t dimensions) {
  std::uniform_int_distribution<std::uint64_t> offset(0, 6);
  std::uniform_int_distribution<std::uint64_t> extent(1, 5);
  std::vector<Box> boxes(count);
  for (Box& box : boxes) {
    for (std::size_t d = 0; d < dimensions; ++d) {
      box.offset.push_back(offset(random));
      box.extent.push_back(extent(random));
    }
  }
  return boxes;
}

/// Calls @p visit for the index of each element.
template <class Visit>
void for_each_element(const Box& box, Visit&& visit) {
  Extents index(box.extent.size(), 0);
  if (volume(box.extent) == 0) {
    return;
  }
  do {
    Extents at = box.offset;
    for (std::size_t d = 0; d < at.size(); ++d) {
      at[d] += index[d];
    }
    visit(at);
  } while (state::next_index(index, box.extent, index.size()));
}

class SharedCopies : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Dimensions, SharedCopies, testing::Values(1, 2, 3));

TEST_P(SharedCopies, EveryElementIsOwnedOnceByTheFirstBox) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(GetParam()));
  for (int round = 0; round < 100; ++round) {
    const auto boxes = random_boxes(random, 1 + static_cast<std::size_t>(round) % 9, GetParam());
    std::map<Extents, std::size_t> expected;
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      for_each_element(boxes[b], [&](const Extents& at) { expected.try_emplace(at, b); });
    }
    std::map<Extents, std::size_t> owner;
    const auto parts = owned_parts(boxes);
    ASSERT_EQ(parts.size(), boxes.size());
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      for (const Box& part : parts[b]) {
        for_each_element(part, [&](const Extents& at) { EXPECT_TRUE(owner.emplace(at, b).second) << "owned twice"; });
      }
    }
    EXPECT_EQ(owner, expected);
  }
}

TEST_P(SharedCopies, WhatABoxDoesNotOwnIsACopy) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(GetParam() + 10));
  for (int round = 0; round < 100; ++round) {
    const auto boxes = random_boxes(random, 6, GetParam());
    const auto parts = owned_parts(boxes);
    for (const std::size_t first : {0U, 2U, 4U}) {  // each rank has two boxes
      const std::vector<Box> own(boxes.begin() + static_cast<std::ptrdiff_t>(first),
                                 boxes.begin() + static_cast<std::ptrdiff_t>(first + 2));
      std::vector<Box> owned = parts[first];
      owned.insert(owned.end(), parts[first + 1].begin(), parts[first + 1].end());
      std::map<std::pair<std::size_t, Extents>, int> held;
      for (const Copy& copy : copies_of(own, owned)) {
        for_each_element(copy.place, [&](const Extents& at) { ++held[{copy.box, at}]; });
      }
      for (std::size_t b = 0; b < 2; ++b) {
        for (const Box& part : parts[first + b]) {
          for_each_element(part, [&](const Extents& at) { ++held[{b, at}]; });
        }
      }
      std::map<std::pair<std::size_t, Extents>, int> expected;
      for (std::size_t b = 0; b < 2; ++b) {
        for_each_element(own[b], [&](const Extents& at) { expected[{b, at}] = 1; });
      }
      EXPECT_EQ(held, expected);
    }
  }
}

}  // namespace
}  // namespace reprieve::storage
