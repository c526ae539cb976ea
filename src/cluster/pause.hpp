// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a rank does between two looks at something that it waits for.

#include <sched.h>

#include <chrono>
#include <ctime>

namespace reprieve::cluster {

/// Gives the processor away, the longer the wait the more of it: ranks may share cores.
inline void pause(std::chrono::steady_clock::duration waited) {
  using namespace std::chrono_literals;
  if (waited < 50us) {
    return;
  }
  if (waited < 5ms) {
    sched_yield();
    return;
  }
  const timespec nap{0, waited < 1s ? 50'000 : 500'000};
  nanosleep(&nap, nullptr);  // an early end by a signal only means one more look
}

}  // namespace reprieve::cluster
