// SPDX-License-Identifier: BSD-3-Clause
#include "handler/rehearsal.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "cluster/json_exchange.hpp"

namespace reprieve::handler {

Rehearsal::Rehearsal(std::optional<core::DrillOrders> orders, RunLog& log) : orders_(std::move(orders)), log_(log) {
  if (orders_) {
    save_at_ = orders_->save_at.value_or(kNever);
    leave_at_ = orders_->leave_at.value_or(kNever);
  }
}

void Rehearsal::begin(bool is_chief) {
  if (orders_ && orders_->leave_at_once) {
    give_notice(is_chief, "rehearsal of a restart");
  }
}

void Rehearsal::give_notice(bool is_chief, const char* message) {
  if (is_chief) {
    notice_ = termination::LocalNotice{"drill", message, Clock::now(), std::nullopt};
  }
}

/// At the end of the program there will be no later step: there is nothing more to wait for.
Rehearsal::Duty Rehearsal::take_duty(std::uint64_t run_calls, bool is_last) noexcept {
  const Duty duty{run_calls >= save_at_, leave_at_ != kNever && (is_last || run_calls >= leave_at_)};
  save_at_ = duty.save ? kNever : save_at_;
  leave_at_ = duty.leave ? kNever : leave_at_;
  return duty;
}

void Rehearsal::tell_arrivals(cluster::Communicator& comm, const std::optional<termination::LocalNotice>& mine) {
  if (!orders_) {
    return;
  }
  nlohmann::json arrival{{"rank", comm.rank()}, {"host", comm.host()}};
  if (mine) {
    arrival.update({{"source", mine->source}, {"message", mine->message}, {"age_s", seconds_since(mine->time)}});
  }
  log_.arrivals(cluster::gather(comm, arrival, "telling where the notice arrived"));
}

}  // namespace reprieve::handler
