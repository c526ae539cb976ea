// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Keeps signals away from helper threads.

#include <csignal>

namespace reprieve::core {

/// Blocks all signals on this thread while it lives: a thread that is started meanwhile inherits that, and leaves the
/// signals to the threads of the application.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t previous_ = {};
};

}  // namespace reprieve::core
