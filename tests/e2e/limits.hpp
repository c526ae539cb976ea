// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How long the tests of this folder wait for processes.

#include <chrono>

namespace reprieve::test {

/// Longer than anything takes on an overloaded machine: what is not over by then hangs.
inline constexpr std::chrono::seconds kHang{120};
/// An mpirun whose ranks have ended needs some 3 s at most.
inline constexpr std::chrono::seconds kHungLauncher{20};

}  // namespace reprieve::test
