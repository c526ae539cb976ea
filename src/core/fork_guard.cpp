// SPDX-License-Identifier: BSD-3-Clause
#include "core/fork_guard.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

#include "core/log.hpp"

namespace reprieve::core {

namespace {

/// Descriptors to close. A fork handler gets no argument, so that this has to be global; atomic, since another thread
/// may fork at any time. Zero stands for nothing, so that no initialisation is needed.
struct Slot {
  std::atomic<int> descriptor_plus_one{0};
};
std::array<Slot, 64> slots;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// In the child, which has one thread; only calls that a signal handler may make.
void close_all() {
  for (Slot& slot : slots) {
    if (const int descriptor = slot.descriptor_plus_one.exchange(0) - 1; descriptor >= 0) {
      ::close(descriptor);
    }
  }
}

bool install() {
  if (::pthread_atfork(nullptr, nullptr, close_all) != 0) {
    log::warning("children that are forked will share the lock of the checkpoint directory");
    return false;
  }
  return true;
}

}  // namespace

ClosedOnFork::ClosedOnFork(int descriptor) {
  static const bool installed = install();
  for (std::size_t i = 0; installed && descriptor >= 0 && i < slots.size(); ++i) {
    int none = 0;
    if (slots[i].descriptor_plus_one.compare_exchange_strong(none, descriptor + 1)) {
      slot_ = static_cast<int>(i);
      return;
    }
  }
}

ClosedOnFork::~ClosedOnFork() {
  if (slot_ >= 0) {
    slots[static_cast<std::size_t>(slot_)].descriptor_plus_one = 0;
  }
}

ClosedOnFork::ClosedOnFork(ClosedOnFork&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}

ClosedOnFork& ClosedOnFork::operator=(ClosedOnFork&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

}  // namespace reprieve::core
