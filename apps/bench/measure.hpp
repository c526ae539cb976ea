// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The measuring frame of all benchmarks: candidates are timed in turn, and each time is compared with a limit.

#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace reprieve::bench {

// The subcommands. They run when the command line is parsed. Collective over MPI_COMM_WORLD.

/// @param json  whether to print JSON; read when a benchmark runs
void add_step_command(CLI::App& app, const bool& json);
void add_save_command(CLI::App& app, const bool& json);
void add_background_command(CLI::App& app, const bool& json);
void add_local_command(CLI::App& app, const bool& json);
void add_restore_command(CLI::App& app, const bool& json);
void add_scale_command(CLI::App& app, const bool& json);

// What benchmarks ask of MPI.

[[nodiscard]] int rank_in(MPI_Comm comm);
[[nodiscard]] int size_of(MPI_Comm comm);

/// Returns when all ranks are here. Collective.
void barrier(MPI_Comm comm);

/// The greatest of all ranks' values. Collective.
[[nodiscard]] double greatest(MPI_Comm comm, double mine);

/// A part of MPI_COMM_WORLD: the first @p ranks ranks. The others sleep in `run` until these are done.
class FirstRanks {
 public:
  explicit FirstRanks(int ranks);
  ~FirstRanks();
  FirstRanks(const FirstRanks&) = delete;
  FirstRanks& operator=(const FirstRanks&) = delete;

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }

  /// Runs @p work on the members; returns on every rank of the world when all are through. Waiting ranks leave the
  /// processors alone.
  void run(const std::function<void()>& work) const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// A directory that rank 0 makes below @p parent (default: the system's for temporary files), the same path on every
/// rank, removed at the end. Construction and destruction are collective over MPI_COMM_WORLD.
class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& parent);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

struct CommonOptions {
  int rounds = 9;
  std::filesystem::path directory;
};

void add_options(CLI::App& command, CommonOptions& options);
/// Sizes of the state. They are greater than zero.
void add_sizes(CLI::App& command, std::vector<double>& sizes_mib);

/// Statistics of repeated measurements.
struct Summary {
  double median = 0;
  double low = 0;   ///< first quartile
  double high = 0;  ///< third quartile
  double max = 0;
  std::size_t count = 0;
};

/// The quantile by linear interpolation between the two nearest values.
inline double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto above = std::min(below + 1, sorted.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return sorted[below] * (1 - fraction) + sorted[above] * fraction;
}

/// @param values  at least one
inline Summary summarize(std::vector<double> values) {
  if (values.empty()) {
    throw std::invalid_argument("no measurement to summarise");
  }
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75), values.back(), values.size()};
}

/// The exponent k of the power law y ~ x^k that fits best: least squares in logarithms.
/// @param xs, ys  two or more, greater than zero; not all xs are equal
inline double fitted_exponent(const std::vector<double>& xs, const std::vector<double>& ys) {
  const auto n = static_cast<double>(xs.size());
  double mean_x = 0;
  double mean_y = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    mean_x += std::log(xs[i]) / n;
    mean_y += std::log(ys[i]) / n;
  }
  double covariance = 0;
  double variance = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double x = std::log(xs[i]) - mean_x;
    covariance += x * (std::log(ys[i]) - mean_y);
    variance += x * x;
  }
  return covariance / variance;
}

/// "1.2 ms .. 1.4 ms".
[[nodiscard]] std::string quartiles(const Summary& summary);

/// Begins to look for the greatest resident memory of this process. @return the present one, in bytes
std::uint64_t reset_peak_memory();
/// The greatest one since then, in bytes.
[[nodiscard]] std::uint64_t peak_memory();

// Results: tables for people, or one JSON array for programs.

using Row = std::vector<std::string>;

/// What one benchmark found. Rank 0 prints; the other ranks' reports do nothing.
class Report {
 public:
  /// @param benchmark  its name, kept in every JSON record
  Report(std::string benchmark, bool json) : benchmark_(std::move(benchmark)), json_(json) {}
  /// A table with a title, which is printed at once. The first column names the rows, the others are figures.
  void table(const std::string& title, const Row& columns, const std::vector<Row>& rows) const;
  void record(nlohmann::json record);
  /// A remark for people.
  void remark(const std::string& text) const;
  /// Prints all records if JSON is wanted.
  void finish() const;

 private:
  std::string benchmark_;
  bool json_;
  nlohmann::json records_ = nlohmann::json::array();
};

/// Adds the subcommand @p name, which calls @p run with its options; their `common` ones are added here.
template <class Options>
std::pair<CLI::App*, std::shared_ptr<Options>> add_command(CLI::App& app, const bool& json, const char* name,
                                                           const char* meaning, void (*run)(const Options&, Report&)) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(name, meaning);
  add_options(*command, options->common);
  command->callback([name, run, options, &json] {
    Report report(name, json);
    run(*options, report);
    report.finish();
  });
  return {command, options};
}

/// One way to do what is measured. Both functions are called by all ranks of the communicator.
struct Candidate {
  std::string name;
  std::function<void()> run;           ///< timed
  std::function<void()> prepare = {};  ///< not timed, before every run; may be empty
  /// The candidate or the limit that it is compared with; empty: none.
  std::string reference = {};
  /// The fastest candidate of one name here is the limit of this name.
  std::string limit = {};
  std::string note = {};  ///< printed beside the time
};

/// Removes those whose name has none of these texts in it; no texts keep all.
void keep_wanted(std::vector<Candidate>& candidates, const std::vector<std::string>& only);

/// Candidates of one workload, which are measured in turn (A B C A B C ...). The time is the slowest rank's.
class Experiment {
 public:
  /// @param bytes  that each candidate moves, for its speed; 0: it moves none
  Experiment(MPI_Comm comm, std::string title, std::uint64_t bytes = 0)
      : comm_(comm), title_(std::move(title)), bytes_(bytes) {}

  /// Measures all once per round, after @p warm_up rounds that do not count. Times of the same name are put together.
  /// Collective.
  void measure(const std::vector<Candidate>& candidates, int rounds, int warm_up = 2);

  [[nodiscard]] std::vector<double> medians() const;
  void add_to(Report& report) const;

 private:
  struct Result {
    Candidate candidate;  ///< without its functions: they may hold files
    std::vector<double> seconds;
    std::uint64_t memory_bytes = 0;  ///< greatest growth of a rank's resident memory during a run
  };
  void run_once(const Candidate& candidate, Result* result);
  [[nodiscard]] Result& result_of(const Candidate& candidate);
  /// Seconds of what @p candidate is compared with.
  [[nodiscard]] double reference_of(const Candidate& candidate) const;

  MPI_Comm comm_;
  std::string title_;
  std::uint64_t bytes_;
  std::vector<Result> results_;
};

/// What is measured at each point of a curve: seconds, or bytes.
struct Cost {
  std::string name;
  bool is_bytes = false;
};

struct Point {
  double x = 0;
  std::vector<double> values;  ///< one for each cost
};

struct Curve {
  std::string title;
  std::string x_name;
  std::vector<Cost> costs;
  std::vector<Point> points;

  /// A table with the costs of each point and the exponents of their growth, and a record for each cost.
  /// @param facts  that each record has beside
  void add_to(Report& report, const nlohmann::json& facts = nlohmann::json::object()) const;
};

}  // namespace reprieve::bench
