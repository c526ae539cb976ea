// SPDX-License-Identifier: BSD-3-Clause
#include "core/mapped_memory.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace reprieve::core {

namespace {

enum class Readable : std::uint8_t { yes, no, unknown };

/// The first and the last byte, in one system call that does not end the process. Drivers of devices reserve addresses
/// that are mapped, and that the host cannot touch.
Readable ends_are_readable(std::byte* first, std::size_t bytes) noexcept {
  std::array<std::byte, 2> read{};
  const iovec to{read.data(), read.size()};
  const std::array<iovec, 2> from{iovec{first, 1}, iovec{first + bytes - 1, 1}};
  const ssize_t count = process_vm_readv(getpid(), &to, 1, from.data(), from.size(), 0);
  if (count == static_cast<ssize_t>(read.size())) {
    return Readable::yes;
  }
  return count > 0 || errno == EFAULT ? Readable::no : Readable::unknown;  // a sandbox may have no such call
}

}  // namespace

bool is_mapped(const void* first, std::size_t bytes) noexcept {
  if (bytes == 0) {
    return true;
  }
  // The calls take memory that may change, and change nothing.
  auto* const address = static_cast<std::byte*>(const_cast<void*>(first));
  const Readable ends = ends_are_readable(address, bytes);
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  if (ends == Readable::no || (ends == Readable::yes && bytes <= page)) {
    return ends == Readable::yes;
  }
  const std::uintptr_t within_page = reinterpret_cast<std::uintptr_t>(first) % page;
  // MS_ASYNC writes nothing back in Linux (msync(2)); ENOMEM is its answer to what is not mapped. Other errors (a
  // sandbox that has no such call) tell nothing about the memory.
  return msync(address - within_page, within_page + bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

}  // namespace reprieve::core
