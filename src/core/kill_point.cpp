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
struct Wish {
  std::string point = variable("REPRIEVE_KILL_POINT");
  std::string victim = variable("REPRIEVE_KILL_RANK");
  std::string mark = variable("REPRIEVE_KILL_MARK");
  std::string rank = variable("OMPI_COMM_WORLD_RANK").empty() ? variable("PMI_RANK") : variable("OMPI_COMM_WORLD_RANK");
};

}  // namespace

void kill_point(KillPoint point) {
  static const Wish wish;
  if (kKillPointNames.at(static_cast<std::size_t>(point)) != wish.point) {
    return;
  }
  const bool kills_parent = wish.victim == "mpirun" && wish.rank == "0";
  if (kills_parent || wish.victim == "all" || wish.victim == wish.rank) {
    std::ofstream(wish.mark) << kKillPointNames.at(static_cast<std::size_t>(point));
    ::kill(kills_parent ? ::getppid() : ::getpid(), SIGKILL);
  }
}

}  // namespace reprieve::core

#endif
