// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "measure.hpp"
#include "raw_file.hpp"
#include "reprieve/reprieve.hpp"
#include "step.hpp"
#include "storage/bytes/checksum.hpp"
#include "workload.hpp"

namespace reprieve::bench {

// The paths by which a state becomes durable.

/// What a path is compared with.
enum class Limit { none, new_file, rewritten_file };

struct SavePath {
  Candidate candidate;
  Limit is_limit_for = Limit::none;  ///< one of the raw ones, of which the best is the limit
};

/// All paths that this machine can take. Each has its own files in @p directory. The workload must outlive them.
/// Collective over MPI_COMM_WORLD.
[[nodiscard]] std::vector<SavePath> save_paths(Workload& workload, const std::filesystem::path& directory);

namespace {

namespace fs = std::filesystem;

/// Removes what the last round left and lets the disk come to rest; then all ranks go on.
void start_afresh(const fs::path& directory, const fs::path& to_remove) {
  meet(MPI_COMM_WORLD);
  if (rank_in(MPI_COMM_WORLD) == 0) {
    fs::remove_all(to_remove);
    settle(directory);
  }
  meet(MPI_COMM_WORLD);
}

std::function<void()> removing(const fs::path& directory, const fs::path& file) {
  return [directory, file] { start_afresh(directory, file); };
}

/// Every rank writes its part of one file, and makes it durable.
void save_shared(Workload& workload, const fs::path& file, RawMethod method, bool is_new) {
  if (rank_in(MPI_COMM_WORLD) == 0 && is_new) {
    const RawFile created(file, open_flags(method) | O_CREAT | O_EXCL);
    if (goes_past_cache(method)) {
      created.allocate(workload.padded_total());
    }
  }
  meet(MPI_COMM_WORLD);
  const RawFile opened(file, open_flags(method));
  opened.write(workload.limit_bytes(), workload.padded_offset(), method);
  opened.sync();
  meet(MPI_COMM_WORLD);
}

void save_own_file(Workload& workload, const fs::path& file) {
  const RawFile created(file, O_RDWR | O_CREAT | O_EXCL);
  created.write(workload.limit_bytes(), 0, RawMethod::buffered);
  created.sync();
  meet(MPI_COMM_WORLD);
}

void add_raw(std::vector<SavePath>& paths, Workload& workload, const fs::path& directory) {
  static_cast<void>(workload.limit_bytes());  // made now, not while something is timed
  struct Method {
    RawMethod method;
    const char* name;
  };
  for (const auto& [method, name] :
       {Method{RawMethod::buffered, "buffered"}, Method{RawMethod::started, "sync_file_range"},
        Method{RawMethod::uncached, "RWF_DONTCACHE"}, Method{RawMethod::direct_threads, "O_DIRECT, 4 threads"}}) {
    if (!is_available(method, directory)) {
      continue;
    }
    const fs::path file = directory / fmt::format("raw-new-{}", static_cast<int>(method));
    paths.push_back(
        {{fmt::format("raw, shared file, {}", name),
          [&workload, file, m = method] { save_shared(workload, file, m, true); }, removing(directory, file)},
         Limit::new_file});
    const fs::path kept = directory / fmt::format("raw-kept-{}", static_cast<int>(method));
    paths.push_back({{fmt::format("raw, rewritten file, {}", name),
                      [&workload, kept, m = method] { save_shared(workload, kept, m, false); },
                      [&workload, directory, kept, m = method] {
                        if (rank_in(MPI_COMM_WORLD) == 0 && !fs::exists(kept)) {
                          const RawFile created(kept, open_flags(m) | O_CREAT);
                          created.allocate(workload.padded_total());
                        }
                        start_afresh(directory, {});
                      }},
                     Limit::rewritten_file});
  }
  const fs::path own = directory / fmt::format("raw-own-{}", rank_in(MPI_COMM_WORLD));
  paths.push_back({{"raw, file per rank, buffered", [&workload, own] { save_own_file(workload, own); },
                    [directory, own] {
                      fs::remove(own);
                      start_afresh(directory, {});
                    }},
                   Limit::none});
}

/// Saves by a manager of its own.
struct ManagedSave {
  ManagedSave(Workload& workload, fs::path path, ManagerOptions options)
      : directory(std::move(path)), manager(MPI_COMM_WORLD, workload.checkpoint(), directory, std::move(options)) {}
  fs::path directory;
  CheckpointManager manager;
  std::uint64_t number = 0;
};

/// Each save writes over the file of the one before the last.
void add_recycled(std::vector<SavePath>& paths, Workload& workload, const fs::path& directory, const std::string& name,
                  FileIo io, Workload::Change change) {
  auto save = std::make_shared<ManagedSave>(workload, directory / fmt::format("recycled-{}", paths.size()),
                                            ManagerOptions{.max_to_keep = 1, .io = io});
  paths.push_back({{name, [save] { save->manager.save(++save->number); },
                    [save, &workload, directory, change] {
                      workload.change(change, save->number + 1);
                      start_afresh(directory, {});
                    },
                    true},
                   Limit::none});
}

void add_new_file(std::vector<SavePath>& paths, Workload& workload, const fs::path& directory, const std::string& name,
                  const ManagerOptions& options) {
  auto save = std::make_shared<ManagedSave>(workload, directory / fmt::format("reprieve-{}", paths.size()), options);
  paths.push_back(
      {{name, [save] { save->manager.save(++save->number); },
        [save] { start_afresh(save->directory, save->directory / fmt::format("ckpt-{}.h5", save->number)); }, true},
       Limit::none});
}

void add_parallel(std::vector<SavePath>& paths, Workload& workload, const fs::path& directory) {
  const fs::path collective = directory / "collective.h5";
  const fs::path independent = directory / "independent.h5";
  const fs::path mpi = directory / "mpi-io";
  paths.push_back({{"HDF5, collective",
                    [&workload, collective] {
                      save_hdf5(MPI_COMM_WORLD, workload, collective, Transfer::collective);
                      RawFile(collective, O_RDWR).sync();
                      meet(MPI_COMM_WORLD);
                    },
                    removing(directory, collective)}});
  paths.push_back({{"HDF5, independent",
                    [&workload, independent] {
                      save_hdf5(MPI_COMM_WORLD, workload, independent, Transfer::independent);
                      RawFile(independent, O_RDWR).sync();
                      meet(MPI_COMM_WORLD);
                    },
                    removing(directory, independent)}});
  if (workload.large_part().shape.size() > 1) {
    return;  // the next one writes each rank's part in one piece
  }
  paths.push_back({{"MPI_File_write_at_all",
                    [&workload, mpi] {
                      save_mpi_io(MPI_COMM_WORLD, workload, mpi);
                      RawFile(mpi, O_RDWR).sync();
                      meet(MPI_COMM_WORLD);
                    },
                    removing(directory, mpi)}});
}

}  // namespace

std::vector<SavePath> save_paths(Workload& workload, const fs::path& directory) {
  std::vector<SavePath> paths;
  add_raw(paths, workload, directory);
  using Change = Workload::Change;
  add_recycled(paths, workload, directory, "Reprieve, recycled file", FileIo::automatic, Change::everywhere);
  add_recycled(paths, workload, directory, "Reprieve, recycled file, 80 % unchanged", FileIo::automatic,
               Change::every_fifth_mib);
  const ManagerOptions options{.max_to_keep = 0, .recycle = false};
  add_new_file(paths, workload, directory, "Reprieve, new file", options);
  // "Reprieve, in background" has its place here.
  for (const auto& [io, name] : {std::pair{FileIo::page_cache, "page cache"}, std::pair{FileIo::direct, "threads"}}) {
    ManagerOptions other = options;
    other.io = io;
    add_new_file(paths, workload, directory, fmt::format("Reprieve, new file, {}", name), other);
  }
  ManagerOptions mpio = options;
  mpio.writer = WriterKind::mpio;
  add_new_file(paths, workload, directory, "Reprieve, mpio writer", mpio);
  add_parallel(paths, workload, directory);
  return paths;
}

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
