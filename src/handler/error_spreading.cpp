// What becomes of an error: this rank's own, told to the others, or another's, heard from it.

#include <nlohmann/json.hpp>

#include "core/log.hpp"
#include "handler/error_report.hpp"
#include "handler/handler_impl.hpp"
#include "handler/json_exchange.hpp"
#include "manager/manager_impl.hpp"

namespace reprieve {

using Json = nlohmann::json;

std::chrono::milliseconds PreemptionCheckpointHandler::Impl::error_limit() const {
  // Peers that are in a long step are not stuck.
  const auto steps = 2 * (verdict_ ? verdict_->step_time : std::chrono::nanoseconds(0));
  return config.error_timeout + std::chrono::duration_cast<std::chrono::milliseconds>(steps);
}

/// Takes part in the spreading of the error of @p origin_rank and throws it. @p mine is used if that is this rank.
void PreemptionCheckpointHandler::Impl::hear_error(int origin_rank, const core::Failure& mine) {
  ended = true;
  Json message;
  if (comm_.rank() == origin_rank) {
    message = {{"code", static_cast<std::int32_t>(mine.code)}, {"message", mine.message}};
  }
  message = handler::broadcast(comm_, message, origin_rank, "spreading an error");
  const std::string text = message["message"];
  if (comm_.is_chief()) {
    manager.impl().record("error", {{"rank", origin_rank},
                                    {"error", to_string(static_cast<ErrorCode>(message["code"].get<std::int32_t>()))},
                                    {"message", text},
                                    {"run_calls", run_calls}});
  }
  settle_background_save();  // all ranks are here, and what is nearly saved need not be lost
  throw_error(static_cast<ErrorCode>(message["code"].get<std::int32_t>()), text, origin_rank);
}

void PreemptionCheckpointHandler::Impl::fail(const std::exception_ptr& error) {
  if (ended || ranks_are_missing()) {
    std::rethrow_exception(error);  // the ranks are leaving already, or cannot be told
  }
  core::Failure failure = core::failure_of(error);
  if (failure.code != ErrorCode::usage) {
    failure = {ErrorCode::cluster, fmt::format("rank {} ({}) failed in step {}: {}", comm_.rank(), comm_.host(),
                                               run_calls, failure.message)};
  }
  handler::write_error_report(manager.directory(), {comm_.rank(), comm_.host(), run_calls, failure.message});
  cluster::Verdict verdict;
  try {
    verdict = agreement_.fail(error_limit());
  } catch (const UnresponsiveError& unresponsive) {
    ended = true;
    report_stuck_peers(failure, unresponsive.what());
    config.abort_fn(comm_.handle(), 1);
    std::rethrow_exception(error);
  }
  hear_error(verdict.failed_rank, failure);
}

void PreemptionCheckpointHandler::Impl::fail_quietly(const std::string& message) noexcept {
  try {
    fail(std::make_exception_ptr(ClusterError(message)));
  } catch (const std::exception& error) {
    core::log::debug("{}", error.what());
  }
}

void PreemptionCheckpointHandler::Impl::report_stuck_peers(const core::Failure& failure,
                                                           const std::string& why) const noexcept {
  core::log::error("{}", failure.message);
  core::log::error(
      "the other ranks did not come to hear of this error ({}): they may wait for this rank in a collective call of "
      "the "
      "application; ending the job",
      why);
}

}  // namespace reprieve
