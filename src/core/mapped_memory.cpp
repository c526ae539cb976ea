// SPDX-License-Identifier: BSD-3-Clause
#include "core/mapped_memory.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace reprieve::core {

namespace {

enum class Readable : std::uint8_t { yes, no, unknown };

/// Without ending the process. Drivers of devices reserve addresses that are mapped, and that the host cannot touch.
/// The kernel reads a set of signals before it finds that it does not know what to do with it, so nothing is changed.
/// Unlike process_vm_readv, that reads what devices map too, and no sandbox forbids it.
Readable is_readable(const std::byte* place) noexcept {
  constexpr std::size_t set_bytes = 8;
  constexpr int unknown_action = ~0;
  const std::byte* const set = place - reinterpret_cast<std::uintptr_t>(place) % set_bytes;  // in the same page
  if (::syscall(SYS_rt_sigprocmask, unknown_action, set, nullptr, set_bytes) == 0) {
    return Readable::unknown;
  }
  return errno == EFAULT ? Readable::no : errno == EINVAL ? Readable::yes : Readable::unknown;
}

}  // namespace

bool is_mapped(const void* first, std::size_t bytes) noexcept {
  if (bytes == 0) {
    return true;
  }
  // The calls take memory that may change, and change nothing.
  auto* const address = static_cast<std::byte*>(const_cast<void*>(first));
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t within_page = reinterpret_cast<std::uintptr_t>(first) % page;
  Readable ends = is_readable(address);
  // Small variables mostly lie in one page: a second call would take as long again.
  if (ends == Readable::yes && within_page + bytes > page) {
    ends = is_readable(address + bytes - 1);
  }
  if (ends == Readable::no || (ends == Readable::yes && bytes <= page)) {
    return ends == Readable::yes;
  }
  // MS_ASYNC writes nothing back in Linux (msync(2)); ENOMEM is its answer to what is not mapped. Other errors (a
  // sandbox that has no such call) tell nothing about the memory.
  return msync(address - within_page, within_page + bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

}  // namespace reprieve::core
