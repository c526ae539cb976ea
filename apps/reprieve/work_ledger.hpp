// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which pieces of work are kept, while the events of a run are gone through. Pure.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "run_report.hpp"

namespace reprieve::tool {

class WorkLedger {
 public:
  /// @param spans  of all starts so far; lives as long as this
  explicit WorkLedger(std::vector<WorkSpan>& spans) : spans_(spans) {}

  /// A piece of work of this start is over; nothing has kept it yet.
  void add(const WorkSpan& span);
  /// How many pieces of this start nothing has kept.
  [[nodiscard]] std::size_t open() const noexcept { return open_.size(); }
  [[nodiscard]] const WorkSpan& open_span(std::size_t place) const { return spans_[open_[place]]; }

  /// The first @p count of these are kept.
  void keep(std::size_t count);
  /// No later start goes back behind what is kept.
  void forget_kept() { kept_.clear(); }
  /// A start goes on from @p step: all work beyond it is lost, whatever had kept it.
  void go_back_to(std::uint64_t step);
  /// Work of the start before that nothing had kept, up to @p step, is there again: a near copy held it. Returns how
  /// many steps.
  std::uint64_t bring_back(std::uint64_t step);
  /// The start has ended: this becomes of what nothing has kept.
  void end_start(Fate fate);

 private:
  void take_back(std::vector<std::size_t>& places, std::uint64_t step);
  void split(std::size_t place, std::uint64_t step);

  std::vector<WorkSpan>& spans_;
  std::vector<std::size_t> open_;          ///< places of spans of this start
  std::vector<std::size_t> perhaps_lost_;  ///< of the last start that had some
  std::vector<std::size_t> kept_;          ///< those that a later start can still go back behind, oldest first
};

}  // namespace reprieve::tool
