// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// `PreemptionWatcher`: keeps the first notice of a preemption of any rank, inside a job or beside it.

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "reprieve/export.h"
#include "reprieve/notice.hpp"
#include "reprieve/platform.hpp"

namespace reprieve {

class PreemptionCheckpointHandler;
namespace termination {
class NoticeBoard;
}

/// A background thread that keeps the first notice that the ranks of a run have agreed on.
///
/// Inside a job it watches a handler. In a process that supervises the job from outside, it follows the run through its
/// checkpoint directory (its event log, and the list of its processes). Members may be called from any thread.
class REPRIEVE_EXPORT PreemptionWatcher {
 public:
  /// Called once, with the first notice, from the thread of the watcher. It must not call MPI, nor throw.
  using Callback = std::function<void(const PreemptionMessage&)>;

  /// Inside a job: what all ranks of the handler agree on. Not collective. The handler may end first.
  explicit PreemptionWatcher(PreemptionCheckpointHandler& handler, Callback callback = {});

  /// Outside: follows the runs that use @p checkpoint_directory, from now on; what earlier runs left there does not
  /// count. The directory need not exist yet. It takes `ManagerOptions::event_log`.
  explicit PreemptionWatcher(std::filesystem::path checkpoint_directory, Callback callback = {},
                             std::chrono::milliseconds poll_interval = std::chrono::milliseconds(100));

  /// Ends the thread; waits for a callback that is under way.
  ~PreemptionWatcher();
  PreemptionWatcher(const PreemptionWatcher&) = delete;
  PreemptionWatcher& operator=(const PreemptionWatcher&) = delete;

  /// The first notice since the watcher was made; nothing if there is none.
  [[nodiscard]] std::optional<PreemptionMessage> preemption_message() const;

  /// Where the run runs (inside: as the handler knows it; outside: where this process does).
  [[nodiscard]] const PlatformInfo& platform() const noexcept;

  /// Outside: returns when every process of the run is gone, on this node and on the others, so that a new run does not
  /// meet the old one. Returns at once inside a job, which would wait for itself, and if no run has used the directory.
  /// On other nodes it rests on the locks of the file system (flock); where there are none, it sees this node only.
  /// @throws UnresponsiveError with the names of those that live on after @p limit
  void block_until_worker_exit(std::chrono::milliseconds limit = std::chrono::minutes(15)) const;

 private:
  struct Impl;
  PreemptionWatcher(std::shared_ptr<termination::NoticeBoard> board, bool preempted, PlatformInfo platform,
                    Callback callback);
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprieve
