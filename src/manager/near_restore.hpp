// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The start from a near copy. near_restore.cpp states how. Collective in all its parts.

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "manager/manager_impl.hpp"
#include "manager/near_choice.hpp"
#include "manager/near_copies.hpp"
#include "storage/near/parts_source.hpp"

namespace reprieve::manager {

class [[gnu::visibility("hidden")]] NearRestore {
 public:
  explicit NearRestore(CheckpointManager::Impl & manager);

  /// Restores the newest complete copy, if it is newer than all checkpoints of the directory. Where the ranks cannot
  /// read all that they need from their own hosts, makes a checkpoint of it instead, which is then the newest one, and
  /// returns nothing. @throws as CheckpointManager::restore_or_initialize
  std::optional<CheckpointInfo> newest();

 private:
  struct Location;
  struct Choice;
  struct Opened;

  [[nodiscard]] nlohmann::json list_here() const;
  [[nodiscard]] std::optional<Choice> choose(const nlohmann::json& by_rank) const;
  [[nodiscard]] Location best_of(const std::vector<ListedPart>& places) const;
  [[nodiscard]] std::optional<Choice> agree_on_choice();
  [[nodiscard]] bool open(const Choice& choice, Opened& opened);
  void learn_structure(const Choice& choice, Opened& opened);
  void learn_checksums(Opened & opened);
  [[nodiscard]] bool all_are_sound(const nlohmann::json& damaged);
  std::optional<CheckpointInfo> restore(const Choice& choice, Opened& opened);
  void reach(const Choice& choice, const Opened& opened, storage::PartsSource& source);
  void share_replicated(const Choice& choice, const Opened& opened, storage::PartsSource& source);
  void drain(const Choice& choice, Opened& opened);
  [[nodiscard]] storage::PosixFile open_part(const Location& at) const;

  CheckpointManager::Impl& manager_;
  NearOwner owner_;
  NearPlace place_;
  std::optional<core::Directory> directory_;
  std::set<std::string> damaged_;  ///< "<host>/<file>"; the chief's
};

}  // namespace reprieve::manager
