// SPDX-License-Identifier: BSD-3-Clause
#include "heat/report.hpp"

#include <fmt/format.h>

#include <iostream>
#include <reprieve/version.hpp>

#include "common/text.hpp"

namespace heat {
namespace {

using apps::format_duration;
using Seconds = std::chrono::duration<double>;

/// How large the error is, and how large it must be.
std::string error_text(const Summary& summary) {
  return fmt::format("error {:.3e} (of the scheme: {:.3e})", summary.error, summary.expected_error);
}

}  // namespace

Summary summary_of(const Simulation& simulation) {
  return {{},
          simulation.topology().ranks(),
          simulation.steps_done(),
          simulation.time(),
          simulation.digest(),
          simulation.error(),
          simulation.expected_error()};
}

apps::Json to_json(const Summary& summary) {
  using apps::Json;
  const auto& restored = summary.restored_digest;
  return {
      {"status", summary.preemption ? "preempted" : "finished"},
      {"world_size", summary.world_size},
      {"ranks", {summary.ranks[2], summary.ranks[1], summary.ranks[0]}},
      {"step", summary.step},
      {"time", summary.time},
      {"restored_from", summary.restored_from ? Json(*summary.restored_from) : Json()},
      {"restored_digest", restored ? Json(fmt::format("{:016x}", *restored)) : Json()},
      {"digest", fmt::format("{:016x}", summary.digest)},
      {"error", summary.error},
      {"expected_error", summary.expected_error},
      {"preemption", summary.preemption ? apps::to_json(*summary.preemption) : Json()},
  };
}

Report::Report(bool is_chief, const Options& options) : is_chief_(is_chief), options_(options) {}

void Report::start(const Simulation& simulation, int world_size) {
  if (!is_chief_) {
    return;
  }
  const Parameters& parameters = simulation.parameters();
  std::cout << fmt::format(
                   "reprieve-heat {}: {} points, {} boundaries, on {} ({})\n"
                   "time step {:.3e}, {} steps\n"
                   "checkpoints: {}",
                   REPRIEVE_VERSION, text_of(simulation.grid().points), to_string(parameters.boundary),
                   apps::ranks_text(world_size), text_of(simulation.topology().ranks()), parameters.time_step,
                   options_.steps, options_.settings.directory)
            << std::endl;
}

void Report::resumed(const reprieve::CheckpointInfo& from, const Simulation& simulation, std::uint64_t digest) {
  first_step_ = simulation.steps_done();
  start_ = last_line_ = Clock::now();
  if (is_chief_) {
    std::cout << apps::resumed_text(from)
              << fmt::format("step {}, time {:.3e}, field {:016x}", first_step_, simulation.time(), digest)
              << std::endl;
  }
}

void Report::after_step(const Simulation& simulation) {
  if (!is_chief_ || options_.progress_interval.count() == 0) {
    return;
  }
  const auto now = Clock::now();
  if (now - last_line_ < options_.progress_interval || simulation.finished()) {
    return;
  }
  last_line_ = now;
  const std::uint64_t step = simulation.steps_done();
  const Seconds step_time = Seconds(now - start_) / static_cast<double>(step - first_step_);
  const double points_per_s = static_cast<double>(simulation.grid().size()) / step_time.count();
  std::cout << fmt::format("step {:>{}}/{}  time {:.3e}  {:.1f} M points/s  eta {}", step,
                           std::to_string(options_.steps).size(), options_.steps, simulation.time(), points_per_s / 1e6,
                           format_duration(step_time * static_cast<double>(options_.steps - step)))
            << std::endl;
}

void Report::preempted(const Summary& summary, int exit_code) const {
  if (is_chief_ && summary.preemption) {
    apps::print(*summary.preemption, exit_code);
    std::cout << fmt::format("field {:016x}, {}", summary.digest, error_text(summary)) << std::endl;
  }
}

void Report::finished(const Summary& summary, bool had_nothing_to_do) const {
  if (!is_chief_) {
    return;
  }
  if (had_nothing_to_do) {
    std::cout << "nothing left to do: ask for more --steps, or for another --checkpoint-dir\n";
  }
  std::cout << fmt::format("finished: {} steps, time {:.3e}, {}, field {:016x}, {}", summary.step, summary.time,
                           error_text(summary), summary.digest, format_duration(Clock::now() - start_))
            << std::endl;
}

}  // namespace heat
