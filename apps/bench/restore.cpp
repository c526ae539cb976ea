// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cluster/communicator.hpp"
#include "core/event_log.hpp"
#include "measure.hpp"
#include "raw_file.hpp"
#include "reprieve/reprieve.hpp"
#include "workload.hpp"

namespace reprieve::bench {

namespace {

namespace fs = std::filesystem;
using cluster::check_mpi;

struct RestoreOptions {
  std::vector<double> sizes_mib{64, 512};
  SmallVariables small;
  ScatteredRows rows;
  int saved_by = 0;
  int ranks = 0;
  std::vector<std::string> only;
  CommonOptions common;
};

/// Where the page cache stands before a run.
enum class Cache { warm, cold };

struct RestorePath {
  std::string name;
  fs::path file;
  std::function<void()> run;
  fs::path events{};       ///< the event log of a manager, which says how it restored
  std::string pass = "-";  ///< "single", "proven" or "unverified"
  bool is_raw = false;     ///< the best of these is the limit
};

/// Puts the file of a path into the state that the measurement needs.
void prepare_cache(MPI_Comm comm, const fs::path& file, Cache cache) {
  if (cache == Cache::cold && rank_in(comm) == 0) {
    const RawFile opened(file, O_RDONLY);
    opened.sync();
    opened.drop_from_cache();
  }
}

/// All files come into the page cache in the same way, as it gets them from the disk. What was written through the page
/// cache lies there in larger pieces, which are copied faster.
void fill_cache(MPI_Comm comm, const std::vector<RestorePath>& paths) {
  for (const RestorePath& path : paths) {
    prepare_cache(comm, path.file, Cache::cold);
    if (rank_in(comm) == 0) {
      std::vector<std::byte> bytes(std::size_t{4} << 20U);
      const RawFile opened(path.file, O_RDONLY);
      for (std::uint64_t at = 0, size = fs::file_size(path.file); at < size; at += bytes.size()) {
        const auto part = std::min<std::uint64_t>(bytes.size(), size - at);
        opened.read(std::span(bytes).first(static_cast<std::size_t>(part)), at, RawRead::buffered);
      }
    }
  }
  meet(comm);
}

/// Where this rank reads raw: whole pages that no other rank reads, if the file has as many as all ranks read.
std::uint64_t raw_offset(Workload& workload, const fs::path& file) {
  constexpr std::uint64_t page = 4096;
  const std::uint64_t size = fs::file_size(file) / page * page;
  return std::min(workload.padded_offset(), size - std::min<std::uint64_t>(size, workload.padded_bytes().size()));
}

/// The files that are read, written by the ranks that "saved".
void write_files(const WorkloadSpec& spec, const FirstRanks& savers, const fs::path& directory, int ranks) {
  savers.run([&] {
    Workload workload(spec, rank_in(savers.comm()), ranks);
    CheckpointManager manager(savers.comm(), workload.checkpoint(), directory / "reprieve");
    manager.save(1);
    save_hdf5(savers.comm(), workload, directory / "plain.h5", Transfer::collective);
  });
}

/// As many bytes as the state has, out of the checkpoint itself: another file could lie on faster or slower places of
/// the disk.
std::vector<RestorePath> raw_paths(Workload& workload, const fs::path& file) {
  struct Method {
    RawRead method;
    const char* name;
  };
  const std::uint64_t offset = raw_offset(workload, file);
  std::vector<RestorePath> paths;
  for (const auto& [method, name] : {Method{RawRead::buffered, "pread"}, Method{RawRead::mapped, "mmap"},
                                     Method{RawRead::direct_threads, "O_DIRECT, 4 threads"}}) {
    if (is_available(method, file.parent_path())) {
      paths.push_back({fmt::format("raw, the same file, {}", name), file, [&workload, file, offset, m = method] {
                         RawFile(file, open_flags(m)).read(workload.limit_bytes(), offset, m);
                       }});
      paths.back().is_raw = true;
    }
  }
  return paths;
}

std::vector<RestorePath> restore_paths(MPI_Comm comm, Workload& workload, const fs::path& directory) {
  const fs::path saved = directory / "reprieve" / "ckpt-1.h5";
  const fs::path plain = directory / "plain.h5";
  const auto manage = [&](const fs::path& name, bool verify) {
    return std::make_shared<CheckpointManager>(comm, workload.checkpoint(), directory / name,
                                               ManagerOptions{.verify_on_restore = verify});
  };
  const auto events = [&](const fs::path& name) { return directory / name / "events.jsonl"; };
  std::vector<RestorePath> paths = raw_paths(workload, saved);
  const std::vector<RestorePath> others = {
      {"Reprieve, the newest checkpoint", saved,
       [manager = manage("reprieve", true)] { manager->restore_or_initialize(); }, events("reprieve")},
      {"Reprieve, a chosen file", saved, [manager = manage("reader", true), saved] { manager->restore(saved); },
       events("reader")},
      {"Reprieve, checksums not verified", saved,
       [manager = manage("hasty-reader", false), saved] { manager->restore(saved); }, events("hasty-reader")},
      {"HDF5, collective", plain,
       [comm, &workload, plain] { restore_hdf5(comm, workload, plain, Transfer::collective); }},
      {"HDF5, independent", plain,
       [comm, &workload, plain] { restore_hdf5(comm, workload, plain, Transfer::independent); }}};
  paths.insert(paths.end(), others.begin(), others.end());
  return paths;
}

/// How often the manager that writes this event log read the data in its last restore.
std::string last_pass(const fs::path& events) {
  std::string pass = "-";
  for (const auto& logged : core::read_events(events)) {
    if (const auto* restored = std::get_if<reprieve::events::Restored>(&logged.event)) {
      pass = restored->pass;
    }
  }
  return pass;
}

/// Bytes that a raw path has not read as the page cache has them.
std::uint64_t wrong_raw_bytes(Workload& workload, const fs::path& file) {
  const std::span<const std::byte> read = workload.limit_bytes();
  std::vector<std::byte> expected(read.size());
  RawFile(file, O_RDONLY).read(expected, raw_offset(workload, file), RawRead::buffered);
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < read.size(); ++i) {
    wrong += std::uint64_t{read[i] != expected[i]};
  }
  return wrong;
}

/// A benchmark of a restore that restores something else would be worth nothing.
void check_restored(MPI_Comm comm, Workload& workload, RestorePath& path) {
  workload.clear();
  std::ranges::fill(workload.limit_bytes(), std::byte{0x55});
  path.run();
  std::uint64_t wrong = path.is_raw ? wrong_raw_bytes(workload, path.file) : workload.wrong_elements();
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, comm), "MPI_Allreduce");
  if (wrong > 0) {
    throw std::runtime_error(fmt::format("{}: {} elements or bytes are not what was saved", path.name, wrong));
  }
  if (!path.events.empty()) {
    path.pass = last_pass(path.events);
  }
}

