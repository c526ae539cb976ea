// SPDX-License-Identifier: BSD-3-Clause
#include "handler/agreement_threads.hpp"

#include <system_error>
#include <utility>

#include "core/log.hpp"

namespace reprieve::handler {

namespace {

constexpr const char* kWhat = "choosing how the ranks agree";

}  // namespace

bool threads_are_wanted(cluster::Communicator& comm, const TerminationConfig& config) {
  const bool wants_every_boundary = config.agreement == Agreement::automatic && config.check_interval.count() == 0;
  if (config.agreement == Agreement::boundaries || wants_every_boundary) {
    return false;
  }
  const bool possible = comm.max(cluster::any_thread_may_use_mpi() ? 0 : 1, kWhat) == 0;
  if (!possible && config.agreement == Agreement::threads) {
    throw ConfigError(
        "termination.agreement: found \"threads\", but MPI does not run with MPI_THREAD_MULTIPLE on all ranks: ask for "
        "it by MPI_Init_thread, or choose \"auto\"");
  }
  return possible;
}

void AgreementThreads::start(cluster::Communicator& comm, std::chrono::milliseconds peer_timeout,
                             std::function<bool()> has_news) {
  comm_.emplace(comm.handle(), peer_timeout);
  channel_.emplace(*comm_);
  thread_.emplace(*channel_, cluster::RoundOptions{.peer_timeout = peer_timeout}, std::move(has_news));
  std::int64_t failed = 0;
  try {
    thread_->start();
  } catch (const std::system_error& error) {
    core::log::warning("rank {} ({}) can make no thread for the agreement ({}): all ranks agree at boundaries instead",
                       comm.rank(), comm.host(), error.what());
    failed = 1;
  }
  if (comm.max(failed, kWhat) != 0) {
    thread_.reset();
    channel_.reset();
    comm_.reset();
  }
}

void AgreementThreads::rest(std::chrono::milliseconds limit) noexcept {
  if (!thread_) {
    return;
  }
  try {
    thread_->rest(limit);
  } catch (const std::exception& error) {
    core::log::warning("{}", error.what());
  }
}

void AgreementThreads::resume() noexcept {
  if (thread_) {
    thread_->resume();
  }
}

void AgreementThreads::abandon() noexcept {
  if (thread_) {
    thread_->abandon();
    comm_->leave_mpi();
  }
}

}  // namespace reprieve::handler
