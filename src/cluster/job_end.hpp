// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The end of a job whose program handles an error on no rank: one report instead of one for each rank.

#include <functional>

#include "core/process.hpp"
#include "reprieve/error.hpp"

namespace reprieve::cluster {

/// Prints @p error on standard error and ends the job with exit code 1, by MPI_Abort if MPI is at work. Where several
/// ranks have an error, one of them prints it: they wait their turn, and the first one ends the others meanwhile. A
/// rank that alone has an error which all ranks should have waits 2.5 s for that, and at most two seconds for its turn.
/// Not collective.
[[noreturn]] void end_job(const Error& error) noexcept;

/// From now on an Error that nobody catches ends the job by `end_job`, instead of by abort() on every rank. Other
/// exceptions are treated as before, and so is everything if the program has set a terminate handler of its own.
/// Calling it again does nothing. Thread: main.
void end_job_at_uncaught_errors() noexcept;

// A call at the begin of MPI_Finalize, while MPI still works.

/// Calls a function if MPI_Finalize comes while it lives: what uses MPI in its destructor may live longer than MPI
/// does, for example as a variable of main. The one that was made last calls first. Not collective. Thread: main.
class FinalizeHook {
 public:
  /// @param at_finalize  may communicate; all ranks are in MPI_Finalize. Must not throw.
  /// @throws MpiError
  explicit FinalizeHook(std::function<void()> at_finalize);
  ~FinalizeHook();
  FinalizeHook(const FinalizeHook&) = delete;
  FinalizeHook& operator=(const FinalizeHook&) = delete;

 private:
  /// MPI calls it when the attribute that this object is goes away.
  struct OnDelete;

  core::OwnerProcess owner_;
  std::function<void()> at_finalize_;
  int keyval_;
  bool armed_ = true;
};

}  // namespace reprieve::cluster