struct Results {
  std::vector<Summary> warm;
  std::vector<Summary> cold;
};

std::vector<Summary> measure_paths(MPI_Comm comm, const std::vector<RestorePath>& paths, Cache cache, int rounds) {
  std::vector<Candidate> candidates;
  for (const RestorePath& path : paths) {
    candidates.push_back({path.name, path.run, [comm, &path, cache] { prepare_cache(comm, path.file, cache); }});
  }
  std::vector<Summary> summaries;
  for (const Measurement& measurement : measure_interleaved(comm, candidates, rounds, 2)) {
    summaries.push_back(summarize(measurement.seconds));
  }
  return summaries;
}

/// The best median of the raw paths.
double raw_limit(const std::vector<RestorePath>& paths, const std::vector<Summary>& summaries) {
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    best = paths[i].is_raw ? std::min(best, summaries[i].median) : best;
  }
  return best;
}

Table make_table(const std::string& title, const std::vector<RestorePath>& paths, const Results& results,
                 std::uint64_t bytes, Report& report) {
  Table table(title, {"path", "warm", "GiB/s", "of the limit", "cold", "GiB/s", "of the limit", "pass"});
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::vector<std::string> row{paths[i].name};
    for (const auto* summaries : {&results.warm, &results.cold}) {
      const double median = (*summaries)[i].median;
      const double share = raw_limit(paths, *summaries) / median;
      row.insert(row.end(),
                 {format_seconds(median), fmt::format("{:.2f}", static_cast<double>(bytes) / median / (1U << 30U)),
                  fmt::format("{:.2f}", share)});
      report.add({{"workload", title},
                  {"bytes", bytes},
                  {"path", paths[i].name},
                  {"cache", summaries == &results.warm ? "warm" : "cold"},
                  {"pass", paths[i].pass},
                  {"median_s", median},
                  {"low_s", (*summaries)[i].low},
                  {"high_s", (*summaries)[i].high},
                  {"rounds", (*summaries)[i].count},
                  {"of_limit", share}});
    }
    row.push_back(paths[i].pass);
    table.add_row(std::move(row));
  }
  return table;
}

