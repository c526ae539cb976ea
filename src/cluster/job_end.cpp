// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/job_end.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <thread>
#include <utility>

#include "cluster/communicator.hpp"
#include "core/log.hpp"

namespace reprieve::cluster {

namespace {

constexpr int kExitCode = 1;
/// Within it the first rank, which has the error as well, has ended the others: after MPI_Abort, mpirun takes two
/// seconds until it sends SIGKILL.
constexpr std::chrono::milliseconds kReportTime{2500};
/// The ranks report one after the other, as the first to report ends the others.
constexpr std::chrono::milliseconds kBetweenRanks{50};
constexpr int kRanksInTurn = 40;

/// In MPI_COMM_WORLD; -1 if MPI is not at work.
int world_rank() noexcept {
  int initialized = 0;
  int finalized = 0;
  int rank = -1;
  if (MPI_Initialized(&initialized) != MPI_SUCCESS || MPI_Finalized(&finalized) != MPI_SUCCESS || initialized == 0 ||
      finalized != 0 || MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS) {
    return -1;
  }
  return rank;
}

/// Whether all ranks have the same error, by the promise of collective calls.
bool is_shared(ErrorCode code) noexcept {
  return code != ErrorCode::mpi && code != ErrorCode::unresponsive && code != ErrorCode::internal;
}

/// The handler of the C++ runtime: nobody has replaced it when the library is loaded.
const std::terminate_handler kRuntimeHandler = std::get_terminate();
/// A child that this process forks must not end its parent's job.
std::atomic<pid_t> owner{0};

[[noreturn]] void on_terminate() {
  if (const std::exception_ptr error = std::current_exception(); error && owner == ::getpid()) {
    try {
      std::rethrow_exception(error);
    } catch (const Error& known) {
      end_job(known);
    } catch (...) {
      // As without this library.
    }
  }
  kRuntimeHandler();
  std::abort();
}

}  // namespace

void end_job(const Error& error) noexcept {
  const int rank = world_rank();
  if (rank > 0) {
    const auto turn = kBetweenRanks * std::min(rank, kRanksInTurn);
    std::this_thread::sleep_for(is_shared(error.code()) ? kReportTime + turn : turn);
  }
  std::cout.flush();
  std::fprintf(stderr, "reprieve: %s\n", error.what());
  std::fflush(nullptr);
  if (rank >= 0) {
    MPI_Abort(MPI_COMM_WORLD, kExitCode);
  }
  _exit(kExitCode);
}

void end_job_at_uncaught_errors() noexcept {
  owner = ::getpid();
  if (std::get_terminate() == kRuntimeHandler) {
    std::set_terminate(on_terminate);
  }
}

/// MPI_Finalize deletes the attributes of MPI_COMM_SELF before it does anything else.
struct FinalizeHook::OnDelete {
  static int call(MPI_Comm /*comm*/, int /*keyval*/, void* attribute, void* /*extra*/) {
    auto& hook = *static_cast<FinalizeHook*>(attribute);
    if (std::exchange(hook.armed_, false)) {
      hook.at_finalize_();
    }
    return MPI_SUCCESS;
  }
};

FinalizeHook::FinalizeHook(std::function<void()> at_finalize)
    : at_finalize_(std::move(at_finalize)), keyval_(MPI_KEYVAL_INVALID) {
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, OnDelete::call, &keyval_, nullptr), "MPI_Comm_create_keyval");
  if (const int result = MPI_Comm_set_attr(MPI_COMM_SELF, keyval_, this); result != MPI_SUCCESS) {
    static_cast<void>(MPI_Comm_free_keyval(&keyval_));
    check_mpi(result, "MPI_Comm_set_attr");
  }
}

FinalizeHook::~FinalizeHook() {
  int finalized = 0;
  if (!std::exchange(armed_, false) || !owner_.is_here() || MPI_Finalized(&finalized) != MPI_SUCCESS ||
      finalized != 0) {
    return;
  }
  if (MPI_Comm_delete_attr(MPI_COMM_SELF, keyval_) != MPI_SUCCESS || MPI_Comm_free_keyval(&keyval_) != MPI_SUCCESS) {
    core::log::warning("an attribute of MPI_COMM_SELF could not be removed");
  }
}

}  // namespace reprieve::cluster
