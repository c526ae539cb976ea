// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Copies of the state in the memory of the nodes, taken while the program runs. local_copies.cpp states the protocol.

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/threads.hpp"
#include "manager/emergency_save.hpp"
#include "manager/local_transfer.hpp"
#include "manager/manager_impl.hpp"
#include "manager/node_directory.hpp"
#include "storage/local/part_file.hpp"
#include "storage/write/checkpoint_writer.hpp"

namespace reprieve::manager {

class [[gnu::visibility("hidden")]] LocalCopies {
 public:
  /// Collective. @throws StorageError if a rank cannot make the directory; UsageError for mistakes in `local_domains`
  explicit LocalCopies(CheckpointManager::Impl & manager);
  /// The same; null where a rank cannot make the directory. That is logged, ever more seldom: a job does not end for
  /// want of node-local copies. Collective.
  [[nodiscard]] static std::unique_ptr<LocalCopies> make(CheckpointManager::Impl & manager);
  /// Waits for the thread. What it has written stays.
  ~LocalCopies();
  LocalCopies(const LocalCopies&) = delete;
  LocalCopies& operator=(const LocalCopies&) = delete;

  /// Copies the state of all ranks; a thread completes the parts. Left out, with the same answer on every rank, if the
  /// copy before is not complete, or if there is no room: that is logged, and is no error. Collective.
  bool take(const CheckpointManager::SaveRequest& request);

  /// Whether somebody has removed files of the copies while they are in use, on any node: what is written into such a
  /// file is lost with the process. Collective.
  [[nodiscard]] bool has_lost_files();

  /// MPI is about to end: waits for some seconds at most, then sends nothing.
  void leave_mpi() noexcept;

  /// A checkpoint is committed: copies that are older lose their commit records on this host. If the user removes that
  /// checkpoint to go back, they are not what is gone back to. Not collective.
  void forget_older_than(std::uint64_t save) noexcept;

  /// Removes the parts of this rank, which have no further use. Not collective.
  void give_back() noexcept;

  /// How many copies are known to be complete on all ranks. The same on every rank. Not collective.
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_; }

  /// Moves what is on its way to a partner. To be called between steps while `is_under_way`. Not collective.
  /// Cost: the clock is read; at most some hundredths of the time since the last call. @throws MpiError
  void advance();
  [[nodiscard]] bool is_under_way() const noexcept { return transfer_ && !transfer_->done(); }

  /// What flushes them into the checkpoint directory without the other ranks. It may be used for longer than this
  /// lives.
  [[nodiscard]] const std::shared_ptr<EmergencySave>& emergency_save() const noexcept { return emergency_save_; }

  /// Waits until the copy that was taken last is complete on this rank, and at its partner, or has failed. With
  /// partners all ranks must call it.
  void wait();

 private:
  enum class Last : std::int64_t;
  enum class Sent : std::int64_t;
  /// The report about a complete copy. Known to rank 0.
  struct Taken {
    std::uint64_t step = 0;
    std::int64_t time_us = 0;
    std::uint64_t bytes = 0;  ///< of all ranks
  };

  [[nodiscard]] Last state_of_last() const;
  void agree_on_transfer();
  void send_part();
  void wait(std::chrono::milliseconds limit);
  [[nodiscard]] bool agree_on_last();
  [[nodiscard]] storage::FileMetadata agree_on_metadata(const CheckpointManager::SaveRequest& request);
  [[nodiscard]] storage::LocalCopy name_copy(const storage::FileMetadata& metadata, std::uint64_t layout_digest);
  [[nodiscard]] bool copy(const CheckpointManager::SaveRequest& request);
  [[nodiscard]] bool has_room(std::size_t part, std::size_t slot);
  void report_failure(const Error& error) noexcept;
  void report_missing_partner();
  void report_begun(const storage::LocalCopy& copy);
  void report_complete();
  void find_partners();

  CheckpointManager::Impl& manager_;
  LocalOwner owner_;
  NodeDirectory node_directory_;
  core::Directory directory_;
  storage::LayoutCache layout_;  ///< of its own: that of a save in the background must not change under it
  std::array<std::shared_ptr<storage::PartSlot>, kLocalSlots> slots_;
  std::array<std::uint64_t, kLocalSlots> saves_{};  ///< whose copies they hold, as `SaveIdentity::save`
  std::size_t next_ = 0;                            ///< which of the two slots that take turns is next
  std::size_t slot_ = 0;                            ///< the slot of the last copy
  std::optional<core::BackgroundTask> task_;
  std::shared_ptr<EmergencySave> emergency_save_;
  std::unique_ptr<LocalTransfer> transfer_;  ///< null without partners, and when MPI has ended
  bool is_sending_ = false;                  ///< on some rank, as of the last agreement; the same on every rank
  std::vector<int> kept_;                    ///< this rank keeps their parts
  std::uint64_t completed_ = 0;
  std::uint64_t failures_ = 0;
  bool lacks_room_ = false;  ///< that is said, until there was room again
  bool has_reported_missing_partner_ = false;
  bool last_has_failed_ = false;  ///< on another rank; this one's thread continued
  Taken last_;
  Taken sent_;                                        ///< the last copy that is sent to the partners, or was
  Taken at_partner_;                                  ///< the newest one that is complete there
  std::chrono::steady_clock::time_point reported_{};  ///< when a complete copy was reported last
  /// The newest checkpoint, by run and save, when the last `LocalCopyBegun` was written.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> begun_after_;
  std::uint64_t taken_ = 0;
  std::chrono::duration<double> blocked_{};  ///< by all of them
};

}  // namespace reprieve::manager
