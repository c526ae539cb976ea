// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The save that needs nobody: each rank flushes its node-local part into the checkpoint directory by itself.
/// emergency_save.cpp states the protocol. No MPI.

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/directory.hpp"
#include "core/threads.hpp"
#include "manager/node_directory.hpp"

namespace reprieve::manager {

/// All members can be called by any thread. Not collective.
class EmergencySave {
 public:
  struct Rank {
    std::string launch;
    int rank = 0;
    int ranks = 0;
  };

  /// @param checkpoints  where the parts are flushed to
  /// @param node_directory  where the parts of this host lie
  EmergencySave(const core::Directory& checkpoints, const NodeDirectory& node_directory, Rank rank);
  /// As `end`, but what was flushed stays.
  ~EmergencySave();
  EmergencySave(const EmergencySave&) = delete;
  EmergencySave& operator=(const EmergencySave&) = delete;

  /// Begins, on a thread, unless it is at work already. Returns at once.
  void begin();
  /// All ranks are in a save. Nothing is written for that long, nor while the staged file changes: two saves that share
  /// one disk have been seen to lose both.
  void hold(std::chrono::milliseconds least) noexcept;
  /// That save has failed: this one continues.
  void release() noexcept;
  /// The parts must stay as they are.
  [[nodiscard]] bool is_at_work() const noexcept;

  /// Stops it, and removes what it has flushed: a checkpoint is newer.
  void end() noexcept;

 private:
  struct Work;

  void stop() noexcept;

  std::shared_ptr<Work> work_;
  mutable std::mutex mutex_;
  std::optional<core::BackgroundTask> task_;
};

}  // namespace reprieve::manager
