// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/library_files.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cluster/communicator.hpp"
#include "core/directory.hpp"
#include "core/log.hpp"
#include "manager/checkpoint_list.hpp"
#include "reprieve/containers.hpp"
#include "reprieve/particles.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve {

namespace {

namespace fs = std::filesystem;

/// The ranks come from one call of the library, so that none waits long for another one.
constexpr std::chrono::minutes kPatience{10};

/// What a rank has of a file.
struct FilePart {
  std::string name;
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;

  template <class Archive>
  void serialize(Archive& archive) {
    archive("name", name, "offset", offset, "bytes", bytes);
  }
};
using FileParts = std::vector<FilePart>;

/// A new directory, which rank 0 makes and removes.
class MadeDirectory {
 public:
  explicit MadeDirectory(const fs::path& parent)
      : parent_(core::Directory::open(parent)), name_("reprieve-files-" + manager::make_random_id()) {
    parent_.make_directory(name_, core::kOwnDirectory);
  }
  ~MadeDirectory() {
    try {
      parent_.remove_tree(name_);
    } catch (const std::exception& error) {
      core::log::warning("{} is left: {}", (parent_.path() / name_).string(), error.what());
    }
  }
  MadeDirectory(const MadeDirectory&) = delete;
  MadeDirectory& operator=(const MadeDirectory&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  core::Directory parent_;
  std::string name_;
};

storage::PosixFile open_file(const core::Directory& directory, const std::string& name, int flags) {
  return {directory.path() / name, directory.open_file(name, flags, core::kOwnFile)};
}

/// Names and sizes. No rank has looked before: a network file system shows the newest.
std::vector<std::pair<std::string, std::uint64_t>> files_in(const core::Directory& directory) {
  std::vector<std::pair<std::string, std::uint64_t>> files;
  for (const auto& [name, kind] : directory.list()) {
    if (kind != core::EntryKind::file) {
      throw UsageError((directory.path() / name).string() +
                       " is no file: a library that add_files serves writes no directories");
    }
    files.emplace_back(name, open_file(directory, name, O_RDONLY).size());
  }
  if (files.empty()) {
    throw UsageError("the function that add_files got wrote no file whose path begins with the prefix, in " +
                     directory.path().string());
  }
  return files;
}

FilePart part_of(const core::Directory& directory, const std::string& name, std::uint64_t size,
                 const cluster::Communicator& ranks) {
  const auto [begin, end] = detail::even_part(size, ranks.rank(), ranks.size());
  FilePart part{name, begin, std::vector<std::byte>(static_cast<std::size_t>(end - begin))};
  open_file(directory, name, O_RDONLY).read_all(part.bytes, begin);
  return part;
}

/// The files of one variable. This rank has parts of them after a restore.
class LibraryFiles {
 public:
  LibraryFiles(MPI_Comm comm, fs::path directory, FileFunctions functions)
      : comm_(comm), directory_(std::move(directory)), functions_(std::move(functions)) {}

  [[nodiscard]] FileParts write() const {
    FileParts parts;
    in_new_directory("writing the files of a library", [&](cluster::Communicator& ranks,
                                                           const core::Directory& directory) {
      functions_.write((directory.path() / "state").string());
      ranks.barrier("all have written");
      for (const auto& [name, size] : ranks.from_rank_0([&] { return files_in(directory); }, "sizes of the files")) {
        parts.push_back(part_of(directory, name, size, ranks));
      }
    });
    return parts;
  }

  /// Nothing if the variable was not restored.
  void read() {
    const auto parts = std::exchange(parts_, std::nullopt);
    if (!parts) {
      return;
    }
    in_new_directory("reading the files of a library",
                     [&](cluster::Communicator& ranks, const core::Directory& directory) {
                       for (const FilePart& part : *parts) {
                         storage::PosixFile file = open_file(directory, part.name, O_WRONLY | O_CREAT);
                         file.write_all(part.bytes, part.offset);
                         file.close();
                       }
                       ranks.barrier("the files are there");
                       functions_.read((directory.path() / "state").string());
                     });
  }

  void clear() { parts_.emplace(); }
  void add(std::span<const std::byte> bytes) {
    FileParts more;
    Serializer<FileParts>::load(more, bytes);
    std::ranges::move(more, std::back_inserter(*parts_));
  }

  /// A directory that a rank does not see must not show in the save before the end of the job.
  void check(const std::string& name) const {
    in_new_directory("trying the directory of add_files", [&](cluster::Communicator& ranks, const core::Directory&) {
      const std::string of_rank_0 = ranks.from_rank_0([&] { return name; }, "comparing the calls of add_files");
      if (of_rank_0 != name) {
        throw UsageError("the ranks call add_files in different orders: '" + of_rank_0 + "' and '" + name + "'");
      }
    });
  }

 private:
  template <class Use>
  void in_new_directory(const char* what, Use&& use) const {
    cluster::Communicator ranks(comm_, kPatience);
    std::optional<MadeDirectory> made;  // on rank 0; until all have ended
    ranks.together(
        [&] {
          const auto name = ranks.from_rank_0([&] { return made.emplace(directory_).name(); }, what);
          use(ranks, open_made(directory_ / name));
        },
        what);
  }

  static core::Directory open_made(const fs::path& path) {
    try {
      return core::Directory::open(path);
    } catch (const StorageError& error) {
      throw StorageError(error.code(), std::string(error.what()) + "; rank 0 made it for the files of add_files: all " +
                                           "ranks must see " + path.parent_path().string());
    }
  }

  MPI_Comm comm_;
  fs::path directory_;
  FileFunctions functions_;
  std::optional<FileParts> parts_;
};

}  // namespace

template <>
struct Serializer<LibraryFiles> {
  static std::vector<std::byte> save(const LibraryFiles& files) { return Serializer<FileParts>::save(files.write()); }
  static void load(LibraryFiles& files, std::span<const std::byte> bytes) {
    files.clear();
    files.add(bytes);
  }
};

void add_files(Checkpoint& state, const std::string& name, MPI_Comm comm, const fs::path& directory,
               FileFunctions functions) {
  if (!functions.write || !functions.read) {
    throw UsageError("variable '" + name + "': files need the functions write and read");
  }
  const auto files = std::make_shared<LibraryFiles>(comm, fs::absolute(directory), std::move(functions));
  files->check(name);
  state.add_per_rank(name, *files, [](const PerRankPieces& pieces, int rank, int size, LibraryFiles& mine) {
    mine.clear();
    for (int saved = rank; saved < pieces.count(); saved += size) {
      mine.add(pieces.bytes(saved));
    }
  });
  state.when_values_restored([files] { files->read(); });
}

}  // namespace reprieve
