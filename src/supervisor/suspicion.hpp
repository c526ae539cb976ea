// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A checkpoint that several runs died reading. That says little about it: whoever ran out of memory died so, too. Only
/// what is found to be damaged is set aside.

#include <filesystem>
#include <string>

#include "supervisor/supervisor_event.hpp"

namespace reprieve::supervisor {

/// What became of a checkpoint that runs died reading.
struct Suspicion {
  enum class Outcome {
    sound,      ///< it stays where it is
    set_aside,  ///< damaged: the next start takes an older one
    needed,     ///< damaged, and there is no older one
    unknown,    ///< it cannot be read
  };
  Outcome outcome = Outcome::unknown;
  std::string text{};  ///< the new name, or what is wrong
};

/// What is to be said about it.
[[nodiscard]] SupervisorEvent describe(const std::filesystem::path& suspect, const Suspicion& found);

}  // namespace reprieve::supervisor
