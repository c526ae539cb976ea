#include "handler/rehearsal.hpp"

#include <nlohmann/json.hpp>

#include "cluster/json_exchange.hpp"

namespace reprieve::handler {

void Rehearsal::begin(bool is_chief) {
  if (is_chief && orders_ && orders_->leave_at_once) {
    notice_ = termination::LocalNotice{"drill", "rehearsal of a restart", Clock::now(), std::nullopt};
  }
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
