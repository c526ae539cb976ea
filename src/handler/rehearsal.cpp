#include "handler/rehearsal.hpp"

#include <nlohmann/json.hpp>

#include "cluster/json_exchange.hpp"

namespace reprieve::handler {

namespace {

constexpr std::chrono::milliseconds kTellInterval{100};

}  // namespace

void Rehearsal::begin(bool is_chief) {
  if (is_chief && orders_ && orders_->leave_at_once) {
    notice_ = termination::LocalNotice{"drill", "rehearsal of a restart", Clock::now(), std::nullopt};
  }
}

void Rehearsal::tell_steps(std::uint64_t run_calls, std::chrono::nanoseconds step_time) {
  if (orders_ && Clock::now() - last_told_ >= kTellInterval) {
    last_told_ = Clock::now();
    log_.step(run_calls, step_time);
  }
}

std::optional<Rehearsal::Clock::time_point> Rehearsal::next_tell() const noexcept {
  return orders_ ? std::optional(last_told_ + kTellInterval) : std::nullopt;
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