/// The same state on the ranks that restore.
WorkloadSpec spread(WorkloadSpec spec, const RestoreOptions& options) {
  spec.large_mib *= static_cast<double>(options.saved_by) / options.ranks;
  return spec;
}

void run_workload(const WorkloadSpec& spec, const RestoreOptions& options, Report& report, bool print) {
  const Scratch scratch(options.common.directory);
  const FirstRanks savers(options.saved_by);
  const FirstRanks readers(options.ranks);
  write_files(spec, savers, scratch.path(), options.saved_by);
  readers.run([&] {
    MPI_Comm comm = readers.comm();
    Workload workload(spread(spec, options), rank_in(comm), options.ranks);
    auto paths = restore_paths(comm, workload, scratch.path());
    std::erase_if(paths, [&](const RestorePath& path) { return !is_wanted(path.name, options.only); });
    for (RestorePath& path : paths) {
      check_restored(comm, workload, path);
    }
    fill_cache(comm, paths);
    Results results;
    results.warm = measure_paths(comm, paths, Cache::warm, options.common.rounds);
    results.cold = measure_paths(comm, paths, Cache::cold, options.common.rounds);
    const std::string title =
        fmt::format("Restore of {}, saved by {} ranks, on {} ranks", spec.name(), options.saved_by, options.ranks);
    const Table table = make_table(title, paths, results, workload.total_bytes(), report);
    if (print && rank_in(comm) == 0) {
      table.print();
    }
  });
}

void run(RestoreOptions options, bool json) {
  const int size = size_of(MPI_COMM_WORLD);
  options.saved_by = options.saved_by > 0 ? options.saved_by : size;
  options.ranks = options.ranks > 0 ? options.ranks : size;
  std::vector<WorkloadSpec> specs;
  for (const double mib : options.sizes_mib) {
    specs.push_back({.large_mib = mib});
  }
  if (options.small.count > 0 && options.saved_by == options.ranks) {
    specs.push_back({.large_mib = options.small.large_mib, .small_count = options.small.count});
  }
  if (options.rows.mib > 0 && options.saved_by == options.ranks) {
    specs.push_back({.large_mib = options.rows.mib, .row_bytes = options.rows.row_bytes});
  }
  if (options.rows.grid_mib > 0 && options.saved_by == options.ranks) {
    specs.push_back({.large_mib = options.rows.grid_mib, .grid = true});
  }
  Report report("restore");
  for (const WorkloadSpec& spec : specs) {
    run_workload(spec, options, report, !json);
  }
  if (json && rank_in(MPI_COMM_WORLD) == 0) {
    report.print_json();
  }
}

}  // namespace

