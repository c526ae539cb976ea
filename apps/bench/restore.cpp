// SPDX-License-Identifier: BSD-3-Clause
// `restore`: how fast a state is read back.
#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cluster/communicator.hpp"
#include "core/events.hpp"
#include "measure.hpp"
#include "raw_file.hpp"
#include "reprieve/reprieve.hpp"
#include "workload.hpp"

namespace reprieve::bench {

namespace {

namespace fs = std::filesystem;

constexpr const char* kRawLimit = "the limit";

struct RestorePath {
  Candidate candidate;
  fs::path file;
  fs::path events{};  ///< the event log of a manager, which says how it restored
};

/// Where this rank reads raw: whole pages that no other rank reads, if the file has as many as all ranks read.
std::uint64_t raw_offset(Workload& workload, const fs::path& file) {
  constexpr std::uint64_t page = 4096;
  const std::uint64_t size = fs::file_size(file) / page * page;
  return std::min(workload.padded_offset(), size - std::min<std::uint64_t>(size, workload.limit_bytes().size()));
}

/// As many bytes as the state has, out of the checkpoint itself: another file could lie on faster or slower parts of
/// the disk.
void add_raw(std::vector<RestorePath>& paths, Workload& workload, const fs::path& file) {
  const std::uint64_t offset = raw_offset(workload, file);
  for (const auto& [method, name] : {std::pair{RawMethod::buffered, "pread"}, std::pair{RawMethod::mapped, "mmap"},
                                     std::pair{RawMethod::direct_threads, "O_DIRECT, 4 threads"}}) {
    if (is_available(method, file.parent_path())) {
      paths.push_back({{fmt::format("raw, the same file, {}", name),
                        [&workload, file, offset, how = method] {
                          RawFile(file, open_flags(how)).read(workload.limit_bytes(), offset, how);
                        },
                        {},
                        kRawLimit,
                        kRawLimit},
                       file});
    }
  }
}

std::vector<RestorePath> restore_paths(MPI_Comm comm, Workload& workload, const fs::path& directory) {
  const fs::path saved = directory / "reprieve" / "ckpt-1.h5";
  const fs::path plain = directory / "plain.h5";
  std::vector<RestorePath> paths;
  add_raw(paths, workload, saved);
  const auto add_reprieve = [&](const std::string& name, const fs::path& place, bool verify, bool newest) {
    auto manager = std::make_shared<CheckpointManager>(comm, workload.checkpoint(), directory / place,
                                                       ManagerOptions{.verify_on_restore = verify});
    paths.push_back({{name,
                      [manager, saved, newest] {
                        static_cast<void>(newest ? manager->restore_or_initialize() : manager->restore(saved));
                      },
                      {},
                      kRawLimit},
                     saved,
                     directory / place / "events.jsonl"});
  };
  add_reprieve("Reprieve, the newest checkpoint", "reprieve", true, true);
  add_reprieve("Reprieve, a chosen file", "reader", true, false);
  add_reprieve("Reprieve, checksums not verified", "hasty-reader", false, false);
  paths.push_back(
      {{"HDF5, collective", [comm, &workload, plain] { restore_hdf5(comm, workload, plain); }, {}, kRawLimit}, plain});
  return paths;
}

/// "single", "verified" or "unverified": how often the manager that writes this event log read the data of its last
/// restore.
std::string last_pass(const fs::path& events) {
  std::string pass;
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
  RawFile(file, O_RDONLY).read(expected, raw_offset(workload, file), RawMethod::buffered);
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
  path.candidate.run();
  const bool is_raw = !path.candidate.limit.empty();
  std::uint64_t wrong = is_raw ? wrong_raw_bytes(workload, path.file) : workload.wrong_elements();
  cluster::check_mpi(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, comm), "MPI_Allreduce");
  if (wrong > 0) {
    throw std::runtime_error(
        fmt::format("{}: {} elements or bytes are not what was saved", path.candidate.name, wrong));
  }
  path.candidate.note = last_pass(path.events);
}

struct RestoreOptions {
  StateOptions states;
  int saved_by = 0;
  int ranks = 0;
  std::vector<std::string> only;
  CommonOptions common;
};

/// The files that are read, written by the ranks that "saved".
void write_files(const WorkloadSpec& spec, const FirstRanks& savers, const fs::path& directory, int ranks) {
  savers.run([&] {
    Workload workload(spec, rank_in(savers.comm()), ranks);
    CheckpointManager manager(savers.comm(), workload.checkpoint(), directory / "reprieve");
    manager.save(1);
    save_hdf5(savers.comm(), workload, directory / "plain.h5");
  });
}

void measure_restores(MPI_Comm comm, Workload& workload, const fs::path& directory, const RestoreOptions& options,
                      const std::string& title, Report& report) {
  auto paths = restore_paths(comm, workload, directory);
  for (RestorePath& path : paths) {
    check_restored(comm, workload, path);
  }
  const auto on_rank_0 = [comm](auto&& action, const fs::path& file) {
    if (rank_in(comm) == 0) {
      action(file);
    }
  };
  // All files come into the page cache in the same way, as it gets them from the disk: what was written through the
  // page cache lies there in larger pieces, which are copied faster.
  for (const RestorePath& path : paths) {
    on_rank_0(drop_from_cache, path.file);
    on_rank_0(read_into_cache, path.file);
  }
  barrier(comm);
  for (const bool is_cold : {false, true}) {
    std::vector<Candidate> candidates;
    for (const RestorePath& path : paths) {
      candidates.push_back(path.candidate);
      if (is_cold) {
        candidates.back().prepare = [&on_rank_0, &path] { on_rank_0(drop_from_cache, path.file); };
      }
    }
    keep_wanted(candidates, options.only);
    Experiment experiment(comm, title + (is_cold ? ", from the disk" : ", from the page cache"),
                          workload.total_bytes());
    experiment.measure(candidates, options.common.rounds);
    experiment.add_to(report);
  }
}

void run(const RestoreOptions& asked, Report& report) {
  RestoreOptions options = asked;
  const int size = size_of(MPI_COMM_WORLD);
  options.saved_by = options.saved_by > 0 ? options.saved_by : size;
  options.ranks = options.ranks > 0 ? options.ranks : size;
  for (const WorkloadSpec& spec : states(options.states)) {
    if (options.saved_by != options.ranks && !spec.is_one_large_array()) {
      continue;
    }
    const Scratch scratch(options.common.directory);
    const FirstRanks savers(options.saved_by);
    const FirstRanks readers(options.ranks);
    write_files(spec, savers, scratch.path(), options.saved_by);
    readers.run([&] {
      WorkloadSpec spread = spec;  // the same state on the ranks that restore
      spread.large_mib *= static_cast<double>(options.saved_by) / options.ranks;
      Workload workload(spread, rank_in(readers.comm()), options.ranks);
      measure_restores(
          readers.comm(), workload, scratch.path(), options,
          fmt::format("Restore of {}, saved by {} ranks, on {} ranks", spec.name(), options.saved_by, options.ranks),
          report);
    });
  }
}

}  // namespace

void add_restore_command(CLI::App& app, const bool& json) {
  const auto [command, options] = add_command<RestoreOptions>(
      app, json, "restore", "Time to restore a state from the page cache and from the disk, against plain reads", run);
  add_options(*command, options->states);
  command->add_option("--saved-by", options->saved_by, "Number of ranks that save (default: all)");
  command->add_option("--ranks", options->ranks, "Number of ranks that restore (default: all)");
  command->add_option("--only", options->only, "Paths with one of these texts in their name");
}

}  // namespace reprieve::bench
