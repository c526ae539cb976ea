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

/// A new folder, which rank 0 makes and removes.
class Folder {
 public:
  explicit Folder(const fs::path& parent)
      : parent_(core::Directory::open(parent)), name_("reprieve-files-" + manager::make_random_id()) {
    parent_.make_directory(name_, core::kOwnDirectory);
  }
  ~Folder() {
    try {
      parent_.remove_tree(name_);
    } catch (const std::exception& error) {
      core::log::warning("{} is left: {}", (parent_.path() / name_).string(), error.what());
    }
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  core::Directory parent_;
  std::string name_;
};

storage::PosixFile open_file(const core::Directory& folder, const std::string& name, int flags) {
  return {folder.path() / name, folder.open_file(name, flags, core::kOwnFile)};
}

/// Names and sizes. No rank has looked before: a network file system shows the newest.
std::vector<std::pair<std::string, std::uint64_t>> files_in(const core::Directory& folder) {
  std::vector<std::pair<std::string, std::uint64_t>> files;
  for (const auto& [name, kind] : folder.list()) {
    if (kind != core::EntryKind::file) {
      throw UsageError((folder.path() / name).string() +
                       " is no file: a library that add_files serves writes no folders");
    }
    files.emplace_back(name, open_file(folder, name, O_RDONLY).size());
  }
  if (files.empty()) {
    throw UsageError("the function that add_files got wrote no file whose path begins with the prefix, in " +
                     folder.path().string());
  }
  return files;
}

FilePart part_of(const core::Directory& folder, const std::string& name, std::uint64_t size,
                 const cluster::Communicator& ranks) {
  const auto [begin, end] = detail::even_part(size, ranks.rank(), ranks.size());
  FilePart part{name, begin, std::vector<std::byte>(static_cast<std::size_t>(end - begin))};
  open_file(folder, name, O_RDONLY).read_all(part.bytes, begin);
  return part;
}

/// The files of one variable, of which this rank has parts after a restore.
class LibraryFiles {
 public:
  LibraryFiles(MPI_Comm comm, fs::path directory, FileFunctions functions)
      : comm_(comm), directory_(std::move(directory)), functions_(std::move(functions)) {}

  [[nodiscard]] FileParts write() const {
    FileParts parts;
    in_folder("writing the files of a library", [&](cluster::Communicator& ranks, const core::Directory& folder) {
      functions_.write((folder.path() / "state").string());
      ranks.barrier("all have written");
      for (const auto& [name, size] : ranks.from_chief([&] { return files_in(folder); }, "sizes of the files")) {
        parts.push_back(part_of(folder, name, size, ranks));
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
    in_folder("reading the files of a library", [&](cluster::Communicator& ranks, const core::Directory& folder) {
      for (const FilePart& part : *parts) {
        storage::PosixFile file = open_file(folder, part.name, O_WRONLY | O_CREAT);
        file.write_all(part.bytes, part.offset);
        file.close();
      }
      ranks.barrier("the files are there");
      functions_.read((folder.path() / "state").string());
    });
  }

  void clear() { parts_.emplace(); }
  void add(std::span<const std::byte> bytes) {
    FileParts more;
    Serializer<FileParts>::load(more, bytes);
    std::ranges::move(more, std::back_inserter(*parts_));
  }

 private:
  template <class Use>
  void in_folder(const char* what, Use&& use) const {
    cluster::Communicator ranks(comm_, kPatience);
    std::optional<Folder> made;  // on rank 0; until all have ended
    ranks.together(
        [&] {
          const auto name = ranks.from_chief([&] { return made.emplace(directory_).name(); }, what);
          use(ranks, core::Directory::open(directory_ / name));
        },
        what);
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
  // Opened now: a wrong path must not show in the save before the end of the job.
  const auto files =
      std::make_shared<LibraryFiles>(comm, core::Directory::open(directory).path(), std::move(functions));
  state.add_per_rank(name, *files, [](const PerRankPieces& pieces, int rank, int size, LibraryFiles& mine) {
    mine.clear();
    for (int saved = rank; saved < pieces.count(); saved += size) {
      mine.add(pieces.bytes(saved));
    }
  });
  state.when_values_restored([files] { files->read(); });
}

}  // namespace reprieve
