#pragma once

/// @file
/// Writing and reading one checkpoint file. apps/guide/format.md describes its content.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/file_address.hpp"
#include "reprieve/save.hpp"
#include "state/registry.hpp"

namespace reprieve::cluster {
class Communicator;  // not its header, so that what reads files alone knows no MPI
}

namespace reprieve::storage {

/// Which save of which directory a file is. The newest of a directory is the greatest by run, then by save.
struct SaveIdentity {
  std::string directory_id;
  std::uint64_t run = 0;   ///< the start in this directory, counted from 1
  std::uint64_t save = 0;  ///< the save in this directory, counted from 1 over all runs and prefixes

  friend bool operator==(const SaveIdentity&, const SaveIdentity&) = default;
};

/// Metadata of a checkpoint file besides its variables.
struct FileMetadata {
  int format_version = 0;
  std::uint64_t number = 0;
  std::optional<std::uint64_t> run_calls;  ///< nothing if no handler lived when it was saved
  std::optional<SaveIdentity> identity;    ///< nothing in files of versions that did not have it
  int world_size = 0;
  std::int64_t time_us = 0;  ///< wall clock, microseconds since 1970
  SaveReason reason;
  /// What must be the same in the run that restores it, by name (`Checkpoint::add_constant`).
  std::map<std::string, std::string> constants;
  bool has_files = false;  ///< the chief's save function left files beside the checkpoint
  std::string library_version;
  std::string mpi_version;
  std::string hdf5_version;
};

struct WriteOptions {
  WriterKind writer = WriterKind::direct;
  bool durable = true;
  FileIo io = FileIo::automatic;
  bool recycle = false;  ///< the file is there, and its blocks may be written over
};

/// What the chief keeps from one save to the next: as long as all ranks register the same variables and shapes, the
/// file is not laid out anew.
class LayoutCache {
 public:
  LayoutCache();
  ~LayoutCache();
  LayoutCache(LayoutCache&&) noexcept;
  LayoutCache& operator=(LayoutCache&&) noexcept;

  struct Content;
  [[nodiscard]] std::unique_ptr<Content>& content() noexcept { return content_; }

 private:
  std::unique_ptr<Content> content_;  ///< nothing before the first save
};

/// Writes all variables and metadata into the new file @p file, complete, checksummed, marked complete and durable, but
/// under its temporary name: the commit (rename) is the caller's. An existing file of that name is replaced, or with
/// `options.recycle` rewritten: it is void as a checkpoint before anything else in it changes. The
/// versions and the world size in @p metadata are filled in here.
/// Collective. Returns the bytes of state written by all ranks, the same on every rank.
/// @throws StorageError, MismatchError (ranks registered different variables or shapes), MpiError, UnresponsiveError,
/// the same on every rank. The file is left for the caller to remove.
std::uint64_t write_checkpoint(cluster::Communicator& comm, const Checkpoint::Registry& registry,
                               const std::filesystem::path& file, const FileMetadata& metadata,
                               const WriteOptions& options, LayoutCache& cache);

/// No less than the size of the file that `write_checkpoint` would make now. Collective; the same on every rank.
/// @throws as write_checkpoint
std::uint64_t most_checkpoint_bytes(cluster::Communicator& comm, const Checkpoint::Registry& registry);

/// Restores all registered variables from @p file. Collective.
/// Compares names, types and shapes first and throws one MismatchError that lists all differences before any variable
/// is touched. @throws CorruptError, MismatchError, StorageError, MpiError, UnresponsiveError, the same on every rank.
FileMetadata restore_checkpoint(cluster::Communicator& comm, const Checkpoint::Registry& registry,
                                const std::filesystem::path& file, bool verify);

/// Reads the metadata: the seal and the manifest, and nothing else. Not collective.
/// @throws CorruptError, StorageError; MismatchError for a future format version
FileMetadata read_metadata(const core::FileAddress& file);

/// One variable as the tools show it.
struct VariableInfo {
  std::string name;
  state::Distribution distribution = state::Distribution::replicated;
  ElementType type;
  Extents shape;                     ///< global shape; per-rank: the number of elements of all ranks together
  std::vector<Extents> rank_shapes;  ///< per-rank variables: the shape on each rank
  std::uint64_t bytes = 0;
  Annotation annotation{};
  Members members{};
};

/// Lists the variables, sorted by name. Not collective. @throws as read_metadata
std::vector<VariableInfo> list_variables(const std::filesystem::path& file);

/// A damaged place.
struct Damage {
  std::string variable;  ///< empty: the file as a whole
  std::string region;    ///< human-readable: "elements [0:512, 0:64] written by rank 3"
  std::string problem;
};

/// Verifies every checksum. Not collective. Returns all damage found; empty if the file is sound. Does not throw for
/// damage, only StorageError if the file cannot be read at all. @p progress, if given, is called with bytes done and
/// bytes in all.
std::vector<Damage> verify_file(const std::filesystem::path& file,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress = {});

/// Reads the whole of one variable into memory, verified, elements in C order. Not collective.
/// @throws CorruptError, StorageError, UsageError if there is no such variable
std::vector<std::byte> read_variable(const std::filesystem::path& file, const std::string& name);

}  // namespace reprieve::storage