void add_restore_command(CLI::App& app, const bool& json) {
  auto options = std::make_shared<RestoreOptions>();
  CLI::App* command = app.add_subcommand(
      "restore", "Time to restore a state from the page cache and from the disk, against plain reads");
  command->add_option("--sizes-mib", options->sizes_mib, "Sizes of one large array, in MiB for each rank that saved")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_options(*command, options->small);
  add_options(*command, options->rows);
  command->add_option("--saved-by", options->saved_by, "Number of ranks that save (default: all)");
  command->add_option("--ranks", options->ranks, "Number of ranks that restore (default: all)");
  command->add_option("--only", options->only, "Paths with one of these texts in their name");
  add_options(*command, options->common);
  command->callback([options, &json] { run(*options, json); });
}

namespace {

/// What a start may take where no network is asked and no program is started.
constexpr double kLimitS = 0.005;
constexpr std::size_t kValues = 1000;

/// Handlers that are made where nothing was saved yet, and where something was.
class Starting {
 public:
  explicit Starting(fs::path directory) : directory_(std::move(directory)), values_(kValues, 1.0) {
    state_.add_per_rank("values", values_);
    const auto handler = make(directory_ / "saved");
    handler->request_checkpoint();
    handler->run([] {});
    handler->finish();
  }

  [[nodiscard]] std::vector<Candidate> candidates() {
    return {{"a directory and a file, durable", [this] { make_raw(); }, [this] { clear(); }},
            {"a start, nothing saved yet", [this] { handler_ = make(place_); }, [this] { clear(); }},
            {"a start that restores", [this] { handler_ = make(directory_ / "saved"); }, [this] { clear(); }}};
  }

  void clear() {
    if (handler_) {
      handler_->finish();
      handler_.reset();
    }
    place_ = directory_ / std::to_string(++places_);
  }

 private:
  /// The platform is given: to find it, a server may be asked, once in the life of a process.
  std::unique_ptr<PreemptionCheckpointHandler> make(const fs::path& place) {
    TerminationConfig config;
    config.platform = Platform::other;
    ManagerOptions options;
    options.restart_finished = true;  // each round ends what it has started
    return std::make_unique<PreemptionCheckpointHandler>(MPI_COMM_WORLD, state_, place, std::move(config),
                                                         std::move(options));
  }

  /// The least that a start has to do, so that two runs do not share a directory.
  void make_raw() {
    if (rank_in(MPI_COMM_WORLD) == 0) {
      fs::create_directory(place_);
      const RawFile file(place_ / "file", O_CREAT | O_WRONLY);
      file.sync();
      const RawFile folder(place_, O_RDONLY | O_DIRECTORY);
      folder.sync();
    }
    meet(MPI_COMM_WORLD);
  }

  fs::path directory_;
  std::vector<double> values_;
  Checkpoint state_;
  std::unique_ptr<PreemptionCheckpointHandler> handler_;
  fs::path place_;
  int places_ = 0;
};

void run(const CommonOptions& options, bool json) {
  const Scratch scratch(options.directory);
  Starting starting(scratch.path());
  const auto candidates = starting.candidates();
  const auto measured = measure_interleaved(MPI_COMM_WORLD, candidates, options.rounds, 1);
  starting.clear();
  Table table("Until a handler is there", {"what", "median", "quartiles", "of 5 ms"});
  Report report("start");
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Summary time = summarize(measured[i].seconds);
    table.add_row({candidates[i].name, format_seconds(time.median),
                   format_seconds(time.low) + " .. " + format_seconds(time.high),
                   fmt::format("{:.3f}", time.median / kLimitS)});
    report.add({{"what", candidates[i].name},
                {"median_s", time.median},
                {"low_s", time.low},
                {"high_s", time.high},
                {"of_limit", time.median / kLimitS}});
  }
  if (rank_in(MPI_COMM_WORLD) == 0) {
    json ? report.print_json() : table.print();
  }
}

}  // namespace

void add_start_command(CLI::App& app, const bool& json) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* command = app.add_subcommand("start", "What a handler adds to the start of a program");
  add_options(*command, *options);
  command->callback([options, &json] { run(*options, json); });
}

}  // namespace reprieve::bench
