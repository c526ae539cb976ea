// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// One save of a CheckpointManager; save.cpp states the commit protocol.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "core/background_task.hpp"
#include "core/worker_directories.hpp"
#include "manager/file_names.hpp"
#include "manager/manager_impl.hpp"
#include "storage/write/checkpoint_writer.hpp"

namespace reprieve::manager {

/// From the call to the commit and the clean-up. Nothing is left behind, however it ends. Members are collective unless
/// they say otherwise, and throw the same on every rank.
class Save {
 public:
  Save(CheckpointManager::Impl& manager, CheckpointManager::SaveRequest request);
  ~Save();
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  /// Steps 1 and 2, and the layout of the file.
  void prepare();

  /// Step 3, before it returns.
  void write();

  /// Copies the state and lets a thread do step 3, unless a rank has no room for a copy: then nothing has happened.
  /// @param copy  the memory for it, which the thread shares
  /// @param limit_bytes  the greatest copy that a rank may make; 0: any
  bool write_in_background(const std::shared_ptr<storage::StateCopy>& copy, std::uint64_t limit_bytes);

  /// Whether this rank's part is written, or has failed; before that the copy is in use. Not collective. Cost: one
  /// load.
  [[nodiscard]] bool written() const noexcept { return !task_ || task_->done(); }

  /// Waits until all ranks have written, then steps 4 to 6.
  SaveReport finish();

  [[nodiscard]] const CheckpointManager::SaveRequest& request() const noexcept { return request_; }

 private:
  using Clock = std::chrono::steady_clock;

  void begin();
  void run_save_fn();
  void lay_out();
  void await_written();
  void commit();
  void retire_left_over();
  void retire();
  void record_finished(const SaveReport& report);
  [[nodiscard]] SaveReport report(Clock::duration mine);

  [[nodiscard]] std::string step(const char* name) const { return what_ + ": " + name; }
  [[nodiscard]] std::filesystem::path write_directory() const;
  void make_write_directory();

  CheckpointManager::Impl& manager_;
  CheckpointManager::SaveRequest request_;
  std::string what_;
  Clock::time_point start_ = Clock::now();
  StagedName staged_{};
  bool began_ = false;                           ///< the chief: the staging directory is there
  std::optional<core::WriteDirectory> scratch_;  ///< for the save function, on ranks other than the chief
  bool has_files_ = false;
  std::uint64_t save_ = 0;  ///< counted over all runs of the directory
  storage::FileMetadata metadata_;
  /// Shared with the thread, which may outlive the save.
  std::shared_ptr<storage::CheckpointWriter> writer_;
  std::optional<core::BackgroundTask> task_;
  Clock::duration blocked_{};  ///< background: until the thread took over
};

/// Runs the program's save function as all of a save: on every rank, with a directory to write to. Collective. Throws
/// what it threw on any rank, on all of them. Returns the number that was proposed to it.
std::uint64_t save_by_function(CheckpointManager::Impl& manager, const CheckpointManager::SaveRequest& request);

}  // namespace reprieve::manager
