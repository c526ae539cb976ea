// SPDX-License-Identifier: BSD-3-Clause
// reprieve-heat: the heat equation on a grid with ghost layers, on any number of ranks.

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <reprieve/version.hpp>
#include <reprieve/xdmf.hpp>

#include "common/program.hpp"
#include "heat/simulation.hpp"

namespace heat {
namespace {

constexpr const char* kName = "reprieve-heat";

/// What a person sees of a run, on standard output of rank 0.
class Report {
 public:
  explicit Report(const Options& options) : options_(options) {}

  void start(const Simulation& simulation, int world_size) const {
    const Parameters& parameters = simulation.parameters();
    std::cout << fmt::format(
                     "{} {}: {} points, {} boundaries, on {} ({})\n"
                     "time step {:.3e}, {} steps\n"
                     "checkpoints: {}",
                     kName, REPRIEVE_VERSION, text_of(simulation.grid().points), to_string(parameters.boundary),
                     apps::ranks_text(world_size), text_of(simulation.topology().ranks()), parameters.time_step,
                     options_.steps, options_.settings.directory)
              << std::endl;
  }

  void resumed(const reprieve::CheckpointInfo& from, const Simulation& simulation, std::uint64_t digest) {
    first_step_ = simulation.steps_done();
    start_ = last_line_ = Clock::now();
    std::cout << apps::resumed_text(from)
              << fmt::format("step {}, time {:.3e}, field {:016x}", first_step_, simulation.time(), digest)
              << std::endl;
  }

  /// To be called after every step; prints a line now and then.
  void after_step(const Simulation& simulation) {
    const auto now = Clock::now();
    if (options_.progress_interval.count() == 0 || now - last_line_ < options_.progress_interval ||
        simulation.finished()) {
      return;
    }
    last_line_ = now;
    const std::uint64_t step = simulation.steps_done();
    const Seconds step_time = Seconds(now - start_) / static_cast<double>(step - first_step_);
    const double points_per_s = static_cast<double>(simulation.grid().size()) / step_time.count();
    std::cout << fmt::format("step {:>{}}/{}  time {:.3e}  {:.1f} M points/s  eta {}", step,
                             std::to_string(options_.steps).size(), options_.steps, simulation.time(),
                             points_per_s / 1e6,
                             apps::format_duration(step_time * static_cast<double>(options_.steps - step)))
              << std::endl;
  }

  void preempted(const Summary& summary, int exit_code) const {
    apps::print(*summary.preemption, exit_code);
    std::cout << fmt::format("field {:016x}, {}", summary.digest, error_text(summary)) << std::endl;
  }

  void finished(const Summary& summary, bool had_nothing_to_do) const {
    if (had_nothing_to_do) {
      std::cout << "nothing left to do: ask for more --steps, or for another --checkpoint-dir\n";
    }
    std::cout << fmt::format("finished: {} steps, time {:.3e}, {}, field {:016x}, {}", summary.step, summary.time,
                             error_text(summary), summary.digest, apps::format_duration(Clock::now() - start_))
              << std::endl;
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  /// How large the error is, and how large it must be.
  static std::string error_text(const Summary& summary) {
    return fmt::format("error {:.3e} (of the scheme: {:.3e})", summary.error, summary.expected_error);
  }

  const Options& options_;
  std::uint64_t first_step_ = 0;  ///< steps done before this process began
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_line_ = start_;
};

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
  Report report(options);
  if (ranks.is_rank_0()) {
    report.start(*simulation, ranks.size());
  }
  apps::Job(options, kName, *simulation, report, ranks, [&] {
    if (ranks.is_rank_0() && !options.xdmf.empty()) {
      describe_checkpoints(options, simulation->grid());
    }
  }).run();
  return 0;
}

}  // namespace
}  // namespace heat

int main(int argc, char** argv) { return apps::run_program(heat::kName, argc, argv, heat::run); }
