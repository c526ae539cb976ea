// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Makes memory run out, in the process that loads this library before the C++ library: `operator new` of all its
/// threads, and `aligned_alloc`. What C libraries (MPI, HDF5) take by malloc is theirs, and always there; so is what
/// the JSON library takes in its destructor, and the standard library in a list of a directory: functions that are
/// noexcept, so that the process would end.

#include <cstdint>

namespace reprieve::test {

struct MemoryFault {
  std::uint64_t occurrence = 1;  ///< the first allocation that fails
  std::uint64_t count = 1;       ///< so many fail from there on
};

/// What the fault did.
struct MemoryHits {
  std::uint64_t seen = 0;    ///< allocations while it was armed
  std::uint64_t failed = 0;  ///< of those
};

/// From now on, in this process.
void arm_memory(const MemoryFault& fault) noexcept;
/// There is memory again.
MemoryHits disarm_memory() noexcept;

}  // namespace reprieve::test
