// SPDX-License-Identifier: BSD-3-Clause
// What becomes of an error: this rank sends its own to the others, or gets another's.

#include <algorithm>
#include <chrono>
#include <exception>
#include <tuple>

#include "core/log.hpp"
#include "handler/exit.hpp"
#include "handler/handler_impl.hpp"

namespace reprieve {

namespace {

using std::chrono::milliseconds;

/// The other ranks' threads answer in milliseconds, or hardly at all.
constexpr milliseconds kAnnouncement{5000};

constexpr const char* kSpreading = "spreading an error";

/// Peers that send nothing for so many of the longest steps are stuck, ...
constexpr int kStepsUntilStuck = 20;
/// ... but not before this time: short steps say little about what lies between them.
constexpr milliseconds kShortestErrorLimit{5000};

/// Throws an error of @p received's kind that holds @p own as its nested exception.
[[noreturn]] void throw_with_own(const Error& received, const std::exception_ptr& own) {
  try {
    std::rethrow_exception(own);
  } catch (...) {
    if (received.code() == ErrorCode::usage) {
      std::throw_with_nested(UsageError(received.what(), received.origin_rank()));
    }
    std::throw_with_nested(ClusterError(received.what(), received.origin_rank()));
  }
}

}  // namespace

/// As long as the steps suggest, and not longer than was asked for. Peers that are in a long step are not stuck.
std::chrono::milliseconds PreemptionCheckpointHandler::Impl::error_limit() const {
  const auto longest = std::chrono::duration_cast<milliseconds>(longest_known_step_);
  if (longest_known_step_.count() == 0) {
    return config.error_timeout;  // no step was measured
  }
  return std::min(std::max(kStepsUntilStuck * longest, kShortestErrorLimit), config.error_timeout) + 2 * longest;
}

/// So that the other ranks get the error, and this one knows how long their steps take.
void PreemptionCheckpointHandler::Impl::announce_failure() {
  if (threads_) {
    threads_->thread.announce_failure(std::min(config.error_timeout, kAnnouncement));
    longest_known_step_ = std::max(longest_known_step_, threads_->thread.longest_step_of_all());
  }
}

/// The manager has a communicator of its own, and may have waited for them in vain. Then there is no point in waiting
/// once more, and the error that names them must not be lost behind another one.
bool PreemptionCheckpointHandler::Impl::ranks_are_missing() const {
  return comm_.broken() || manager.impl().comm.broken() || (threads_ && threads_->thread.broken());
}

/// Takes part in the spreading of the error of @p origin_rank and throws it. @p mine is used if that is this rank.
void PreemptionCheckpointHandler::Impl::throw_received(int origin_rank, const core::Failure& mine) {
  ended = true;
  std::string text;
  auto code = ErrorCode::cluster;
  const auto spread = [&] {
    std::tie(code, text) = comm_.from_root(std::tuple(mine.code, mine.message), origin_rank, kSpreading);
    if (comm_.is_rank_0()) {
      log_.write(events::Failed{origin_rank, to_string(code), text, run_calls});
    }
  };
  const core::Outcome spread_as = core::capture([&] { comm_.together(spread, kSpreading); });
  rest_threads();
  policy_.drop_commit();
  finish_background();  // all ranks are here, and what is nearly saved need not be lost
  if (spread_as) {
    core::throw_failure(*spread_as);  // there is no memory to report the error
  }
  throw_error(code, text, origin_rank);
}

void PreemptionCheckpointHandler::Impl::fail(const std::exception_ptr& error) {
  core::Failure failure = core::failure_of(error);
  const bool unreachable = ranks_are_missing();
  if (cluster::survives_lost_ranks() && (unreachable || failure.code == ErrorCode::unresponsive)) {
    ended = true;  // ranks have died: the others learn of it as this one did
  }
  if (ended || unreachable) {
    std::rethrow_exception(error);  // the ranks are leaving already, or cannot be reached
  }
  if (failure.code != ErrorCode::usage) {
    failure = {ErrorCode::cluster, fmt::format("rank {} ({}) failed in step {}: {}", comm_.rank(), comm_.host(),
                                               run_calls, failure.message)};
  }
  handler::write_error_report(manager.impl().directory.opened(),
                              {comm_.rank(), comm_.host(), run_calls, failure.message});
  announce_failure();
  cluster::CheckResult check_result;
  try {
    check_result = agreement_.fail(error_limit());
  } catch (const UnresponsiveError& unresponsive) {
    ended = true;
    if (cluster::has_lost_ranks(comm_.handle())) {
      std::rethrow_exception(error);  // a consequence
    }
    core::log::error("{}", failure.message);
    core::log::error(
        "the other ranks did not receive this error ({}): they may wait for this rank in a collective call of "
        "the application; ending the job",
        unresponsive.what());
    config.abort_fn(comm_.handle(), 1);
    std::rethrow_exception(error);
  }
  throw_received_with_own(check_result.failed_rank, failure, error);
}

/// If several ranks failed, all get the error of the lowest; what was thrown on this one must not be lost either.
void PreemptionCheckpointHandler::Impl::throw_received_with_own(int origin_rank, const core::Failure& mine,
                                                                const std::exception_ptr& error) {
  try {
    throw_received(origin_rank, mine);
  } catch (const Error& received) {
    const bool is_of_the_program = received.code() == ErrorCode::cluster || received.code() == ErrorCode::usage;
    if (!is_of_the_program || (mine.code == ErrorCode::usage && origin_rank == comm_.rank())) {
      throw;
    }
    throw_with_own(received, error);
  }
}

void PreemptionCheckpointHandler::Impl::fail_quietly(const std::string& message) noexcept {
  try {
    fail(std::make_exception_ptr(ClusterError(message)));
  } catch (const std::exception& error) {
    core::log::debug("{}", error.what());
  }
}

}  // namespace reprieve
