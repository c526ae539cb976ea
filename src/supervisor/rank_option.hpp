// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The number of ranks in a command that starts a program under a launcher. Pure.

#include <optional>
#include <string>
#include <vector>

namespace reprieve::supervisor {

/// The same command on @p ranks ranks: the number behind the launcher's -n, -np, --np or --ntasks is another one. Also
/// where it is one word with the option: "-n4", "--ntasks=4". Nothing if there is no launcher among the words, or none
/// of these options of it.
std::optional<std::vector<std::string>> with_ranks(std::vector<std::string> command, int ranks);

}  // namespace reprieve::supervisor
