// SPDX-License-Identifier: BSD-3-Clause
// The ways to leave: exit and abort functions for a TerminationConfig.

#include "handler/exit.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "core/failpoint.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "reprieve/termination_config.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::handler {

namespace {

constexpr const char* kErrorFile = "error.json";

}  // namespace

void write_error_report(const core::Directory& directory, const ErrorReport& report) noexcept {
  core::log::or_warn("cannot write the error report", [&] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const nlohmann::json content = {{"rank", report.rank},
                                    {"host", report.host},
                                    {"run_calls", report.run_calls},
                                    {"message", report.message},
                                    {"time_s", std::chrono::duration<double>(now).count()}};
    const std::string text = content.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
    // Each rank has a file of its own, and the rename makes it the report: never a mixture of two.
    const std::string mine = fmt::format(".error-{}.json", report.rank);
    directory.write_text(mine, text, directory.file_mode(), false);
    directory.rename(mine, directory, kErrorFile);
  });
}

void remove_error_report(const core::Directory& directory) noexcept {
  core::log::or_warn("an old error report stays behind", [&] { directory.remove_file(kErrorFile); });
}

}  // namespace reprieve::handler

namespace reprieve {

namespace {

/// From the notice on; what the save took is part of it.
constexpr std::chrono::seconds kLongestHold{900};
/// How long a rank waits for the others before it leaves alone.
constexpr std::chrono::seconds kLeaveTimeout{10};

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// False if it is not by @p end.
bool is_complete(MPI_Request& request, Clock::time_point end) {
  int done = 0;
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0 && Clock::now() < end) {
    std::this_thread::sleep_for(50us);
  }
  return done != 0;
}

/// Waits until all ranks are here, without ever throwing: the checkpoint is committed, so leaving matters most.
void wait_for_all(MPI_Comm comm, Clock::time_point end) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(comm, &request) != MPI_SUCCESS) {
    core::log::warning("cannot wait for the other ranks before the exit");
    return;
  }
  if (!is_complete(request, end) && Clock::now() >= end) {
    core::log::warning("not all ranks came to the exit within 10 s: leaving without them");
  }
}

/// How long the exchange of process numbers may take.
constexpr std::chrono::seconds kExchangeLimit{10};
constexpr std::chrono::milliseconds kPollInterval{100};

/// A process, as the others see it.
struct Address {
  std::uint64_t host = 0;  ///< a hash of the name
  handler::Neighbour process;
};

std::uint64_t host_hash() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  if (MPI_Get_processor_name(name.data(), &length) != MPI_SUCCESS) {
    return 0;
  }
  return std::hash<std::string_view>{}({name.data(), static_cast<std::size_t>(length)});
}

/// A descriptor for each process, which becomes readable when it ends: unlike a number, it is never another process's.
/// A process that has ended already counts as taken: then there is none.
std::vector<pollfd> open_processes(const std::vector<handler::Neighbour>& processes, bool& one_is_gone) {
  std::vector<pollfd> descriptors;
  for (const handler::Neighbour& process : processes) {
    const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0));
    if (descriptor >= 0) {
      descriptors.push_back({descriptor, POLLIN, 0});
    } else {
      one_is_gone |= errno == ESRCH;
    }
  }
  return descriptors;
}

bool one_has_ended(std::vector<pollfd>& descriptors, std::chrono::milliseconds wait) {
  return ::poll(descriptors.data(), descriptors.size(), static_cast<int>(wait.count())) > 0;
}

/// Stays until the platform takes the processes of the run away: another rank of this node has ended, or one more
/// signal has come, or @p limit. Every rank must call it, but none waits for another. The state is saved, and only the
/// exit is left.
void wait_until_taken(MPI_Comm comm, Clock::time_point limit) noexcept {
  core::log::or_warn("cannot wait until the processes of this run are taken", [&] {
    bool taken = false;
    std::vector<pollfd> processes = open_processes(handler::neighbours(comm), taken);
    const std::vector<int> signals{SIGTERM, SIGUSR1, SIGINT};
    termination::acknowledge_signals(signals);
    while (!taken && Clock::now() < limit && !termination::pending_signal(signals)) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - Clock::now());
      taken = one_has_ended(processes, std::clamp(left, 0ms, kPollInterval));
    }
    for (const pollfd& process : processes) {
      ::close(process.fd);
    }
  });
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

std::vector<handler::Neighbour> handler::neighbours(MPI_Comm comm) {
  int size = 0;
  if (MPI_Comm_size(comm, &size) != MPI_SUCCESS) {
    return {};
  }
  struct Exchange {
    Address mine;
    std::vector<Address> all;
  };
  auto exchange = std::make_unique<Exchange>();
  exchange->mine = {host_hash(), {::getpid(), core::start_of_process(::getpid())}};
  exchange->all.resize(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Iallgather(&exchange->mine, sizeof(Address), MPI_BYTE, exchange->all.data(), sizeof(Address), MPI_BYTE, comm,
                     &request) != MPI_SUCCESS) {
    return {};
  }
  if (!is_complete(request, Clock::now() + kExchangeLimit)) {
    static_cast<void>(exchange.release());  // ranks are missing: MPI may still write there
    return {};
  }
  std::vector<Neighbour> found;
  for (const Address& address : exchange->all) {
    if (address.host == exchange->mine.host && address.process.pid != exchange->mine.process.pid) {
      found.push_back(address.process);
    }
  }
  return found;
}

void handler::leave_alone(int exit_code) noexcept {
  flush();
  finalize(exit_code, Clock::now() + kLeaveTimeout);
  _exit(exit_code);
}

void leave_together(const ExitContext& context) {
  const auto end = Clock::now() + kLeaveTimeout;
  // First all ranks meet, then the flush: under a launcher that tears the job down, output can block for good.
  wait_for_all(context.comm, end);
  core::failpoint("exit.met");
  flush();
  finalize(context.exit_code, end);
  _exit(context.exit_code);
}

void hold_until_taken(const ExitContext& context) {
  wait_for_all(context.comm, Clock::now() + kLeaveTimeout);
  const auto limit = context.notice.time + kLongestHold;
  core::log::info("saved; waiting until the processes of this run are taken");
  wait_until_taken(context.comm, limit);
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
