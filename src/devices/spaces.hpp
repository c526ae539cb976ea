// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which memory space some memory belongs to.

#include <cstddef>
#include <memory>
#include <vector>

#include "reprieve/memory_space.hpp"

namespace reprieve::devices {

/// The spaces that are there at the moment: built-in ones whose driver the program has loaded, and added ones.
class Spaces {
 public:
  Spaces();

  /// The space of the memory [@p first, @p first + @p bytes); null if the host reaches it. The memory is not touched.
  /// When this returns, the work that the device was given has come to its end.
  /// @param named  the space that the program said it belongs to, or null
  /// @throws UsageError if it is not of the named space, or lies there in part only; StorageError if the device fails
  [[nodiscard]] MemorySpace* find(const std::byte* first, std::size_t bytes, MemorySpace* named = nullptr) const;

 private:
  std::vector<std::shared_ptr<MemorySpace>> spaces_;
};

}  // namespace reprieve::devices
