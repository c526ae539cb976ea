// SPDX-License-Identifier: BSD-3-Clause
#include "measure.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>
#include <thread>

#include "cluster/communicator.hpp"
#include "common/ranks.hpp"
#include "common/table.hpp"
#include "core/log.hpp"

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

void barrier(MPI_Comm comm) { check_mpi(MPI_Barrier(comm), "MPI_Barrier"); }

double greatest(MPI_Comm comm, double mine) {
  double all = 0;
  check_mpi(MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, comm), "MPI_Allreduce");
  return all;
}

FirstRanks::FirstRanks(int ranks) {
  const int rank = rank_in(MPI_COMM_WORLD);
  if (ranks > size_of(MPI_COMM_WORLD)) {
    throw std::invalid_argument(fmt::format("needs {0} ranks: start it with mpirun -n {0}", ranks));
  }
  check_mpi(MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &comm_), "MPI_Comm_split");
}

FirstRanks::~FirstRanks() {
  if (comm_ != MPI_COMM_NULL) {
    MPI_Comm_free(&comm_);
  }
}

void FirstRanks::run(const std::function<void()>& work) const {
  if (comm_ != MPI_COMM_NULL) {
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

Scratch::Scratch(const std::filesystem::path& parent) {
  const apps::Ranks world(MPI_COMM_WORLD);
  const auto base = parent.empty() ? std::filesystem::temp_directory_path() : parent;
  std::string name = (base / "reprieve-bench-XXXXXX").string();
  world.on_every_rank([&] {
    if (world.is_rank_0() && mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error(fmt::format("cannot make a directory in {}: {}", base.string(), std::strerror(errno)));
    }
  });
  world.broadcast(name, 0);
  path_ = name;
}

Scratch::~Scratch() {
  int rank = 0;
  if (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS && MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank == 0) {
    std::error_code ignored;  // at worst a temporary directory is left
    std::filesystem::remove_all(path_, ignored);
  }
}

void add_options(CLI::App& command, CommonOptions& options) {
  command.add_option("--rounds", options.rounds, "Rounds; everything runs once in each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--directory", options.directory,
                     "Where to put the files (default: the system's for temporary files)");
}

void add_sizes(CLI::App& command, std::vector<double>& sizes_mib) {
  command.add_option("--sizes-mib", sizes_mib, "Sizes of the state, in MiB a rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

std::string quartiles(const Summary& summary) {
  return core::seconds_text(summary.low) + " .. " + core::seconds_text(summary.high);
}

void Report::table(const std::string& title, const Row& columns, const std::vector<Row>& rows) const {
  if (json_ || rank_in(MPI_COMM_WORLD) != 0) {
    return;
  }
  std::vector<apps::Table::Column> aligned;
  for (const std::string& name : columns) {
    aligned.push_back({name, aligned.empty() ? apps::Table::Align::left : apps::Table::Align::right});
  }
  apps::Table table(std::move(aligned));
  for (const Row& row : rows) {
    table.add_row(row);
  }
  std::cout << '\n' << title << '\n';
  table.print(std::cout, "  ");
  std::cout << std::flush;
}

void Report::record(nlohmann::json record) {
  record["benchmark"] = benchmark_;
  records_.push_back(std::move(record));
}

void Report::remark(const std::string& text) const {
  if (!json_ && rank_in(MPI_COMM_WORLD) == 0) {
    fmt::print("{}\n", text);
  }
}

void Report::finish() const {
  if (json_ && rank_in(MPI_COMM_WORLD) == 0) {
    fmt::print("{}\n", records_.dump(2));
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

/// How a cost grows: exponents over the whole curve, and from its last but one point to its last. Nothing where there
/// is no power law: a cost of 0, or a single point.
std::optional<std::pair<double, double>> growth_of(const Curve& curve, std::size_t cost) {
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
  return std::pair(fitted_exponent(sizes, values), fitted_exponent(last_two(sizes), last_two(values)));
}

std::string text_of(const Cost& cost, double value) {
  return cost.is_bytes ? core::size_text(static_cast<std::uint64_t>(value)) : core::seconds_text(value);
}

}  // namespace

std::uint64_t reset_peak_memory() {
  std::ofstream("/proc/self/clear_refs") << "5";  // without this right the peak is that of the whole run
  return memory_status("VmRSS:");
}

std::uint64_t peak_memory() { return memory_status("VmHWM:"); }

void keep_wanted(std::vector<Candidate>& candidates, const std::vector<std::string>& only) {
  std::erase_if(candidates, [&only](const Candidate& candidate) {
    return !only.empty() && std::ranges::none_of(only, [&](const std::string& text) {
      return candidate.name.find(text) != std::string::npos;
    });
  });
}

void Experiment::run_once(const Candidate& candidate, Result* result) {
  if (candidate.prepare) {
    candidate.prepare();
  }
  const std::uint64_t before = reset_peak_memory();
  barrier(comm_);
  const auto start = std::chrono::steady_clock::now();
  candidate.run();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const double seconds = greatest(comm_, elapsed.count());
  const std::uint64_t peak = peak_memory();
  const double growth = greatest(comm_, peak > before ? static_cast<double>(peak - before) : 0.0);
  if (result != nullptr) {
    result->seconds.push_back(seconds);
    result->memory_bytes = std::max(result->memory_bytes, static_cast<std::uint64_t>(growth));
  }
}

void Experiment::measure(const std::vector<Candidate>& candidates, int rounds, int warm_up) {
  for (int round = -warm_up; round < rounds; ++round) {
    for (const Candidate& candidate : candidates) {
      run_once(candidate, round >= 0 ? &result_of(candidate) : nullptr);
    }
  }
}

Experiment::Result& Experiment::result_of(const Candidate& candidate) {
  const auto found =
      std::ranges::find(results_, candidate.name, [](const Result& result) { return result.candidate.name; });
  if (found != results_.end()) {
    return *found;
  }
  return results_.emplace_back(
      Result{{candidate.name, {}, {}, candidate.reference, candidate.limit, candidate.note}, {}, 0});
}

std::vector<double> Experiment::medians() const {
  std::vector<double> medians;
  for (const Result& result : results_) {
    medians.push_back(summarize(result.seconds).median);
  }
  return medians;
}

double Experiment::reference_of(const Candidate& candidate) const {
  double best = std::numeric_limits<double>::infinity();
  for (const Result& result : results_) {
    if (result.candidate.limit == candidate.reference || result.candidate.name == candidate.reference) {
      best = std::min(best, summarize(result.seconds).median);
    }
  }
  return best;
}

void Experiment::add_to(Report& report) const {
  std::vector<Row> rows;
  for (const Result& result : results_) {
    const Candidate& candidate = result.candidate;
    const Summary time = summarize(result.seconds);
    const bool has_limit = std::ranges::any_of(
        results_, [&](const Result& other) { return other.candidate.limit == candidate.reference; });
    const double reference = candidate.reference.empty() ? 0 : reference_of(candidate);
    // Of a limit, the share of its speed; of another candidate, how many times as long it takes.
    const double ratio = has_limit ? reference / time.median : time.median / reference;
    const bool is_compared = std::isfinite(ratio) && ratio > 0;
    rows.push_back({candidate.name, core::seconds_text(time.median), quartiles(time),
                    bytes_ > 0 ? fmt::format("{:.2f}", static_cast<double>(bytes_) / time.median / (1U << 30U)) : "-",
                    is_compared ? fmt::format("{:.3f} {} {}", ratio, has_limit ? "of" : "x", candidate.reference) : "-",
                    fmt::format("{:.1f} MiB", static_cast<double>(result.memory_bytes) / (1U << 20U)), candidate.note});
    report.record({{"workload", title_},
                   {"what", candidate.name},
                   {"bytes", bytes_},
                   {"median_s", time.median},
                   {"low_s", time.low},
                   {"high_s", time.high},
                   {"rounds", time.count},
                   {"of", candidate.reference},
                   {"ratio", is_compared ? nlohmann::json(ratio) : nlohmann::json()},
                   {"memory_bytes", result.memory_bytes},
                   {"note", candidate.note}});
  }
  report.table(title_, {"what", "median", "quartiles", "GiB/s", "compared", "memory", ""}, rows);
}

void Curve::add_to(Report& report, const nlohmann::json& facts) const {
  Row columns{x_name};
  std::vector<Row> rows;
  for (const Point& point : points) {
    rows.push_back({fmt::format("{:.12g}", point.x)});
    for (std::size_t cost = 0; cost < costs.size(); ++cost) {
      rows.back().push_back(text_of(costs[cost], point.values[cost]));
    }
  }
  Row fitted{"exponent"};
  Row at_the_end{"of the last two"};
  for (std::size_t cost = 0; cost < costs.size(); ++cost) {
    columns.push_back(costs[cost].name);
    nlohmann::json record = facts;
    record["over"] = x_name;
    record["cost"] = costs[cost].name;
    for (const Point& point : points) {
      record["points"].push_back({{"x", point.x}, {costs[cost].is_bytes ? "bytes" : "median_s", point.values[cost]}});
    }
    const auto growth = growth_of(*this, cost);
    fitted.push_back(growth ? fmt::format("{:.2f}", growth->first) : "-");
    at_the_end.push_back(growth ? fmt::format("{:.2f}", growth->second) : "-");
    if (growth) {
      record["exponent"] = growth->first;
      record["exponent_of_last_two"] = growth->second;
    }
    report.record(std::move(record));
  }
  rows.push_back(std::move(fitted));
  rows.push_back(std::move(at_the_end));
  report.table(title, columns, rows);
}

}  // namespace reprieve::bench
