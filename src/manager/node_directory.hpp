// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Where the node-local copies of one checkpoint directory lie on this node. No MPI.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cluster/communicator.hpp"
#include "core/directory.hpp"
#include "manager/checkpoint_list.hpp"
#include "reprieve/checkpoint_manager.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/local/part_file.hpp"

namespace reprieve::manager {

/// A complete part that was found.
struct FoundPart {
  std::string file;  ///< its name in the directory
  storage::PartName name;
  std::uint64_t bytes = 0;
  std::string host{};  ///< on which it lies; empty: in the checkpoint directory, where all can read it
};
constexpr auto fields_of(const FoundPart*) {
  using T = FoundPart;
  return std::tuple(&T::file, &T::name, &T::bytes, &T::host);
}

/// Whether @p a was made after @p b.
[[nodiscard]] bool is_newer(const storage::SaveIdentity& a, const storage::SaveIdentity& b);

/// Distinguishes a checkpoint directory from a copy of it: by its inode, and by its time of birth if the file system
/// knows it. A move within its file system keeps it. The device does not count: hosts number a network file system in
/// their own ways. @throws StorageError
[[nodiscard]] std::uint64_t directory_key(const core::Directory& checkpoints);

/// How many files a rank has for its copies. Two of them take turns. While a copy is on its way to the partners, newer
/// ones go to the last, which is never sent.
inline constexpr int kLocalSlots = 3;

/// `<node-local directory>/reprieve-<user>/<id>-<key>-<prefix>/`, for this user alone, or `reprieve-<user>-<random>`
/// where somebody else has taken that name; in it
/// `<launch>-<rank>.<slot>.part`, and `<launch>-<rank>.<slot>.partner.part` of ranks of other hosts.
class NodeDirectory {
 public:
  /// @param key  `directory_key`
  NodeDirectory(const std::filesystem::path& local_directory, const std::string& directory_id, std::uint64_t key,
                const std::string& prefix);

  /// The name of its innermost directory.
  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  [[nodiscard]] static std::string part_name(const std::string& launch, int rank, int slot);
  /// Of a part that another host keeps for that rank.
  [[nodiscard]] static std::string partner_part_name(const std::string& launch, int rank, int slot);

  [[nodiscard]] static bool is_of_partner(const std::string& file);
  /// Which of its rank's slots the file of a part is.
  [[nodiscard]] static int slot_of(const std::string& file);

  /// Makes it if it is not there: one process of a node, before the others. @throws StorageError
  [[nodiscard]] core::Directory make() const;
  /// Nothing if it is not there, or is not this user's own. @throws StorageError
  [[nodiscard]] std::optional<core::Directory> find() const;

  /// As `parts_in`. @param host  this one @throws StorageError as `make`
  [[nodiscard]] std::vector<FoundPart> list(const std::string& host, std::vector<std::string>* corrupt = nullptr) const;

  /// Copies a complete part into the checkpoint directory, as `flush_part`. False also if the part is gone.
  bool flush(const FoundPart& part, const core::Directory& checkpoints,
             const std::function<bool()>& may_continue) const;

  /// Voids the parts that this rank keeps for others, of copies before that save. @throws StorageError
  void make_partner_parts_void(const std::string& launch, const std::vector<int>& kept, std::uint64_t save) const;

  /// Removes the complete parts that are no newer than that save, and those of copies that the record of the directory
  /// has made void, but for files that a living process has locked. Logs what goes wrong.
  void remove_up_to(const storage::SaveIdentity& newest, const LaunchRecord& last) const noexcept;
  /// Removes what other launches left, but for files that a living process has locked. Logs what goes wrong.
  void remove_left_overs(const std::string& launch) const noexcept;
  /// What the parts of other launches take. @throws StorageError
  [[nodiscard]] std::uint64_t left_over_bytes(const std::string& launch) const;
  /// Removes the files of this rank, those that it keeps for others, and the directory if it is empty then. Logs what
  /// goes wrong.
  void remove_parts(const std::string& launch, int rank, const std::vector<int>& kept) const noexcept;

