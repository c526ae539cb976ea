// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Starting programs, and knowing when all that they started is gone.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/environment.hpp"

namespace reprieve::supervisor {

using core::EnvironmentChanges;

/// What keeps a program from signals that are not meant for it.
enum class Shield {
  none,
  session,  ///< a session of its own, away from the terminal and the process group; killed if this process dies
  signals,  ///< besides, SIGTERM, SIGINT and SIGHUP are blocked, so that none reaches it uninvited
};

struct SpawnOptions {
  std::vector<std::string> arguments;  ///< the program (searched in PATH), then its arguments; no shell is involved
  EnvironmentChanges environment = {};
  Shield shield = Shield::none;
  int output = -1;  ///< descriptor for its standard output; -1: this process's
};

/// Starts a program. @throws UsageError if it is not found or may not be executed; Error if the system has no room
pid_t spawn(const SpawnOptions& options);

/// Blocks SIGTERM, SIGINT and SIGHUP for what this process becomes by exec. @throws Error
void block_termination_signals();

/// A child that has ended.
struct EndedChild {
  pid_t pid = 0;
  int code = 0;  ///< as a shell shows it: 128 + signal if one killed it
};

/// The children that have ended since the last call. Does not wait.
std::vector<EndedChild> reap();

/// Whether this process has children, ended ones that are not reaped among them.
bool has_children();

/// From now on, a descendant whose parent ends becomes a child of this process, so that none gets out of sight.
/// @throws Error if the kernel refuses
void adopt_orphans();

/// A process as /proc shows it.
struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string program;  ///< file name of the executable; empty if that cannot be seen
};

/// The living processes below @p root, without itself; parents come before their children.
std::vector<ProcessInfo> descendants_of(pid_t root);

}  // namespace reprieve::supervisor
