// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Leaving by oneself. The public ways to leave are in termination_config.hpp.

namespace reprieve::handler {

/// Ends this process with @p exit_code after a save, and waits for no other rank. Not collective.
[[noreturn]] void leave_alone(int exit_code) noexcept;

}  // namespace reprieve::handler
