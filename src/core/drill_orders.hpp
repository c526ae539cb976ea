// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a rehearsal of a preemption (`reprieve drill`) asks of the run that it has started: a file in the run's private
/// directory (run_record.hpp). It works for every program that uses the library, whatever settings it takes.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace reprieve::core {

struct DrillOrders {
  /// Every checkpoint directory is replaced by one of this name inside it: the user's checkpoints are neither restored
  /// nor touched, and the disk is the one that the real run writes to.
  std::string subdirectory;
  /// A notice is there before the first step boundary. What is saved then is the state with which the program goes on
  /// after its restore.
  bool leave_at_once = false;
  /// The state of this step (calls of `run`) is saved, and the run goes on. What it saves from then on stays, whatever
  /// the settings say of old checkpoints.
  std::optional<std::uint64_t> save_at{};
  /// At this step the run saves and leaves, and at its end if that comes first.
  std::optional<std::uint64_t> leave_at{};

  friend bool operator==(const DrillOrders&, const DrillOrders&) = default;
};

/// The orders' file in a run's directory.
inline constexpr const char* kDrillOrdersName = "drill.json";

/// The text of the orders for this process; empty outside of a drill.
std::string read_drill_orders();

/// Nothing for an empty text. @throws ConfigError if it is none that `to_text` makes
std::optional<DrillOrders> parse_drill_orders(const std::string& text);

std::string to_text(const DrillOrders& orders);

}  // namespace reprieve::core
