// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "commands.hpp"
#include "options.hpp"
#include "ranks.hpp"
#include "report.hpp"
#include "save_candidates.hpp"
#include "scratch.hpp"
#include "storage/bytes/checksum.hpp"

namespace reprieve::bench {

namespace {

struct SaveOptions {
  std::vector<double> sizes_mib{1, 64, 512};
  SmallVariables small;
  double uneven_mib = 256;
  ScatteredRows rows;
  bool huge_pages = false;
  std::vector<std::string> only;
  int placements = 3;
  CommonOptions common;
};

std::vector<WorkloadSpec> workloads(const SaveOptions& options) {
  std::vector<WorkloadSpec> specs;
  for (const double mib : options.sizes_mib) {
    specs.push_back({.large_mib = mib});
  }
  if (options.small.count > 0) {
    specs.push_back({.large_mib = options.small.large_mib, .small_count = options.small.count});
  }
  if (options.uneven_mib > 0) {
    specs.push_back({.large_mib = options.uneven_mib, .uneven = true});
  }
  if (options.rows.mib > 0) {
    specs.push_back({.large_mib = options.rows.mib, .row_bytes = options.rows.row_bytes});
  }
  if (options.rows.grid_mib > 0) {
    specs.push_back({.large_mib = options.rows.grid_mib, .grid = true});
  }
  for (WorkloadSpec& spec : specs) {
    spec.huge_pages = options.huge_pages;
  }
  return specs;
}

/// The best median of the raw paths of a kind; infinite if none was measured.
double limit_of(const std::vector<SavePath>& paths, const std::vector<Summary>& summaries, Limit kind) {
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (paths[i].is_limit_for == kind) {
      best = std::min(best, summaries[i].median);
    }
  }
  return best;
}

/// "0.97" of the limit's speed.
std::string ratio(double limit, double seconds) {
  return limit < std::numeric_limits<double>::max() ? fmt::format("{:.2f}", limit / seconds) : "-";
}

/// Seconds to compute the checksum of one rank's part in memory: what the checksums would cost if they hid behind
/// nothing.
double checksum_seconds(Workload& workload) {
  std::uint64_t all = 0;  // used, so that the compiler keeps the work
  const Candidate checksum{"checksum", [&] { all ^= storage::xxh3(workload.bytes()); }};
  const double seconds = summarize(measure_interleaved(MPI_COMM_WORLD, {checksum}, 5, 1).front().seconds).median;
  return all == 1 ? 0 : seconds;
}

void report_workload(const WorkloadSpec& spec, Workload& workload, const std::vector<SavePath>& paths,
                     const std::vector<Measurement>& measured, Report& report, std::vector<Table>& tables) {
  std::vector<Summary> summaries;
  for (const Measurement& measurement : measured) {
    summaries.push_back(summarize(measurement.seconds));
  }
  const double limit_new = limit_of(paths, summaries, Limit::new_file);
  const double limit_rewrite = limit_of(paths, summaries, Limit::rewritten_file);
  const double checksum = checksum_seconds(workload);
  const auto total = static_cast<double>(workload.total_bytes());
  Table& table = tables.emplace_back(
      fmt::format("Until {} are durable (the checksums alone take {} a rank)", spec.name(), format_seconds(checksum)),
      std::vector<std::string>{"path", "median", "quartiles", "GiB/s", "of the limit, new", "of the limit, rewritten",
                               "checksums", "memory"});
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Summary& time = summaries[i];
    const Candidate& path = paths[i].candidate;
    table.add_row({path.name, format_seconds(time.median),
                   format_seconds(time.low) + " .. " + format_seconds(time.high),
                   fmt::format("{:.2f}", total / time.median / (1U << 30U)), ratio(limit_new, time.median),
                   ratio(limit_rewrite, time.median), path.checksums ? "yes" : "no",
                   fmt::format("{:.1f} MiB", static_cast<double>(measured[i].memory_bytes) / (1U << 20U))});
    report.add({{"workload", spec.name()},
                {"bytes", workload.total_bytes()},
                {"path", path.name},
                {"checksums", path.checksums},
                {"median_s", time.median},
                {"low_s", time.low},
                {"high_s", time.high},
                {"rounds", time.count},
                {"of_limit_new", limit_new / time.median},
                {"of_limit_rewritten", limit_rewrite / time.median},
                {"checksum_s", checksum},
                {"memory_bytes", measured[i].memory_bytes}});
  }
}

/// The runs of all placements together.
void append(std::vector<Measurement>& to, const std::vector<Measurement>& from) {
  to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i].seconds.insert(to[i].seconds.end(), from[i].seconds.begin(), from[i].seconds.end());
    to[i].memory_bytes = std::max(to[i].memory_bytes, from[i].memory_bytes);
  }
}

void run(const SaveOptions& options, bool json) {
  const int rank = rank_in(MPI_COMM_WORLD);
  const int size = size_of(MPI_COMM_WORLD);
  Report report("save");
  std::vector<Table> tables;
  for (const WorkloadSpec& spec : workloads(options)) {
    Workload workload(spec, rank, size);
    std::vector<SavePath> paths;
    std::vector<Measurement> measured;
    for (int placement = 0; placement < options.placements; ++placement) {
      const Scratch scratch(options.common.directory);
      paths = save_paths(workload, scratch.path());
      std::erase_if(paths, [&](const SavePath& path) { return !is_wanted(path.candidate.name, options.only); });
      std::vector<Candidate> candidates;
      for (const SavePath& path : paths) {
        candidates.push_back(path.candidate);
      }
      const int rounds = (options.common.rounds + options.placements - 1) / options.placements;
      append(measured, measure_interleaved(MPI_COMM_WORLD, candidates, rounds, 2));
      for (SavePath& path : paths) {  // their managers let go of the files before these are removed
        path.candidate.run = {};
        path.candidate.prepare = {};
      }
    }
    report_workload(spec, workload, paths, measured, report, tables);
    if (rank == 0 && !json) {
      tables.back().print();
    }
  }
  if (rank == 0 && json) {
    report.print_json();
  }
}

}  // namespace

void add_save_command(CLI::App& app, const bool& json) {
  auto options = std::make_shared<SaveOptions>();
  CLI::App* command =
      app.add_subcommand("save", "Time until a state is durable, by every path, against the raw limit of the disk");
  command->add_option("--sizes-mib", options->sizes_mib, "Sizes of one large array, in MiB a rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_options(*command, options->small);
  command->add_option("--uneven-mib", options->uneven_mib, "Mean size of uneven parts, in MiB a rank; 0: leave out")
      ->capture_default_str();
  add_options(*command, options->rows);
  command->add_flag(
      "--huge-pages", options->huge_pages,
      "Put the state into huge pages of memory, where Reprieve's buffers and what the raw paths write always are");
  command->add_option("--only", options->only, "Paths with one of these texts in their name");
  command
      ->add_option(
          "--placements", options->placements,
          "Times to begin anew with other files; the rounds are shared out among them. Where a file lies on the "
          "disk decides how fast it is written over, for as long as it is there")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  add_options(*command, options->common);
  command->callback([options, &json] { run(*options, json); });
}

}  // namespace reprieve::bench
