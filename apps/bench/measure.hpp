// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What every benchmark uses: its options, its measurements, its report.

#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/text.hpp"
#include "statistics.hpp"

namespace reprieve::bench {

// The subcommands, one in the source file of each name. They run when the command line is parsed. Collective over
// MPI_COMM_WORLD.

/// What a step boundary costs, and how soon a signal is acted on. @param json  whether to print JSON; read when it runs
void add_step_command(CLI::App& app, const bool& json);
/// How soon a state is durable, by every path.
void add_save_command(CLI::App& app, const bool& json);
/// What a near copy costs the program, and a start from one.
void add_near_command(CLI::App& app, const bool& json);
/// What a save in the background costs the program.
void add_background_command(CLI::App& app, const bool& json);
/// How fast a state is read back, from the page cache and from the disk.
void add_restore_command(CLI::App& app, const bool& json);
/// How long it takes until a handler is there.
void add_start_command(CLI::App& app, const bool& json);
/// How costs grow, also for numbers of ranks that are not there.
void add_scale_command(CLI::App& app, const bool& json);

// What benchmarks ask of MPI.

[[nodiscard]] int rank_in(MPI_Comm comm);
[[nodiscard]] int size_of(MPI_Comm comm);

/// Returns when all ranks are here. Collective.
void meet(MPI_Comm comm);

/// The greatest of all ranks' values. Collective.
[[nodiscard]] double greatest(MPI_Comm comm, double mine);

// A directory for the files of a benchmark.

/// Made by rank 0 below @p parent (default: the system's directory for temporary files), the same path on every rank,
/// removed at the end. Construction and destruction are collective over MPI_COMM_WORLD.
class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& parent);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] bool is_chief() const noexcept { return is_chief_; }

 private:
  std::filesystem::path path_;
  bool is_chief_ = false;
};

// Options that several benchmarks have.

struct CommonOptions {
  int rounds = 9;
  std::filesystem::path directory;
};

/// A state of one large array with many small variables beside it.
struct SmallVariables {
  std::uint64_t count = 2000;
  double large_mib = 64;
};

/// An array that is split along its last dimension.
struct ScatteredRows {
  double mib = 256;
  std::uint64_t row_bytes = 4096;
  double grid_mib = 256;  ///< of another one, of three dimensions, of which each rank has a box
};

/// Whether a name has one of these texts in it; none asks for all.
[[nodiscard]] bool is_wanted(const std::string& name, const std::vector<std::string>& only);

void add_options(CLI::App& command, CommonOptions& options);
void add_options(CLI::App& command, SmallVariables& options);
void add_options(CLI::App& command, ScatteredRows& options);

// What a benchmark prints: a table for people, or JSON for programs.

/// A table with a title. The first column names the rows, the others are figures.
class Table : private apps::Table {
 public:
  Table(std::string title, const std::vector<std::string>& columns);
  using apps::Table::add_row;
  void print() const;

 private:
  std::string title_;
};

/// Collects the results of one benchmark: each record becomes a JSON object.
class Report {
 public:
  /// @param benchmark  its name, kept in every JSON record
  explicit Report(std::string benchmark) : benchmark_(std::move(benchmark)) {}
  void add(nlohmann::json record);
  /// Prints all records as one JSON array.
  void print_json() const;

 private:
  std::string benchmark_;
  nlohmann::json records_ = nlohmann::json::array();
};

/// A duration with three significant digits and a unit: "1.23 us".
std::string format_seconds(double seconds);
/// A share as a percentage: "0.042 %".
std::string format_percent(double share);

// Costs as functions of a size, and how they grow.

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
};

/// A table: the costs of each point, and under each of them the exponents of its growth.
void print(const Curve& curve);
/// A record for each cost. @param facts  that each of them has beside
void add(Report& report, const Curve& curve, const nlohmann::json& facts = nlohmann::json::object());

// Interleaved measurement of candidates that do the same on all ranks.

/// One way to do what is measured. Both functions are called by all ranks of the communicator.
struct Candidate {
  std::string name;
  std::function<void()> run;           ///< timed
  std::function<void()> prepare = {};  ///< not timed, before every run; may be empty
  bool checksums = false;              ///< it computes or verifies checksums
};

struct Measurement {
  std::vector<double> seconds;     ///< of the slowest rank, one per round
  std::uint64_t memory_bytes = 0;  ///< greatest growth of a rank's resident memory during a run
};

/// Runs every candidate once per round, in turn (A B C A B C ...), after @p warm_up rounds that do not count.
/// Collective over @p comm.
[[nodiscard]] std::vector<Measurement> measure_interleaved(MPI_Comm comm, const std::vector<Candidate>& candidates,
                                                           int rounds, int warm_up);

/// A part of MPI_COMM_WORLD: the first @p ranks ranks. The others sleep in `join` until these are done.
class FirstRanks {
 public:
  explicit FirstRanks(int ranks);
  ~FirstRanks();
  FirstRanks(const FirstRanks&) = delete;
  FirstRanks& operator=(const FirstRanks&) = delete;

  [[nodiscard]] bool is_member() const noexcept { return comm_ != MPI_COMM_NULL; }
  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }

  /// Runs @p work on the members; returns on every rank of the world when all are through. Waiting ranks leave the
  /// processors alone.
  void run(const std::function<void()>& work) const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace reprieve::bench
