// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <memory>

#include "commands.hpp"
#include "options.hpp"
#include "ranks.hpp"
#include "report.hpp"
#include "reprieve/reprieve.hpp"
#include "scratch.hpp"
#include "statistics.hpp"
#include "workload.hpp"

namespace reprieve::bench {

namespace {

using Clock = std::chrono::steady_clock;

struct RegistersOptions {
  double mib = 16;
  CommonOptions common;
};

/// Plain SSE code, if this program is compiled for the basic x86-64: it mixes into what the registers hold, and waits
/// for their upper halves if these are in use. @return what it computed, so that no compiler leaves it out
double plain_work() {
  constexpr int kIterations = 2'000'000;
  std::array<double, 4> values{1.0, 2.0, 3.0, 4.0};
  for (int i = 0; i < kIterations; ++i) {
    for (double& value : values) {
      value = value * 0.999999 + static_cast<double>(i) * 1e-9;
    }
  }
  return values[0] + values[1] + values[2] + values[3];
}

double seconds_of_work() {
  static volatile double sink = 0;
  const auto start = Clock::now();
  sink = sink + plain_work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void clean_registers() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx") != 0) {
    asm volatile("vzeroupper");
  }
#endif
}

/// Seconds of the same work, one of each per round.
struct Times {
  std::vector<double> before;
  std::vector<double> after_save;
  std::vector<double> after_restore;
};

Times measure(Workload& workload, const std::filesystem::path& directory, int rounds) {
  CheckpointManager manager(MPI_COMM_WORLD, workload.checkpoint(), directory, {.max_to_keep = 1});
  Times times;
  for (int round = 0; round <= rounds; ++round) {
    clean_registers();
    const double before = seconds_of_work();
    manager.save(static_cast<std::uint64_t>(round) + 1);
    const double after_save = seconds_of_work();
    manager.restore_or_initialize();
    const double after_restore = seconds_of_work();
    if (round > 0) {  // the first one warms up
      times.before.push_back(before);
      times.after_save.push_back(after_save);
      times.after_restore.push_back(after_restore);
    }
  }
  return times;
}

void run(const RegistersOptions& options, bool json) {
  const int rank = rank_in(MPI_COMM_WORLD);
  const Scratch scratch(options.common.directory);
  Workload workload({.large_mib = options.mib}, rank, size_of(MPI_COMM_WORLD));
  const Times times = measure(workload, scratch.path() / "run", options.common.rounds);
  const double before = summarize(times.before).median;
  Table table("The program's own SSE code on rank 0", {"when", "median", "of before"});
  Report report("registers");
  const auto add = [&](const char* when, const std::vector<double>& seconds) {
    const double median = summarize(seconds).median;
    table.add_row({when, format_seconds(median), fmt::format("{:.3f}", median / before)});
    report.add({{"when", when}, {"median_s", median}, {"ratio", median / before}});
  };
  add("before", times.before);
  add("after a save", times.after_save);
  add("after a restore", times.after_restore);
  if (rank == 0) {
    json ? report.print_json() : table.print();
  }
}

}  // namespace

void add_registers_command(CLI::App& app, const bool& json) {
  auto options = std::make_shared<RegistersOptions>();
  CLI::App* command = app.add_subcommand(
      "registers", "Whether the program's own arithmetic is as fast after saves and restores as before them");
  command->add_option("--size-mib", options->mib, "Size of the state, in MiB a rank")->capture_default_str();
  add_options(*command, options->common);
  command->callback([options, &json] { run(*options, json); });
}

}  // namespace reprieve::bench
