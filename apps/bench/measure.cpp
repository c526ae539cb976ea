// SPDX-License-Identifier: BSD-3-Clause
#include "measure.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "cluster/communicator.hpp"
#include "core/log.hpp"
#include "statistics.hpp"

namespace reprieve::bench {

using cluster::check_mpi;

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

void meet(MPI_Comm comm) { check_mpi(MPI_Barrier(comm), "MPI_Barrier"); }

double greatest(MPI_Comm comm, double mine) {
  double all = 0;
  check_mpi(MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, comm), "MPI_Allreduce");
  return all;
}

Scratch::Scratch(const std::filesystem::path& parent) {
  is_chief_ = rank_in(MPI_COMM_WORLD) == 0;
  std::array<char, PATH_MAX> name{};
  int error = 0;
  const auto base = parent.empty() ? std::filesystem::temp_directory_path() : parent;
  if (is_chief_) {
    const std::string pattern = (base / "reprieve-bench-XXXXXX").string();
    std::strncpy(name.data(), pattern.c_str(), name.size() - 1);
    error = mkdtemp(name.data()) == nullptr ? errno : 0;
  }
  check_mpi(MPI_Bcast(&error, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  if (error != 0) {
    throw std::runtime_error(fmt::format("cannot make a directory in {}: {}", base.string(), std::strerror(error)));
  }
  check_mpi(MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
  path_ = name.data();
}

Scratch::~Scratch() {
  if (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS && is_chief_) {
    std::error_code ignored;  // at worst a temporary directory is left
    std::filesystem::remove_all(path_, ignored);
  }
}

bool is_wanted(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() ||
         std::ranges::any_of(only, [&](const std::string& part) { return name.find(part) != std::string::npos; });
}

void add_options(CLI::App& command, CommonOptions& options) {
  command.add_option("--rounds", options.rounds, "Rounds; everything runs once in each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--directory", options.directory,
                     "Where to put the files (default: the system's for temporary files)");
}

void add_options(CLI::App& command, SmallVariables& options) {
  command.add_option("--small-count", options.count, "Variables of 4 KiB a rank beside a large array; 0: leave out")
      ->capture_default_str();
  command.add_option("--small-large-mib", options.large_mib, "Size of that large array, in MiB a rank")
      ->capture_default_str();
}

void add_options(CLI::App& command, ScatteredRows& options) {
  command
      .add_option("--rows-mib", options.mib,
                  "Size of an array that is split along its last dimension, in MiB a rank; 0: leave out")
      ->capture_default_str();
  command.add_option("--row-bytes", options.row_bytes, "Length of the rows that each rank has of it")
      ->check(CLI::Range(std::uint64_t{sizeof(double)}, std::uint64_t{1} << 20U))
      ->capture_default_str();
  command
      .add_option("--grid-mib", options.grid_mib,
                  "Size of an array of three dimensions of which each rank has a box, in MiB a rank; 0: leave out")
      ->capture_default_str();
}

namespace {

std::vector<apps::Table::Column> columns_of(const std::vector<std::string>& titles) {
  std::vector<apps::Table::Column> columns;
  for (const std::string& title : titles) {
    columns.push_back({title, columns.empty() ? apps::Table::Align::left : apps::Table::Align::right});
  }
  return columns;
}

}  // namespace

Table::Table(std::string title, const std::vector<std::string>& columns)
    : apps::Table(columns_of(columns)), title_(std::move(title)) {}

void Table::print() const {
  std::cout << '\n' << title_ << '\n';
  apps::Table::print(std::cout, "  ");
  std::cout << std::flush;
}

void Report::add(nlohmann::json record) {
  record["benchmark"] = benchmark_;
  records_.push_back(std::move(record));
}

void Report::print_json() const { fmt::print("{}\n", records_.dump(2)); }

std::string format_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size < 1e-6) {
    return fmt::format("{:.3g} ns", seconds * 1e9);
  }
  if (size < 1e-3) {
    return fmt::format("{:.3g} us", seconds * 1e6);
  }
  if (size < 1) {
    return fmt::format("{:.3g} ms", seconds * 1e3);
  }
  return fmt::format("{:.3g} s", seconds);
}

std::string format_percent(double share) { return fmt::format("{:.2g} %", share * 100); }

namespace {

/// How a cost grows: exponents over the whole curve, and from its last but one point to its last.
struct Growth {
  double fitted = 0;
  double at_the_end = 0;
};

/// Nothing where there is no power law: a cost of 0, or a single point.
std::optional<Growth> growth_of(const Curve& curve, std::size_t cost) {
  std::vector<double> sizes;
  std::vector<double> values;
  for (const Point& point : curve.points) {
    sizes.push_back(point.x);
    values.push_back(point.values[cost]);
  }
  const auto last_two = [](const std::vector<double>& all) { return std::vector<double>(all.end() - 2, all.end()); };
  if (sizes.size() < 2 || std::ranges::any_of(values, [](double value) { return value <= 0; })) {
    return std::nullopt;
  }
  return Growth{fitted_exponent(sizes, values), fitted_exponent(last_two(sizes), last_two(values))};
}

std::string text_of(const Cost& cost, double value) {
  return cost.is_bytes ? core::size_text(static_cast<std::uint64_t>(value)) : format_seconds(value);
}

}  // namespace

void print(const Curve& curve) {
  std::vector<std::string> header{curve.x_name};
  for (const Cost& cost : curve.costs) {
    header.push_back(cost.name);
  }
  Table table(curve.title, header);
  for (const Point& point : curve.points) {
    std::vector<std::string> row{fmt::format("{:.12g}", point.x)};
    for (std::size_t cost = 0; cost < curve.costs.size(); ++cost) {
      row.push_back(text_of(curve.costs[cost], point.values[cost]));
    }
    table.add_row(std::move(row));
  }
  if (curve.points.size() >= 2) {
    std::vector<std::string> fitted{"exponent"};
    std::vector<std::string> at_the_end{"of the last two"};
    for (std::size_t cost = 0; cost < curve.costs.size(); ++cost) {
      const auto growth = growth_of(curve, cost);
      fitted.push_back(growth ? fmt::format("{:.2f}", growth->fitted) : "-");
      at_the_end.push_back(growth ? fmt::format("{:.2f}", growth->at_the_end) : "-");
    }
    table.add_row(std::move(fitted));
    table.add_row(std::move(at_the_end));
  }
  table.print();
}

void add(Report& report, const Curve& curve, const nlohmann::json& facts) {
  for (std::size_t cost = 0; cost < curve.costs.size(); ++cost) {
    nlohmann::json record = facts;
    record["over"] = curve.x_name;
    record["cost"] = curve.costs[cost].name;
    for (const Point& point : curve.points) {
      record["points"].push_back(
          {{"x", point.x}, {curve.costs[cost].is_bytes ? "bytes" : "median_s", point.values[cost]}});
    }
    if (const auto growth = growth_of(curve, cost)) {
      record["exponent"] = growth->fitted;
      record["exponent_of_last_two"] = growth->at_the_end;
    }
    report.add(std::move(record));
  }
}

namespace {

/// A line of /proc/self/status ("VmHWM:"), in bytes; 0 where there is none.
std::uint64_t memory_status(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == key) {
      std::uint64_t kib = 0;
      status >> kib;
      return kib * 1024;
    }
  }
  return 0;
}

