// SPDX-License-Identifier: BSD-3-Clause
#include "core/failpoint.hpp"

#ifdef REPRIEVE_FAILPOINTS

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
struct ArmedFailpoint {
  std::string point = variable("REPRIEVE_FAILPOINT");
  std::string victim = variable("REPRIEVE_KILL_RANK");
  std::string mark = variable("REPRIEVE_KILL_MARK");
  std::string rank = variable("OMPI_COMM_WORLD_RANK").empty() ? variable("PMI_RANK") : variable("OMPI_COMM_WORLD_RANK");
};

}  // namespace

void failpoint(Failpoint point) {
  static const ArmedFailpoint armed;
  if (point.name() != armed.point) {
    return;
  }
  const bool kills_parent = armed.victim == "mpirun" && armed.rank == "0";
  if (kills_parent || armed.victim == "all" || armed.victim == armed.rank) {
    std::ofstream(armed.mark) << point.name();
    ::kill(kills_parent ? ::getppid() : ::getpid(), SIGKILL);
  }
}

}  // namespace reprieve::core

#endif
