// SPDX-License-Identifier: BSD-3-Clause
// Writes by io_uring, which are no calls: the entry that is about to be submitted is changed so that the kernel itself
// answers as wanted.

#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include "faults/injector/fault_decision.hpp"

namespace {

using namespace reprieve::test;

constexpr unsigned kPage = 4096;

/// A place where every write answers ENOSPC. Opened at the start, so that tests can count descriptors.
const int kFullDevice = ::open("/dev/full", O_WRONLY | O_CLOEXEC);

}  // namespace

extern "C" int io_uring_submit(io_uring* ring) {
  static auto* real = reinterpret_cast<int (*)(io_uring*)>(::dlsym(RTLD_NEXT, "io_uring_submit"));
  io_uring_sq& queue = ring->sq;
  if (queue.sqe_tail == queue.sqe_head) {
    return real(ring);
  }
  io_uring_sqe& entry = queue.sqes[(queue.sqe_tail - 1) & *queue.kring_mask];
  const int decision = decide(Call::submit, nullptr, entry.fd);
  if (decision == kShort) {
    entry.len = std::max(kPage, entry.len / 2 / kPage * kPage);
  } else if (decision == ENOSPC) {
    entry.fd = kFullDevice;
  } else if (decision == EBADF) {
    entry.fd = -1;
  } else if (decision > 0) {
    return -decision;  // the submission itself
  }
  return real(ring);
}
