// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Where the near copies of one checkpoint directory lie on this node. No MPI.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/directory.hpp"
#include "storage/near/near_copy.hpp"

namespace reprieve::manager {

/// A complete part that was found.
struct FoundPart {
  std::string file;  ///< its name in the place
  storage::PartName name;
  std::uint64_t bytes = 0;
};

/// `<near directory>/reprieve-<user>/<id>-<inode>-<prefix>/`, for this user alone; in it `<run>-<rank>.<slot>.part`,
/// and `<run>-<rank>.<slot>.partner.part` of ranks of other hosts.
class NearPlace {
 public:
  NearPlace(const std::filesystem::path& near_directory, const std::string& directory_id, std::uint64_t inode,
            const std::string& prefix);

  [[nodiscard]] std::filesystem::path path() const { return base_ / folder_; }
  [[nodiscard]] static std::string part_name(std::uint64_t run, int rank, int slot);
  /// Of a part that another host keeps for that rank.
  [[nodiscard]] static std::string partner_part_name(std::uint64_t run, int rank, int slot);

  [[nodiscard]] static bool is_of_partner(const std::string& file);
  /// Which of its rank's slots the file of a part is.
  [[nodiscard]] static int slot_of(const std::string& file);

  /// Makes it if it is not there. @throws StorageError, also if it belongs to somebody else
  [[nodiscard]] core::Directory make() const;
  /// Nothing if it is not there. @throws StorageError as `make`
  [[nodiscard]] std::optional<core::Directory> find() const;

  /// The complete parts in it. What cannot be read is passed over. @throws StorageError as `make`
  [[nodiscard]] std::vector<FoundPart> list() const;

  /// The parts that this rank keeps for others, of copies before that save, are none any more. @throws StorageError
  void make_partner_parts_void(std::uint64_t run, const std::vector<int>& kept, std::uint64_t save) const;

  /// Removes what runs before @p run left, but for files that a living process has locked. Logs what goes wrong.
  void remove_left_overs(std::uint64_t run) const noexcept;
  /// Removes the complete parts of copies that are no newer than that save, as `remove_left_overs` does.
  void remove_up_to(const storage::SaveIdentity& newest) const noexcept;
  /// Removes the files of this rank, and those that it keeps for others, and the place if nothing else is in it. Logs
  /// what goes wrong.
  void remove_parts(std::uint64_t run, int rank, const std::vector<int>& kept) const noexcept;

 private:
  void remove_empty() const;

  std::filesystem::path base_;  ///< `<near directory>/reprieve-<user>`
  std::string folder_;
};

/// The complete parts in any directory. What cannot be read is passed over. @throws StorageError
[[nodiscard]] std::vector<FoundPart> parts_in(const core::Directory& directory);

/// The checkpoint directories that have parts on this node: what `NearPlace::list` finds for each of them.
struct NearFolder {
  std::filesystem::path path;
  std::vector<FoundPart> parts;
  bool in_use = false;  ///< a living process has locked one of its files
};
[[nodiscard]] std::vector<NearFolder> near_folders(const std::filesystem::path& near_directory);

}  // namespace reprieve::manager
