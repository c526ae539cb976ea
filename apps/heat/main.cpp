// SPDX-License-Identifier: BSD-3-Clause
// reprieve-heat: the heat equation on a grid with ghost layers, on any number of ranks.

#include <iostream>
#include <memory>
#include <reprieve/xdmf.hpp>

#include "common/program.hpp"
#include "heat/options.hpp"
#include "heat/report.hpp"
#include "heat/simulation.hpp"

namespace {

using namespace heat;  // NOLINT(google-build-using-namespace): the program is nothing else

constexpr const char* kName = "reprieve-heat";

/// For ParaView. A run is not ended for the sake of its pictures.
void describe_checkpoints(const Options& options, const Grid& grid) {
  reprieve::XdmfOptions xdmf{.time_variable = "progress/time"};
  for (std::size_t d = 0; d < kDimensions; ++d) {
    xdmf.origin.push_back(grid.coordinate(d, 0));
    xdmf.spacing.push_back(grid.spacing(d));
  }
  try {
    reprieve::write_xdmf(options.settings.directory, options.xdmf, xdmf);
  } catch (const reprieve::Error& error) {
    std::cerr << kName << ": ParaView will not see the checkpoints: " << error.what() << std::endl;
  }
}

/// Computes until the end or until a preemption ends the process. Collective.
int run(int argc, const char* const* argv, MPI_Comm comm) {
  const apps::Ranks world(comm);
  Options options;
  if (!apps::read_options(world, options, [&] { options = parse_options(argc, argv); })) {
    return 0;
  }
  // Its collective calls come after all that can fail on all ranks alike, and before what can fail on one (memory).
  std::unique_ptr<Simulation> simulation;
  world.on_every_rank([&] { simulation = std::make_unique<Simulation>(options, comm); });
  const apps::Ranks ranks(simulation->topology().comm());
  Report report(ranks.is_chief(), options);
  report.start(*simulation, ranks.size());
  apps::Job(options, kName, "simulation", *simulation, report, ranks, [&] {
    if (ranks.is_chief() && !options.xdmf.empty()) {
      describe_checkpoints(options, simulation->grid());
    }
  }).run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return apps::run_program(kName, argc, argv, run); }
