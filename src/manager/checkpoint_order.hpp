// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which of the checkpoints of one prefix is newer. Pure: no files are touched.
///
/// The newest is the one with the greatest run counter, then the greatest save counter (`storage::SaveIdentity`).
/// Neither names nor clocks decide: a program may number its checkpoints as it likes, and count back.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/format/file_metadata.hpp"

namespace reprieve::manager {

enum class Origin {
  foreign,    ///< saved in another directory, and copied here: older than all others, unless it is named
  uncounted,  ///< by a version that did not count: older than those that have counters, by number
  own,
  unreadable,  ///< as new as its number allows, so that a restore comes to it and says that it is damaged
};

/// What decides on the place of one checkpoint.
struct OrderEntry {
  std::uint64_t number = 0;
  Origin origin = Origin::unreadable;
  std::uint64_t run = 0;
  std::uint64_t save = 0;
  std::string directory_id{};

  friend bool operator==(const OrderEntry&, const OrderEntry&) = default;
};

/// The entry of a checkpoint that can be read.
/// @param here  the id of the directory that it lies in; empty if that is not known: then nothing is foreign
OrderEntry order_entry(std::uint64_t number, const std::optional<storage::SaveIdentity>& identity,
                       const std::string& here);

OrderEntry order_entry(const CheckpointInfo& info, const std::string& here);

/// Sorts, with the newest at the end.
void sort_oldest_first(std::vector<OrderEntry>& entries);

/// Takes out those that only a restore by name reads: the foreign ones, if there are others. @pre sorted
void drop_foreign(std::vector<OrderEntry>& entries);

}  // namespace reprieve::manager
