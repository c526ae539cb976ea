// SPDX-License-Identifier: BSD-3-Clause
#include "handler/hold.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "core/log.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::handler {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// How long the exchange of process numbers may take.
constexpr std::chrono::seconds kExchangeLimit{10};
constexpr std::chrono::milliseconds kPollInterval{100};

/// A process, as the others see it.
struct Address {
  std::uint64_t host = 0;  ///< a hash of the name
  std::int64_t pid = 0;
};

std::uint64_t host_hash() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  if (MPI_Get_processor_name(name.data(), &length) != MPI_SUCCESS) {
    return 0;
  }
  return std::hash<std::string_view>{}({name.data(), static_cast<std::size_t>(length)});
}

/// The processes of the other ranks of this node; empty if they cannot be learned in time.
std::vector<pid_t> neighbours(MPI_Comm comm) {
  int size = 0;
  if (MPI_Comm_size(comm, &size) != MPI_SUCCESS) {
    return {};
  }
  struct Exchange {
    Address mine;
    std::vector<Address> all;
  };
  auto exchange = std::make_unique<Exchange>();
  exchange->mine = {host_hash(), ::getpid()};
  exchange->all.resize(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Iallgather(&exchange->mine, sizeof(Address), MPI_BYTE, exchange->all.data(), sizeof(Address), MPI_BYTE, comm,
                     &request) != MPI_SUCCESS) {
    return {};
  }
  const auto end = Clock::now() + kExchangeLimit;
  int done = 0;
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0 && Clock::now() < end) {
    std::this_thread::sleep_for(50us);
  }
  if (done == 0) {
    static_cast<void>(exchange.release());  // ranks are missing: MPI may still write there
    return {};
  }
  std::vector<pid_t> pids;
  for (const Address& address : exchange->all) {
    if (address.host == exchange->mine.host && address.pid != exchange->mine.pid) {
      pids.push_back(static_cast<pid_t>(address.pid));
    }
  }
  return pids;
}

/// A descriptor for each process, which becomes readable when it ends: unlike a number, it is never another process's.
/// A process that has ended already counts as taken: then there is none.
std::vector<pollfd> open_processes(const std::vector<pid_t>& pids, bool& one_is_gone) {
  std::vector<pollfd> descriptors;
  for (const pid_t pid : pids) {
    const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
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

}  // namespace

void wait_until_taken(MPI_Comm comm, Clock::time_point limit) noexcept {
  try {
    bool taken = false;
    std::vector<pollfd> processes = open_processes(neighbours(comm), taken);
    const std::vector<int> signals{SIGTERM, SIGUSR1, SIGINT};
    termination::acknowledge_signals(signals);
    while (!taken && Clock::now() < limit && !termination::pending_signal(signals)) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - Clock::now());
      taken = one_has_ended(processes, std::clamp(left, 0ms, kPollInterval));
    }
    for (const pollfd& process : processes) {
      ::close(process.fd);
    }
  } catch (const std::exception& error) {
    core::log::warning("cannot wait until the processes of this run are taken: {}", error.what());
  }
}

}  // namespace reprieve::handler