/// Makes the peak of the resident memory the present one. Without this right the peak is that of the whole run.
void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

void run_once(MPI_Comm comm, const Candidate& candidate, Measurement* result) {
  if (candidate.prepare) {
    candidate.prepare();
  }
  reset_peak_memory();
  const std::uint64_t before = memory_status("VmRSS:");
  meet(comm);
  const auto start = std::chrono::steady_clock::now();
  candidate.run();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const double seconds = greatest(comm, elapsed.count());
  const std::uint64_t peak = memory_status("VmHWM:");
  const double growth = greatest(comm, peak > before ? static_cast<double>(peak - before) : 0.0);
  if (result != nullptr) {
    result->seconds.push_back(seconds);
    result->memory_bytes = std::max(result->memory_bytes, static_cast<std::uint64_t>(growth));
  }
}

}  // namespace

std::vector<Measurement> measure_interleaved(MPI_Comm comm, const std::vector<Candidate>& candidates, int rounds,
                                             int warm_up) {
  std::vector<Measurement> measurements(candidates.size());
  for (int round = -warm_up; round < rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      run_once(comm, candidates[i], round >= 0 ? &measurements[i] : nullptr);
    }
  }
  return measurements;
}

FirstRanks::FirstRanks(int ranks) {
  const int rank = rank_in(MPI_COMM_WORLD);
  if (ranks > size_of(MPI_COMM_WORLD)) {
    throw std::invalid_argument("needs " + std::to_string(ranks) + " ranks: start it with mpirun -n " +
                                std::to_string(ranks));
  }
  check_mpi(MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &comm_), "MPI_Comm_split");
}

FirstRanks::~FirstRanks() {
  if (comm_ != MPI_COMM_NULL) {
    MPI_Comm_free(&comm_);
  }
}

void FirstRanks::run(const std::function<void()>& work) const {
  if (is_member()) {
    work();
  }
  MPI_Request all_here = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(MPI_COMM_WORLD, &all_here), "MPI_Ibarrier");
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&all_here, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace reprieve::bench
