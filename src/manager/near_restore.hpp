// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The start from a near copy. near_restore.cpp states how. Collective in all its parts.

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "manager/manager_impl.hpp"
#include "manager/near_copies.hpp"
#include "manager/near_place.hpp"
#include "manager/restore_walk.hpp"
#include "storage/near/part_file.hpp"
#include "storage/near/part_items.hpp"

namespace reprieve::manager {

class [[gnu::visibility("hidden")]] NearRestore {
 public:
  /// Keeps references. @param walk  which goes on with the checkpoints if there is nothing here
  NearRestore(CheckpointManager::Impl & manager, RestoreWalk & walk);

  /// Restores the newest complete copy, if it is newer than all checkpoints of the directory. Where the ranks cannot
  /// read all that they need from their own hosts, makes a checkpoint of it instead, which is then the newest one, and
  /// returns nothing. @throws as CheckpointManager::restore_or_initialize
  std::optional<CheckpointInfo> newest();

 private:
  static constexpr const char* kVerifying = "verifying a near copy";  ///< what the ranks do, in errors

  /// Where a part lies, and who verifies it and gives it to others.
  struct Location {
    std::string host;  ///< empty: in the checkpoint directory
    std::string file;
    int holder = 0;
  };

  struct Choice {
    storage::NearCopy copy;
    std::vector<Location> parts;  ///< by rank
    std::vector<Location> older;  ///< rank 0's part of each older copy that is complete

    [[nodiscard]] bool lies_on_hosts() const {
      return std::ranges::none_of(parts, [](const Location& at) { return at.host.empty(); });
    }
  };

  struct Opened {
    std::vector<std::shared_ptr<const storage::Part>> parts;  ///< that this rank holds
    storage::StructureImage image;
    storage::FileIndex index;
  };

  /// How an attempt to restore a copy has ended.
  struct Attempt {
    bool is_over = false;  ///< false: it is damaged, so that the choice must be made anew
    std::optional<CheckpointInfo> restored = std::nullopt;
  };

  [[nodiscard]] nlohmann::json list_here() const;
  [[nodiscard]] std::optional<Choice> choose(const nlohmann::json& by_rank) const;
  [[nodiscard]] static nlohmann::json to_json(const Location& at);
  [[nodiscard]] static Location location_from(const nlohmann::json& at);
  [[nodiscard]] Location best_of(const std::vector<ListedPart>& places) const;
  [[nodiscard]] std::optional<Choice> agree_on_choice();
  [[nodiscard]] bool open(const Choice& choice, Opened& opened);
  void learn_structure(const Choice& choice, Opened& opened);
  void learn_checksums(Opened & opened);
  [[nodiscard]] bool all_are_sound(const nlohmann::json& damaged);
  [[nodiscard]] bool verify(const Choice& choice, const Opened& opened);
  [[nodiscard]] bool check_each(const Choice& choice, const Opened& opened,
                                const std::function<void(const storage::Part&)>& check);
  [[nodiscard]] bool damage_would_be_overwritten(const Choice& choice, const Opened& opened,
                                                 const storage::Restorer& restorer);
  [[nodiscard]] bool older_copies_overwrite_the_same(const Choice& choice, const storage::Restorer& restorer);
  [[nodiscard]] bool overwrites_the_same(const storage::Bytes& image, const storage::Restorer& restorer) const;
  [[nodiscard]] storage::Bytes image_of(const Location& at) const;
  [[nodiscard]] std::shared_ptr<const storage::Part> open_chosen(const Choice& choice, int rank) const;
  [[nodiscard]] Attempt bring_home(const Choice& choice, Opened& opened);
  [[nodiscard]] Attempt restore(const Choice& choice, Opened& opened);
  void reach(const Choice& choice, const Opened& opened, storage::PartsSource& source);
  void share_replicated(const Choice& choice, const Opened& opened, storage::PartsSource& source);
  void drain(const Choice& choice, Opened& opened);
  [[nodiscard]] storage::PosixFile open_part(const Location& at) const;

  CheckpointManager::Impl& manager_;
  RestoreWalk& walk_;
  NearOwner owner_;
  NearPlace place_;
  std::optional<core::Directory> directory_;
  std::set<std::string> damaged_;  ///< "<host>/<file>"; the chief's
  bool must_prove_ = false;        ///< a copy was damaged that had been read into the variables
};

}  // namespace reprieve::manager
