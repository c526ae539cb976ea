// SPDX-License-Identifier: BSD-3-Clause
#include "core/mapped_memory.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace reprieve::core {

namespace {

/// Drivers of devices reserve addresses that the process cannot touch.
bool can_be_read(const void* address) noexcept {
  std::byte read{};
  const iovec to{&read, 1};
  const iovec from{const_cast<void*>(address), 1};  // it is only read
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

}  // namespace

bool is_mapped(const void* first, std::size_t bytes) noexcept {
  if (bytes == 0) {
    return true;
  }
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t within_page = reinterpret_cast<std::uintptr_t>(first) % page;
  // The call takes memory that may change, and changes nothing.
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(first)) - within_page;
  // MS_ASYNC writes nothing back in Linux (msync(2)); ENOMEM is its answer to what is not mapped. Other errors (a
  // sandbox that has no such call) tell nothing about the memory.
  return (msync(begin, within_page + bytes, MS_ASYNC) == 0 || errno != ENOMEM) && can_be_read(first) &&
         can_be_read(static_cast<const std::byte*>(first) + bytes - 1);
}

}  // namespace reprieve::core
