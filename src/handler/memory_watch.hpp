// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the steps of a program change in its memory, and no registered variable covers: `reprieve drill --memory`.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/events.hpp"
#include "state/registry.hpp"

namespace reprieve::handler {

/// The memory of one variable on this rank.
struct VariableMemory {
  std::string name;
  std::vector<std::span<const std::byte>> pieces;  ///< on the host
};
/// Calls the functions that find and describe the variables. For all ranks alike: these may be collective.
[[nodiscard]] std::vector<VariableMemory> memory_of(const Checkpoint::Registry& registry);

/// Compares digests of the objects in the memory of this process: heap blocks of at least `kLeastBlock` bytes, and the
/// global variables that the symbol tables of the program and of its own libraries name. Not looked at: local
/// variables, smaller blocks, the heaps of other threads and of other allocators, the globals of the system's
/// libraries. Not collective. Cost of a call: one pass over the memory, some GB/s.
class MemoryWatch {
 public:
  /// Smaller blocks stay in a cache of the GNU C library when they are freed: they look as if they were in use. Smaller
  /// variables are mostly parameters, which no step changes.
  static constexpr std::uint64_t kLeastBlock = 1056;

  /// What differs from the last call was changed by a step, or, on a busy machine, by MPI or this library meanwhile:
  /// only what most steps change counts.
  void after_step(const std::vector<VariableMemory>& variables);
  /// What differs from the last call was changed without a step, by MPI or this library: it does not count.
  void after_pause();

  [[nodiscard]] events::MemoryChanges changes(const std::vector<VariableMemory>& variables) const;

 private:
  struct Object {
    std::string name;  ///< empty: a heap block
    std::uint64_t bytes = 0;
    std::uint64_t digest = 0;
  };
  using Objects = std::map<std::uint64_t, Object>;  ///< by address

  [[nodiscard]] static Objects snapshot();
  /// The addresses of those that changed since the last snapshot.
  [[nodiscard]] std::set<std::uint64_t> changed_since(const Objects& now) const;

  Objects last_;
  std::map<std::uint64_t, int> by_steps_;  ///< how many steps changed what lies at an address
  std::set<std::uint64_t> without_steps_;
  std::map<std::string, std::uint64_t> variables_;  ///< their digests after the last step
  std::set<std::string> changed_variables_;
  int steps_ = 0;
};

}  // namespace reprieve::handler
