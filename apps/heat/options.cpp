// SPDX-License-Identifier: BSD-3-Clause
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <vector>

#include "heat/simulation.hpp"

namespace heat {
namespace {

using apps::between;

constexpr const char* kDescription =
    "Solves the heat equation in a cube, on any number of MPI ranks, and survives preemption: a SIGTERM or SIGUSR1 to\n"
    "any rank makes all ranks save one checkpoint and leave with exit code 42; the same command, on as many ranks as "
    "you\n"
    "like, then continues where it stopped and comes to the same bits. The start is a product of sines, whose decay "
    "is\n"
    "known: at the end the error is printed beside the one that the scheme must have.";

constexpr const char* kExamples = R"(Examples:
  On 4 ranks, with checkpoints in ./checkpoints, and again to see that there is nothing left to do:
    mpirun -n 4 reprieve-heat
  Steps slow enough to watch, a preemption from another terminal (one rank is enough), and on with 3 ranks:
    mpirun -n 4 reprieve-heat --step-delay-ms 5 --checkpoint-dir run1
    kill -TERM $(pgrep -n reprieve-heat)
    mpirun -n 3 reprieve-heat --step-delay-ms 5 --checkpoint-dir run1
  A slab with periodic boundaries, split along z alone, a checkpoint every 500 steps:
    mpirun -n 4 reprieve-heat --grid 128,128,16 --boundary periodic --modes 2,1,1 --ranks 1,1,0 --checkpoint-every 500
  Options from a file, one of them overridden, the result as JSON:
    mpirun -n 4 reprieve-heat --config heat.json --steps 500 --summary summary.json
Exit codes: 0 finished, 42 preempted and saved (start me again), 2 wrong options, 1 any other error.
The file is JSON: these options in its section "heat", as in {"heat": {"grid": [64, 64, 64], "steps": 500}}; settings of
the library in its other sections, and in REPRIEVE_... variables as well.)";

/// An option of three numbers: x,y,z as people name them, z, y, x as they lie in memory and in the file.
CLI::Option* add_three(CLI::App& app, const std::string& name, std::array<std::uint64_t, kDimensions>& values,
                       const std::string& help) {
  const auto store = [&values](const std::vector<std::uint64_t>& given) {
    std::reverse_copy(given.begin(), given.end(), values.begin());
  };
  const std::string start =
      std::to_string(values[2]) + "," + std::to_string(values[1]) + "," + std::to_string(values[0]);
  return app.add_option_function<std::vector<std::uint64_t>>(name, store, help)
      ->delimiter(',')
      ->expected(static_cast<int>(kDimensions))
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw)  // of "1,2,3,4" the last three would be taken
      ->option_text("X,Y,Z=" + start);
}

void add_equation_options(CLI::App& app, Options& options) {
  constexpr std::uint64_t kMostPoints = 1'000'000;
  const std::map<std::string, Boundary> boundaries{{"dirichlet", Boundary::dirichlet},
                                                   {"periodic", Boundary::periodic}};
  add_three(app, "--grid", options.points, "points per dimension")->check(between(std::uint64_t{1}, kMostPoints));
  app.add_option("--boundary", options.boundary, "zero on the surface of the cube, or periodic")
      ->transform(CLI::CheckedTransformer(boundaries).description(""))
      ->default_str("dirichlet")
      ->type_name("dirichlet|periodic");
  add_three(app, "--modes", options.modes, "half waves (periodic: waves) of the initial temperature")
      ->check(between(std::uint64_t{1}, kMostPoints));
  app.add_option("--diffusivity", options.diffusivity, "how fast heat spreads, in cubes' edges squared per time")
      ->capture_default_str()
      ->check(between(1e-12, 1e12));
  app.add_option("--time-step", options.time_step_fraction, "as a fraction of the longest that is stable")
      ->option_text("FRACTION=0.9")
      ->check(between(1e-6, 1.0));
  app.add_option("--steps", options.steps, "when to stop, counted over all restarts")
      ->capture_default_str()
      ->check(between(std::uint64_t{1}, std::uint64_t{1'000'000'000'000}));
  add_three(app, "--ranks", options.ranks, "ranks per dimension; 0: as MPI likes")
      ->check(between(std::uint64_t{0}, kMostPoints));
  app.add_option(
         "--xdmf", options.xdmf,
         "side file with which ParaView opens the checkpoints; \"none\": do not write it (default: heat.xdmf in\n"
         "the checkpoint directory)")
      ->type_name("FILE");
}

/// The file for ParaView, where the checkpoints are known.
std::filesystem::path xdmf_file(const Options& options) {
  if (options.xdmf.empty()) {
    return std::filesystem::path(options.settings.directory) / "heat.xdmf";
  }
  return options.xdmf == "none" ? std::filesystem::path() : options.xdmf;
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  double progress_s = 2;
  apps::CommandLine line(kDescription, "reprieve-heat", "heat");
  line.app().footer(kExamples);
  add_equation_options(line.app(), options);
  line.app()
      .add_option("--progress", progress_s, "time between lines of progress; 0: none")
      ->option_text("SECONDS=2")
      ->check(between(0.0, 1e6));
  line.add_common_options(options);
  line.parse(argc, argv, options);
  if (options.answer.empty()) {
    options.progress_interval = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * progress_s));
    options.xdmf = xdmf_file(options);
  }
  return options;
}

}  // namespace heat
