#pragma once

/// @file
/// The inside of a CheckpointManager, as the handler uses it.

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/communicator.hpp"
#include "core/drill_orders.hpp"
#include "core/event_log.hpp"
#include "core/fork_guard.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/directory_lock.hpp"
#include "reprieve/checkpoint_manager.hpp"

namespace reprieve {

namespace manager {
class Save;
}
namespace storage {
class StateCopy;
}

/// Members are collective unless they say otherwise. "The chief's" are empty on the other ranks.
struct [[gnu::visibility("hidden")]] CheckpointManager::Impl {
  /// See the constructor of CheckpointManager (open.cpp).
  Impl(MPI_Comm parent, Checkpoint & state, const std::filesystem::path& path, ManagerOptions manager_options);

  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// See the members of CheckpointManager (save.cpp, restore.cpp).
  SaveReport save(const SaveRequest& request);
  void save_in_background(const SaveRequest& request);
  std::optional<SaveReport> finish_background_save();
  /// Ends a save in the background for the sake of something else, which its failure does not hinder.
  void settle_background_save();
  /// How many saves in the background this rank has written, or failed to write. Not collective.
  [[nodiscard]] std::uint64_t background_written() const noexcept;
  std::optional<CheckpointInfo> restore_or_initialize(const std::function<void()>& initialize);
  CheckpointInfo restore(const std::filesystem::path& file, std::optional<std::uint64_t> number = std::nullopt);
  std::optional<CheckpointInfo> latest();
  std::vector<CheckpointInfo> checkpoints();

  /// Writes a line into the event log (if it is not switched off) and the run record (if there is a supervisor) on the
  /// chief; nothing on the other ranks. Not collective.
  void record(const std::string& event, const nlohmann::json& fields);

  /// Bytes that the chief makes, on every rank.
  cluster::Bytes from_chief(const std::function<cluster::Bytes()>& make, std::string_view what);

  core::OwnerProcess owner;
  cluster::Communicator comm;
  Checkpoint& checkpoint;
  ManagerOptions options;
  std::optional<core::DrillOrders> drill;  ///< the same on every rank
  manager::CheckpointDirectory directory;
  std::optional<manager::DirectoryLock> lock;  ///< the chief's
  storage::LayoutCache layout;                 ///< the chief's
  core::EventLog events;                       ///< the chief's
  core::EventLog run_record;                   ///< the chief's

  std::unique_ptr<manager::Save> background;  ///< started, not yet committed
  std::uint64_t background_started = 0;       ///< the same on every rank

 private:
  /// Runs a part of a save; an error is told and goes on.
  void tell_failure(std::uint64_t number, const std::function<void()>& part);
  void open_directory();
  void lock_directory();
  void check_directory_is_shared();
  /// Takes the space for the next checkpoint, if the options say so (reserve.cpp).
  void reserve();
  /// At the end of a run nothing hidden is left. A run that is cut short leaves the spare file to its next start.
  void remove_spare() noexcept;
  storage::FileMetadata restore_state(const std::filesystem::path& file);
  std::optional<CheckpointInfo> restore_newest(const std::function<void()>& initialize);
  /// Numbers of the committed checkpoints, newest first.
  std::vector<std::uint64_t> candidates();
  void set_aside(const std::vector<std::uint64_t>& damaged);

  std::shared_ptr<storage::StateCopy> state_copy_;
};

}  // namespace reprieve
