// SPDX-License-Identifier: BSD-3-Clause
// The ways to leave: exit and abort functions for a TerminationConfig.

#include "handler/exit.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <system_error>
#include <thread>

#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "handler/hold.hpp"
#include "reprieve/termination_config.hpp"

namespace reprieve {

namespace {

/// From the notice on; what the save took is part of it.
constexpr std::chrono::seconds kLongestHold{900};
/// How long a rank waits for the others before it leaves alone.
constexpr std::chrono::seconds kLeaveTimeout{10};

using Clock = std::chrono::steady_clock;

/// Waits until all ranks are here, without ever throwing: the checkpoint is committed, so leaving matters most.
void meet(MPI_Comm comm, Clock::time_point end) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(comm, &request) != MPI_SUCCESS) {
    core::log::warning("cannot wait for the other ranks before the exit");
    return;
  }
  int done = 0;
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
    if (Clock::now() >= end) {
      core::log::warning("not all ranks came to the exit within 10 s: leaving without them");
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

/// MPICH's launcher takes a rank that ends without MPI_Finalize for a crashed one: it kills the others, and may
/// return 9, 1 or 0 instead of the code. MPI_Finalize waits for ranks that stay, hence the limit. Under Open MPI, whose
/// launcher passes the code on in any case, it can wait for ever while a job is torn down.
void finalize([[maybe_unused]] int exit_code, [[maybe_unused]] Clock::time_point end) {
#ifndef OPEN_MPI
  try {
    std::thread([=] {
      std::this_thread::sleep_until(end);
      _exit(exit_code);
    }).detach();
  } catch (const std::system_error&) {
    return;
  }
  MPI_Finalize();
#endif
}

void flush() {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

/// The terminate handler from before.
std::atomic<std::terminate_handler> terminate_before{nullptr};

/// The state is saved, so nobody's forgetting to catch `Preempted` may cost the restart.
[[noreturn]] void on_terminate() {
  if (const std::exception_ptr error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const Preempted& preempted) {
      handler::leave_alone(preempted.exit_code());
    } catch (...) {
      // The handler from before treats it.
    }
  }
  terminate_before.load()();
  std::abort();
}

void leave_at_uncaught_preemption() noexcept {
  if (std::get_terminate() != on_terminate) {
    terminate_before = std::set_terminate(on_terminate);
  }
}

}  // namespace

void handler::leave_alone(int exit_code) noexcept {
  flush();
  finalize(exit_code, Clock::now() + kLeaveTimeout);
  _exit(exit_code);
}

void leave_together(const ExitContext& context) {
  const auto end = Clock::now() + kLeaveTimeout;
  // First the meeting, then the flush: under a launcher that tears the job down, output can block for good.
  meet(context.comm, end);
  core::kill_point(core::KillPoint::exit_met);
  flush();
  finalize(context.exit_code, end);
  _exit(context.exit_code);
}

void hold_until_taken(const ExitContext& context) {
  meet(context.comm, Clock::now() + kLeaveTimeout);
  const auto limit = context.notice.time + kLongestHold;
  core::log::info("saved; waiting until the processes of this run are taken");
  handler::wait_until_taken(context.comm, limit);
  flush();
  _exit(context.exit_code);
}

void throw_preempted(const ExitContext& context) {
  leave_at_uncaught_preemption();
  throw Preempted(context);
}

void abort_job(MPI_Comm comm, int exit_code) {
  std::fflush(nullptr);
  MPI_Abort(comm, exit_code);
  _exit(exit_code);  // MPI_Abort does not return, but nothing in its interface says so
}

Preempted::Preempted(ExitContext context)
    : context_(std::move(context)),
      message_(fmt::format("preempted ({} on rank {}): the state is saved in {}", context_.notice.source,
                           context_.notice.rank, context_.checkpoint)) {}

}  // namespace reprieve