 private:
  void remove_if(
      const std::function<bool(const core::Directory& directory, const std::string& file)>& is_unwanted) const noexcept;
  void remove_empty() const;

  std::filesystem::path above_;  ///< the node-local directory
  std::string folder_;
};

/// The complete parts in any directory. What cannot be read is passed over. @throws StorageError
/// @param corrupt  if not null, gets a sentence for each part whose head is corrupt
[[nodiscard]] std::vector<FoundPart> parts_in(const core::Directory& directory, const std::string& host = {},
                                              std::vector<std::string>* corrupt = nullptr);

/// The checkpoint directories that have parts on this node: what `NodeDirectory::list` finds for each of them.
struct LocalFolder {
  std::filesystem::path path;
  std::vector<FoundPart> parts{};
  bool in_use = false;                 ///< a living process has locked one of its files
  std::vector<std::string> corrupt{};  ///< a sentence for each part whose head is corrupt
};
[[nodiscard]] std::vector<LocalFolder> local_folders(const std::filesystem::path& local_directory);

/// Removes the parts in one of these folders, complete or not, and gives back how many bytes they took.
/// @param named  as `LocalFolder::path` @param dry_run  nothing is removed
/// @throws UsageError if it is no such folder of this user; StorageError, also if a living process uses it
std::uint64_t remove_local_folder(const std::filesystem::path& named, bool dry_run);

// Whose node-local copies are meant.

/// Whether this rank is the lowest of its host: the ranks of a host share a directory, and one of them maintains it.
[[nodiscard]] bool is_first_of_host(const cluster::Communicator& comm);

/// The launch and the directory that copies belong to.
struct LocalOwner {
  std::string directory_id;
  std::uint64_t directory_key = 0;  ///< as rank 0 sees it
  std::string launch;
  std::uint64_t run = 0;

  /// What rank 0 knows, on every rank. Collective.
  [[nodiscard]] static LocalOwner of(CheckpointManager::Impl& manager);
  [[nodiscard]] NodeDirectory node_directory(const ManagerOptions& options) const {
    return {options.local_directory, directory_id, directory_key, options.prefix};
  }
};
constexpr auto fields_of(const LocalOwner*) {
  using T = LocalOwner;
  return std::tuple(&T::directory_id, &T::directory_key, &T::launch, &T::run);
}

// Parts of node-local copies that nodes have flushed into the checkpoint directory, where all nodes can read them: what
// one node has is no checkpoint, and it may be gone before the others flush theirs. No MPI.

/// Name of the directory for them, inside the checkpoint directory.
inline constexpr const char* kFlushedName = ".reprieve.parts";

/// The complete ones. What cannot be read is passed over. @throws StorageError
[[nodiscard]] std::vector<FoundPart> flushed_parts(const core::Directory& checkpoints);

/// The names of all files in it, without a look into them. @throws StorageError
[[nodiscard]] std::set<std::string> names_of_flushed_parts(const core::Directory& checkpoints);

/// Copies a part there, durably. One of that name is replaced. Nothing is left of one that is not whole.
/// @param part  the open file of @p found
/// @param may_continue  asked before each piece
/// Returns false, and flushes nothing, if that said no, or if the part was written again meanwhile.
/// @throws StorageError, CorruptError if it shrinks
bool flush_part(const storage::PosixFile& part, const FoundPart& found, const core::Directory& checkpoints,
                const std::function<bool()>& may_continue);

/// Removes those of a prefix that are no newer than a checkpoint, what nobody has finished for a day, and the directory
/// if it is empty then. Logs what goes wrong.
void remove_flushed_parts(const core::Directory& checkpoints, const std::string& prefix,
                          const storage::SaveIdentity& newest) noexcept;
/// Removes these files, as far as they are there, and the directory if it is empty then. Logs what goes wrong.
void remove_flushed_parts(const core::Directory& checkpoints, const std::set<std::string>& names) noexcept;

}  // namespace reprieve::manager
