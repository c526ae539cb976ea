// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The inside of a CheckpointManager, as the handler uses it.

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "cluster/communicator.hpp"
#include "cluster/job_end.hpp"
#include "core/events.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/run_record.hpp"
#include "core/setting.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/directory_lock.hpp"
#include "manager/node_directory.hpp"
#include "manager/opening.hpp"
#include "manager/run_identity.hpp"
#include "reprieve/checkpoint_manager.hpp"
#include "storage/write/checkpoint_writer.hpp"

namespace reprieve {

namespace manager {
class BackgroundSave;
class LocalCopies;
}  // namespace manager

namespace manager {
/// What is said where an error that is on its way to the program cannot be reported: that must not hide it.
inline constexpr const char* kNotRecorded = "an error could not be recorded";

/// Questions and reports of a manager to its handler. Not collective; the answers are the same on every rank.
struct HandlerLink {
  const void* owner = nullptr;  ///< the handler: another one may have replaced it when it ends
  struct NextNumber {
    std::uint64_t number = 0;
    bool may_replace = false;  ///< the checkpoint of that number holds this very step, as far as the handler knows
  };
  std::function<std::uint64_t()> run_calls;
  std::function<NextNumber()> number;  ///< for the next checkpoint
  /// The program has restored a checkpoint by itself, while the handler lived.
  std::function<void(const CheckpointInfo&)> restored;
};
}  // namespace manager

/// Members are collective unless they say otherwise. "Rank 0's" are empty on the other ranks.
struct [[gnu::visibility("hidden")]] CheckpointManager::Impl {
  /// See the constructor of CheckpointManager.
  static std::unique_ptr<Impl> open(MPI_Comm parent, Checkpoint & state, const std::filesystem::path& path,
                                    ManagerOptions&& manager_options);
  Impl(const std::shared_ptr<cluster::Communicator>& ranks, Checkpoint& state, const std::filesystem::path& path,
       ManagerOptions&& manager_options);

  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// See the members of CheckpointManager.
  SaveReport save(const SaveRequest& request);
  void save_in_background(const SaveRequest& request);
  /// See CheckpointManager::local_copy.
  bool local_copy(const SaveRequest& request);
  /// The same where no handler moves what is on its way to a partner between the steps.
  bool local_copy_alone(std::optional<std::uint64_t> number);
  /// The same of those that earlier runs left on this host, which the state has been taken from: the run has come to
  /// its end without a copy of its own. Not collective.
  void remove_local_left_overs() noexcept;
  /// The node-local copies have no further use: a newer checkpoint is committed, or the run is over. Not collective.
  void give_back_local_copies() noexcept;
  /// The identity of the newest checkpoint of this directory, if it has any. Rank 0's. Not collective.
  [[nodiscard]] manager::Commit newest_committed();
  void note_committed(const storage::FileMetadata& metadata);
  std::optional<CheckpointInfo> restore_or_initialize(const std::function<void()>& initialize);
  CheckpointInfo restore(const std::filesystem::path& file);
  /// @throws UsageError if a save function runs: a save inside of another one would tear it down
  void check_not_in_save_fn(const char* call) const;
  /// @throws UsageError if a restore has overwritten variables and then failed
  void check_state_is_whole() const;
  std::optional<CheckpointInfo> latest();
  std::vector<CheckpointInfo> checkpoints();
  /// Numbers of the committed checkpoints, newest first; foreign ones only if there are no others. Collective.
  std::vector<std::uint64_t> candidates();

  /// Rank 0: retires checkpoints by the options, never @p newest. Not collective. @throws StorageError
  void retire(std::uint64_t newest, manager::CheckpointDirectory::Retirement retirement);

  /// Rank 0: the number that was asked for, or the next one. Not collective.
  std::uint64_t choose_number(const SaveRequest& request);
  /// The directory remembers that the run is finished, until something is saved or removed. Logs what goes wrong. Not
  /// collective: nothing on ranks other than rank 0.
  void mark_finished(std::uint64_t run_calls);
  /// Makes sure that a file with these constants belongs to the problem of this run. @throws MismatchError
  void check_constants(const std::filesystem::path& file, const manager::Constants& stored);
  /// The calls of run at which a run of this prefix was finished, if it was and nothing has changed since.
  std::optional<std::uint64_t> finished_at();

  /// Writes a line into the event log (if it is not switched off) and the run record (if there is a supervisor) on
  /// rank 0; nothing on the other ranks. Not collective.
  void record(const core::Event& event);

  /// A save has failed. Not collective.
  void report_failure(const std::optional<std::uint64_t>& number, const Error& error) noexcept;

  core::OwnerProcess owner;
  std::shared_ptr<cluster::Communicator> own_comm;  ///< its owner, before all that could fail on one rank
  cluster::Communicator& comm;
  Checkpoint& checkpoint;
  core::Json environment;  ///< the settings that rank 0's environment made, by key; the same on every rank
  ManagerOptions options;
  std::optional<core::DrillOrders> drill;  ///< the same on every rank
  manager::CheckpointDirectory directory;
  std::optional<manager::DirectoryLock> lock;  ///< rank 0's
  storage::LayoutCache layout;
  core::EventLog event_log;              ///< rank 0's
  core::RunRecord run_record;            ///< rank 0's
  bool has_compared_replicated = false;  ///< the first save does; the same on all ranks

  std::optional<manager::RunIdentity> identity;  ///< rank 0's
  /// Of this run, with every file read once: what is in it later is not what the run began with. Rank 0's.
  const manager::Constants& constants();
  std::optional<manager::HandlerLink> handler;  ///< while one lives
  std::function<void()> check_arrays;           ///< of a restore, for a state that will be saved; collective
  int handlers = 0;                             ///< that live and are not closed

  const std::unique_ptr<manager::BackgroundSave> background;
  std::unique_ptr<manager::LocalCopies> local;     ///< nothing before the first one
  std::optional<manager::LocalOwner> local_owner;  ///< nothing before a start looked for them
  std::uint64_t local_failures = 0;                ///< to make a directory for them
  bool local_copies_stay = false;                  ///< at the end, as that of a handler's run that is not finished
  bool gives_numbers = false;                      ///< the program, to its saves
  bool uses_save_fn = false;                       ///< what a node-local copy cannot hold
  bool may_have_left_over = true;  ///< checkpoints that the retention gives up may be there still; rank 0's
  bool in_save_fn = false;         ///< a save of this manager is running the user's save function
  std::chrono::steady_clock::time_point last_commit;  ///< rank 0's
  std::optional<std::uint64_t> last_number;           ///< of the last save that began; the same on every rank

 private:
  void get_ready_to_save(const char* call, const SaveRequest& request);
  void open_directory();
  void lock_directory();
  /// At the end of a run nothing hidden is left. A run that is cut short leaves the recycled file to its next start.
  void remove_recycled() noexcept;
  std::optional<CheckpointInfo> restore_newest(const std::function<void()>& initialize);
  void lay_out_ahead();
  void agree_on_half_restored();
  /// The manager lives on after MPI_Finalize.
  void at_finalize() noexcept;

  std::optional<manager::Constants> constants_;
  std::optional<manager::Commit> newest_committed_;
  int exceptions_at_start_;
  std::size_t constants_registered_ = 0;
  cluster::FinalizeHook finalize_hook_;  ///< the last member: all others are there when it calls
};

}  // namespace reprieve
