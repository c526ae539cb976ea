// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whether an address is memory of this process at all.

#include <cstddef>

namespace reprieve::core {

/// False if a part of [@p first, @p first + @p bytes) is not mapped, or its ends cannot be read: a touch would end the
/// process. True says no more than that: memory that was freed mostly stays mapped when it is small. Up to three system
/// calls, of which one walks the process's mappings, not its pages.
[[nodiscard]] bool is_mapped(const void* first, std::size_t bytes) noexcept;

}  // namespace reprieve::core
