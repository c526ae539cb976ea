// SPDX-License-Identifier: BSD-3-Clause
#include "save_candidates.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>

#include <memory>

#include "parallel_files.hpp"
#include "ranks.hpp"
#include "raw_file.hpp"
#include "reprieve/reprieve.hpp"

namespace reprieve::bench {

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

}  // namespace reprieve::bench
