// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The memory spaces that the library knows by itself.

#include <memory>

#include "reprieve/memory_space.hpp"

namespace reprieve::devices {

/// Null if the program has not loaded the driver. @param stream  see reprieve::cuda_memory
[[nodiscard]] std::shared_ptr<MemorySpace> find_cuda(void* stream);
[[nodiscard]] std::shared_ptr<MemorySpace> find_hip(void* stream);

}  // namespace reprieve::devices
