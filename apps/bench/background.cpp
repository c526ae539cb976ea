// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "commands.hpp"
#include "measure.hpp"
#include "options.hpp"
#include "ranks.hpp"
#include "report.hpp"
#include "reprieve/reprieve.hpp"
#include "scratch.hpp"
#include "step_loops.hpp"
#include "workload.hpp"

namespace reprieve::bench {

namespace {

struct BackgroundOptions {
  std::vector<double> sizes_mib{64, 512};
  double loop_s = 0.3;
  CommonOptions common;
};

/// Saves of one workload, and what they are compared with.
class BackgroundSaves {
 public:
  BackgroundSaves(Workload& workload, const std::filesystem::path& directory, double loop_s)
      : workload_(workload),
        manager_(MPI_COMM_WORLD, workload.checkpoint(), directory, {.max_to_keep = 1}),
        copy_(workload.bytes().size()),
        iterations_(work_.iterations(loop_s)) {}

  [[nodiscard]] std::vector<Candidate> candidates() {
    const auto nothing_under_way = [this] { manager_.finish_background_save(); };
    const auto all_written = [this] {
      begin();
      while (!manager_.background_save_written()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
    return {{"memcpy of the state", [this] { std::memcpy(copy_.data(), workload_.bytes().data(), copy_.size()); },
             nothing_under_way},
            {"to begin a save in the background", [this] { begin(); }, nothing_under_way},
            {"to commit it once it is written", [this] { manager_.finish_background_save(); }, all_written},
            {"to begin it and wait for the commit",
             [this] {
               begin();
               manager_.finish_background_save();
             },
             nothing_under_way},
            {"an ordinary save", [this] { manager_.save(++number_); }, nothing_under_way},
            {"a loop of work", [this] { Work::run(iterations_); }, nothing_under_way},
            {"the same loop while a save is written", [this] { Work::run(iterations_); }, [this] { begin(); }}};
  }

 private:
  void begin() {
    CheckpointManager::SaveRequest request;
    request.number = ++number_;
    manager_.save_in_background(request);
  }

  Workload& workload_;
  CheckpointManager manager_;
  std::vector<std::byte> copy_;
  Work work_;
  std::uint64_t iterations_;
  std::uint64_t number_ = 0;
};

void report_saves(const WorkloadSpec& spec, const Workload& workload, const std::vector<Candidate>& candidates,
                  const std::vector<Measurement>& measured, Report& report, Table& table) {
  std::vector<Summary> times;
  for (const Measurement& measurement : measured) {
    times.push_back(summarize(measurement.seconds));
  }
  const std::size_t loop = candidates.size() - 2;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::size_t reference = i < loop ? 0 : loop;
    const double ratio = times[i].median / times[reference].median;
    table.add_row({candidates[i].name, format_seconds(times[i].median),
                   format_seconds(times[i].low) + " .. " + format_seconds(times[i].high),
                   fmt::format("{:.3f} of {}", ratio, reference == 0 ? "memcpy" : "the loop")});
    report.add({{"workload", spec.name()},
                {"bytes", workload.total_bytes()},
                {"what", candidates[i].name},
                {"median_s", times[i].median},
                {"low_s", times[i].low},
                {"high_s", times[i].high},
                {"of", candidates[reference].name},
                {"ratio", ratio}});
  }
}

void run(const BackgroundOptions& options, bool json) {
  const int rank = rank_in(MPI_COMM_WORLD);
  const int size = size_of(MPI_COMM_WORLD);
  Report report("background");
  for (const double mib : options.sizes_mib) {
    const Scratch scratch(options.common.directory);
    const WorkloadSpec spec{.large_mib = mib};
    Workload workload(spec, rank, size);
    BackgroundSaves saves(workload, scratch.path() / "run", options.loop_s);
    const auto candidates = saves.candidates();
    const auto measured = measure_interleaved(MPI_COMM_WORLD, candidates, options.common.rounds, 2);
    Table table("Saves in the background: " + spec.name(), {"what", "median", "quartiles", "ratio"});
    report_saves(spec, workload, candidates, measured, report, table);
    if (rank == 0 && !json) {
      table.print();
    }
  }
  if (rank == 0 && json) {
    report.print_json();
  }
}

}  // namespace

void add_background_command(CLI::App& app, const bool& json) {
  auto options = std::make_shared<BackgroundOptions>();
  CLI::App* command = app.add_subcommand(
      "background", "For how long a save in the background stops the program, and how much it slows it down");
  command->add_option("--sizes-mib", options->sizes_mib, "Sizes of the state, in MiB a rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--loop-seconds", options->loop_s, "Length of the loop of work")->capture_default_str();
  add_options(*command, options->common);
  command->callback([options, &json] { run(*options, json); });
}

}  // namespace reprieve::bench
