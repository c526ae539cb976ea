// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A call at the begin of MPI_Finalize, while MPI still works.

#include <functional>

#include "core/fork_guard.hpp"

namespace reprieve::cluster {

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
