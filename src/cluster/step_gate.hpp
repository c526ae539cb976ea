// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Where a program's main thread counts its step boundaries, and where another thread can stop it.

#include <atomic>
#include <cstdint>

#include "cluster/agreement_vector.hpp"

namespace reprieve::cluster {

/// The count and the order to stop share one atomic word, and both are changed by atomic read-modify-writes. These have
/// one order: what `close` returns is where the main thread stands, and every `pass` after it sees that the gate is
/// closed. With two words a plain store and load of one thread could be overtaken by any number of boundaries of the
/// other.
class StepGate {
 public:
  /// Counts a boundary. False if the gate is closed. Thread: main. Cost: an atomic increment.
  [[nodiscard]] bool pass() noexcept { return (word_.fetch_add(kBoundary, std::memory_order_acq_rel) & kClosed) == 0; }

  /// From here on no boundary passes. Returns how many were counted so far: the next one will be stopped. Any thread.
  BoundaryIndex close() noexcept { return count_in(word_.fetch_or(kClosed, std::memory_order_acq_rel)); }
  /// Boundaries pass again. Any thread.
  void open() noexcept { word_.fetch_and(~kClosed, std::memory_order_acq_rel); }

  /// Boundaries that were counted so far. Any thread.
  [[nodiscard]] BoundaryIndex count() const noexcept { return count_in(word_.load(std::memory_order_relaxed)); }

 private:
  static constexpr std::uint64_t kClosed = 1;
  static constexpr std::uint64_t kBoundary = 2;

  static BoundaryIndex count_in(std::uint64_t word) noexcept { return static_cast<BoundaryIndex>(word / kBoundary); }

  std::atomic<std::uint64_t> word_{0};
};

}  // namespace reprieve::cluster
