// SPDX-License-Identifier: BSD-3-Clause
// `save`: how soon a state is durable.
#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "measure.hpp"
#include "raw_file.hpp"
#include "reprieve/reprieve.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/bytes/compression.hpp"
#include "workload.hpp"

namespace reprieve::bench {

namespace {

namespace fs = std::filesystem;

constexpr const char* kNewFile = "the limit, new file";
constexpr const char* kRewrittenFile = "the limit, rewritten file";

/// Removes what the last round left and lets the disk come to rest; then all ranks continue.
void start_afresh(const fs::path& directory, const fs::path& to_remove) {
  barrier(MPI_COMM_WORLD);
  if (rank_in(MPI_COMM_WORLD) == 0) {
    fs::remove_all(to_remove);
    sync_file_system(directory);
  }
  barrier(MPI_COMM_WORLD);
}

/// The paths by which one state becomes durable. Each has its own files in the directory.
class SavePaths {
 public:
  SavePaths(Workload& workload, fs::path directory) : workload_(workload), directory_(std::move(directory)) {
    static_cast<void>(workload_.limit_bytes());  // made now, not while something is timed
  }

  /// Each rank writes its part of one shared file.
  void add_raw(RawMethod method, const std::string& name) {
    if (!is_available(method, directory_)) {
      return;
    }
    const fs::path file = directory_ / fmt::format("raw-new-{}", static_cast<int>(method));
    paths.push_back({"raw, shared file, " + name, [this, file, method] { write_shared(file, method, true); },
                     [this, file] { start_afresh(directory_, file); }, kNewFile, kNewFile});
    const fs::path kept = directory_ / fmt::format("raw-kept-{}", static_cast<int>(method));
    paths.push_back({"raw, rewritten file, " + name, [this, kept, method] { write_shared(kept, method, false); },
                     [this, kept, method] {
                       if (rank_in(MPI_COMM_WORLD) == 0 && !fs::exists(kept)) {
                         const RawFile created(kept, open_flags(method) | O_CREAT);
                         created.allocate(workload_.padded_total());
                       }
                       start_afresh(directory_, {});
                     },
                     kRewrittenFile, kRewrittenFile});
  }

  /// Each save writes over the file of the one before the last.
  void add_recycled(const std::string& name, Workload::Change change) {
    const auto save = managed({.max_to_keep = 1});
    paths.push_back({name, [save] { save->manager.save(++save->number); },
                     [this, save, change] {
                       workload_.change(change, save->number + 1);
                       start_afresh(directory_, {});
                     },
                     kRewrittenFile});
  }

  void add_new_file(const std::string& name, const ManagerOptions& options) {
    const auto save = managed(options);
    paths.push_back(
        {name, [save] { save->manager.save(++save->number); },
         [save] { start_afresh(save->directory, save->directory / fmt::format("ckpt-{}.h5", save->number)); },
         kNewFile});
  }

  void add_hdf5() {
    const fs::path file = directory_ / "plain.h5";
    paths.push_back({"HDF5, collective",
                     [this, file] {
                       save_hdf5(MPI_COMM_WORLD, workload_, file);
                       RawFile(file, O_RDWR).sync();
                       barrier(MPI_COMM_WORLD);
                     },
                     [this, file] { start_afresh(directory_, file); }, kNewFile});
  }

  std::vector<Candidate> paths;

 private:
  /// Saves by a manager of its own.
  struct Managed {
    Managed(Workload& workload, fs::path path, ManagerOptions options)
        : directory(std::move(path)), manager(MPI_COMM_WORLD, workload.checkpoint(), directory, std::move(options)) {}
    fs::path directory;
    CheckpointManager manager;
    std::uint64_t number = 0;
  };

  [[nodiscard]] std::shared_ptr<Managed> managed(const ManagerOptions& options) {
    return std::make_shared<Managed>(workload_, directory_ / fmt::format("reprieve-{}", paths.size()), options);
  }

  void write_shared(const fs::path& file, RawMethod method, bool is_new) {
    if (rank_in(MPI_COMM_WORLD) == 0 && is_new) {
      const RawFile created(file, open_flags(method) | O_CREAT | O_EXCL);
      if (goes_past_cache(method)) {
        created.allocate(workload_.padded_total());
      }
    }
    barrier(MPI_COMM_WORLD);
    const RawFile opened(file, open_flags(method));
    opened.write(workload_.limit_bytes(), workload_.padded_offset(), method);
    opened.sync();
    barrier(MPI_COMM_WORLD);
  }

  Workload& workload_;
  fs::path directory_;
};

/// All paths that this machine can take.
void add_all(SavePaths& to, Workload& workload) {
  to.add_raw(RawMethod::buffered, "buffered");
  to.add_raw(RawMethod::started, "sync_file_range");
  to.add_raw(RawMethod::uncached, "RWF_DONTCACHE");
  to.add_raw(RawMethod::direct_threads, "O_DIRECT, 4 threads");
  to.add_recycled("Reprieve, recycled file", Workload::Change::everywhere);
  to.add_recycled("Reprieve, recycled file, 80 % unchanged", Workload::Change::every_fifth_mib);
  const ManagerOptions options{.max_to_keep = 0, .recycle = false};
  to.add_new_file("Reprieve, new file", options);
  ManagerOptions other = options;
  other.io = FileIo::page_cache;
  to.add_new_file("Reprieve, new file, page cache", other);
  other.io = FileIo::direct;
  to.add_new_file("Reprieve, new file, threads", other);
  other = options;
  if (storage::can_compress()) {
    other.compress = Compression::lz4;
    to.add_new_file("Reprieve, new file, lz4", other);
    other = options;
  }
  other.writer = WriterKind::mpio;
  to.add_new_file("Reprieve, mpio writer", other);
  to.add_hdf5();
  to.paths.push_back({"the checksum alone, in memory", [&workload, all = std::uint64_t{0}]() mutable {
                        all ^= storage::xxh3(workload.bytes());  // kept, so that the compiler keeps the work
                        static_cast<void>(all);
                      }});
}

struct SaveOptions {
  StateOptions states{.sizes_mib = {1, 64, 512}};
  std::vector<std::string> only;
  int placements = 3;
  CommonOptions common;
};

void run(const SaveOptions& options, Report& report) {
  for (const WorkloadSpec& spec : states(options.states)) {
    Workload workload(spec, rank_in(MPI_COMM_WORLD), size_of(MPI_COMM_WORLD));
    Experiment experiment(MPI_COMM_WORLD, "Until durable: " + spec.name(), workload.total_bytes());
    for (int placement = 0; placement < options.placements; ++placement) {
      const Scratch scratch(options.common.directory);
      SavePaths all(workload, scratch.path());
      add_all(all, workload);
      keep_wanted(all.paths, options.only);
      experiment.measure(all.paths, (options.common.rounds + options.placements - 1) / options.placements);
    }
    experiment.add_to(report);
  }
}

}  // namespace

void add_save_command(CLI::App& app, const bool& json) {
  const auto [command, options] = add_command<SaveOptions>(
      app, json, "save", "Time until a state is durable, by every path, against the raw limit of the disk", run);
  add_options(*command, options->states);
  command->add_option("--only", options->only, "Paths with one of these texts in their name");
  command
      ->add_option("--placements", options->placements,
                   "Times to start from the beginning with other files; the rounds are shared out among them. Where a "
                   "file lies on the "
                   "disk decides how fast it is written over, for as long as it is there")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
}

}  // namespace reprieve::bench
