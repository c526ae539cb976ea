#pragma once

/// @file
/// What a handler does besides its work when `reprieve drill` rehearses a preemption: a notice that is there from the
/// start, and what the drill wants to know. Without a drill nothing here does anything.

#include <chrono>
#include <cstdint>
#include <optional>

#include "cluster/communicator.hpp"
#include "core/drill_orders.hpp"
#include "handler/run_log.hpp"
#include "termination/poller.hpp"

namespace reprieve::handler {

class Rehearsal {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param orders  of the drill, if this is one
  Rehearsal(std::optional<core::DrillOrders> orders, RunLog& log) : orders_(std::move(orders)), log_(log) {}

  /// The handler is ready. Where a restart is rehearsed, the chief has a notice from now on.
  void begin(bool is_chief);
  [[nodiscard]] const std::optional<termination::LocalNotice>& notice() const noexcept { return notice_; }
  /// The state is saved, and the rank leaves.
  void end_notice() noexcept { notice_.reset(); }

  /// Which ranks have had a notice of their own, and how long ago. Collective.
  void tell_arrivals(cluster::Communicator& comm, const std::optional<termination::LocalNotice>& mine);

 private:
  std::optional<core::DrillOrders> orders_;
  RunLog& log_;
  std::optional<termination::LocalNotice> notice_;
};

}  // namespace reprieve::handler
