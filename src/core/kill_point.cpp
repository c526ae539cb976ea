// SPDX-License-Identifier: BSD-3-Clause
#include "core/kill_point.hpp"

#ifdef REPRIEVE_KILL_POINTS

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace reprieve::core {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// What the test wants, read once.
struct ArmedKillPoint {
  std::string point = variable("REPRIEVE_KILL_POINT");
  std::string victim = variable("REPRIEVE_KILL_RANK");
  std::string mark = variable("REPRIEVE_KILL_MARK");
  std::string rank = variable("OMPI_COMM_WORLD_RANK").empty() ? variable("PMI_RANK") : variable("OMPI_COMM_WORLD_RANK");
};

}  // namespace

void kill_point(KillPoint point) {
  static const ArmedKillPoint armed;
  if (kKillPointNames.at(static_cast<std::size_t>(point)) != armed.point) {
    return;
  }
  const bool kills_parent = armed.victim == "mpirun" && armed.rank == "0";
  if (kills_parent || armed.victim == "all" || armed.victim == armed.rank) {
    std::ofstream(armed.mark) << kKillPointNames.at(static_cast<std::size_t>(point));
    ::kill(kills_parent ? ::getppid() : ::getpid(), SIGKILL);
  }
}

}  // namespace reprieve::core

#endif
