// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "cluster/communicator.hpp"
#include "cluster/mpi_channel.hpp"
#include "commands.hpp"
#include "curve.hpp"
#include "measure.hpp"
#include "options.hpp"
#include "pretend.hpp"
#include "ranks.hpp"
#include "report.hpp"
#include "reprieve/reprieve.hpp"
#include "scratch.hpp"
#include "workload.hpp"

namespace reprieve::bench {

namespace {

struct ScaleOptions {
  std::vector<int> ranks;
  std::vector<std::uint64_t> variables{10, 100, 1000, 10'000, 100'000};
  std::vector<double> sizes_mib{1, 4, 16, 64, 256};
  std::uint64_t small_bytes = 64;
  CommonOptions common{.rounds = 5, .directory = {}};
  std::vector<std::uint64_t> pretended;
  std::string shape = "grid";
};

std::vector<double> medians(MPI_Comm comm, const std::vector<Candidate>& candidates, int rounds) {
  std::vector<double> seconds;
  for (const Measurement& measurement : measure_interleaved(comm, candidates, rounds, 1)) {
    seconds.push_back(summarize(measurement.seconds).median);
  }
  return seconds;
}

/// Seconds of one reduction as a check makes it, back to back.
double measure_check(MPI_Comm comm, int rounds) {
  constexpr int kChecks = 200;
  cluster::Communicator ranks(comm, std::chrono::minutes(10));
  cluster::MpiReductionChannel channel(ranks);
  const cluster::AgreementVector mine = cluster::encode({.index = 1}, ranks.rank(), ranks.size());
  const Candidate checks{"checks", [&] {
                           for (int i = 0; i < kChecks; ++i) {
                             channel.post(mine);
                             static_cast<void>(channel.wait("check", std::chrono::minutes(10)));
                           }
                         }};
  return medians(comm, {checks}, rounds).front() / kChecks;
}

/// Saves and restores of one state; every save is durable and makes a new file.
std::vector<double> measure_state(MPI_Comm comm, const WorkloadSpec& spec, const std::filesystem::path& directory,
                                  int rounds) {
  Workload workload(spec, rank_in(comm), size_of(comm));
  CheckpointManager manager(comm, workload.checkpoint(), directory, {.max_to_keep = 1, .recycle = false});
  std::uint64_t number = 0;
  return medians(
      comm, {{"save", [&] { manager.save(++number); }}, {"restore", [&] { manager.restore(manager.latest()->path); }}},
      rounds);
}

/// A program that starts again: it opens the directory, restores, and saves for the first time. Then later saves, and
/// restores. Every save is durable and makes a new file.
std::vector<double> measure_restart(MPI_Comm comm, const WorkloadSpec& spec, const std::filesystem::path& directory,
                                    int rounds) {
  Workload workload(spec, rank_in(comm), size_of(comm));
  std::optional<CheckpointManager> manager;
  const auto open = [&] {
    manager.reset();  // gives the lock of the directory back
    manager.emplace(comm, workload.checkpoint(), directory, ManagerOptions{.max_to_keep = 1, .recycle = false});
  };
  const auto start = [&] { static_cast<void>(manager->restore_or_initialize()); };
  const auto save = [&] { manager->save(); };
  open();
  save();
  return medians(comm,
                 {{"start", start, open},
                  {"first save", save,
                   [&] {
                     open();
                     start();
                   }},
                  {"save", save},
                  {"restore", [&] { manager->restore(manager->latest()->path); }}},
                 rounds);
}

Curve over_ranks(const ScaleOptions& options) {
  Curve curve{"Number of ranks (16 MiB in all, durable)", "ranks", {{"check"}, {"save"}, {"restore"}}, {}};
  for (const int ranks : options.ranks) {
    const Scratch scratch(options.common.directory);
    const FirstRanks first(ranks);
    first.run([&] {
      Point point{static_cast<double>(ranks), {measure_check(first.comm(), options.common.rounds)}};
      const auto state =
          measure_state(first.comm(), {.large_mib = 16.0 / ranks}, scratch.path() / "run", options.common.rounds);
      point.values.insert(point.values.end(), state.begin(), state.end());
      curve.points.push_back(std::move(point));
    });
  }
  return curve;
}

Curve over_variables(const ScaleOptions& options) {
  Curve curve{fmt::format("Number of variables ({} bytes a rank each, durable)", options.small_bytes),
              "variables",
              {{"start"}, {"first save"}, {"save"}, {"restore"}},
              {}};
  for (const std::uint64_t count : options.variables) {
    const Scratch scratch(options.common.directory);
    const WorkloadSpec spec{.large_mib = 1, .small_count = count, .small_bytes = options.small_bytes};
    curve.points.push_back({static_cast<double>(count),
                            measure_restart(MPI_COMM_WORLD, spec, scratch.path() / "run", options.common.rounds)});
  }
  return curve;
}

Curve over_bytes(const ScaleOptions& options) {
  Curve curve{"Size of the state (one array, durable)", "MiB a rank", {{"save"}, {"restore"}}, {}};
  for (const double mib : options.sizes_mib) {
    const Scratch scratch(options.common.directory);
    curve.points.push_back(
        {mib, measure_state(MPI_COMM_WORLD, {.large_mib = mib}, scratch.path() / "run", options.common.rounds)});
  }
  return curve;
}

/// 1, 2, 4, ... and all.
std::vector<int> powers_of_two_up_to(int size) {
  std::vector<int> ranks;
  for (int n = 1; n < size; n *= 2) {
    ranks.push_back(n);
  }
  ranks.push_back(size);
  return ranks;
}

void run(ScaleOptions options, bool json) {
  if (!options.pretended.empty()) {
    run_pretended({options.pretended, options.variables, options.shape}, json);
    return;
  }
  const int size = size_of(MPI_COMM_WORLD);
  if (options.ranks.empty()) {
    options.ranks = powers_of_two_up_to(size);
  }
  const bool is_chief = rank_in(MPI_COMM_WORLD) == 0;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (is_chief && !json && size > cores) {
    fmt::print("{} ranks; this machine has {} cores: ranks beyond its cores wait for each other's turns.\n", size,
               cores);
  }
  Report report("scale");
  for (const auto& measure : {over_ranks, over_variables, over_bytes}) {
    const Curve curve = measure(options);
    if (!is_chief || curve.points.empty()) {
      continue;
    }
    add(report, curve);
    if (!json) {
      print(curve);
    }
  }
  if (is_chief && json) {
    report.print_json();
  }
}

}  // namespace

void add_scale_command(CLI::App& app, const bool& json) {
  auto options = std::make_shared<ScaleOptions>();
  CLI::App* command = app.add_subcommand(
      "scale", "How checks, saves and restores grow with the number of ranks, of variables and of bytes");
  command->add_option("--ranks", options->ranks, "Numbers of ranks (default: 1, 2, 4, ... and all)");
  command->add_option("--variables", options->variables, "Numbers of small variables")->capture_default_str();
  CLI::Option* pretend = command->add_option(
      "--pretend-ranks", options->pretended,
      "Numbers of ranks that are made up: what the chief and another rank compute, without messages and data");
  command->add_option("--shape", options->shape, "What the made-up ranks have of each variable")
      ->check(CLI::IsMember(pretended_shapes()))
      ->needs(pretend)
      ->capture_default_str();
  command->add_option("--small-bytes", options->small_bytes, "Their size, in bytes a rank")->capture_default_str();
  command->add_option("--sizes-mib", options->sizes_mib, "Sizes of the state, in MiB a rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_options(*command, options->common);
  command->callback([options, &json] { run(*options, json); });
}

}  // namespace reprieve::bench
