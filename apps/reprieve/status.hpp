// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How a run stands: from its event log, and from the user's jobs as Slurm lists them. Pure.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/events.hpp"
#include "supervisor/run_progress.hpp"
#include "text.hpp"

namespace reprieve::tool {

/// A job, or a task of a job array, or the tasks of one that have not begun.
struct QueuedJob {
  std::string id;  ///< "17", "15_3", "15_[4-9]"
  std::string name;
  std::string state;      ///< "PENDING", "RUNNING", "COMPLETING", ...
  std::string time_left;  ///< as Slurm writes it: "1-02:03:04"
  std::string where;      ///< its nodes, or in parentheses why it waits
};

/// Reads the answer of squeue to `-o %i|%T|%L|%R|%j`. Lines of another form are left out.
[[nodiscard]] std::vector<QueuedJob> parse_squeue(const std::string& text);

using TimePoint = std::chrono::system_clock::time_point;

enum class RunState {
  starting,  ///< opens its directory, or restores
  running,
  leaving,  ///< has a notice, and has not left yet
  saved,    ///< has left after a notice, to be started again
  finished,
  failed,  ///< with an error that all ranks know
  gone,    ///< ended without a word: killed, or its node was lost
  ended,   ///< in an unknown way: it saved by a manager without a handler
};

inline const char* to_string(RunState state) {
  return name_of(state, {"starting", "running", "leaving", "saved", "finished", "failed", "gone", "ended"});
}
/// Whether it has begun, and has not ended.
inline bool works(RunState state) {
  return state == RunState::starting || state == RunState::running || state == RunState::leaving;
}

/// The last checkpoint that the run has committed.
struct SavedState {
  std::uint64_t number = 0;
  std::optional<std::uint64_t> step;  ///< calls of run
  std::uint64_t bytes = 0;
  std::optional<TimePoint> time;
};

/// The newest node-local copy that is known to be complete on all ranks.
struct LocalState {
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;  ///< of one copy, of all ranks
  std::optional<TimePoint> time;
  bool has_partners = false;  ///< each part lies on another host too
  /// The newest copy of which that is true, if it is an older one.
  std::optional<std::uint64_t> partner_step{};
  std::optional<TimePoint> partner_time{};

  /// Two copies take turns, on partners as well. A third one is taken while one is on its way to the partners.
  [[nodiscard]] std::uint64_t memory() const { return bytes * (has_partners ? 4 : partner_step ? 5 : 2); }
};

enum class CopyState {
  copying,
  copied,
  failed,
  interrupted,  ///< its supervisor was killed
};

/// What became of the command of `reprieve run --after-commit` for one checkpoint.
struct RemoteCopy {
  CopyState state = CopyState::copying;
  std::optional<TimePoint> time{};  ///< of its begin while it runs, else of its end
  int attempt = 0;
  int attempts = 0;  ///< at most
  int code = 0;      ///< once it has ended
  std::string message{};
  std::string host{};  ///< of the supervisor, and its process, while it runs
  int pid = 0;
};

struct RunStatus {
  std::filesystem::path directory;
  RunState state = RunState::gone;
  std::string message;              ///< of the notice or the error, if there is one
  events::Start start;              ///< the last one
  bool has_handler = false;         ///< in the last start, as far as it came
  int starts = 0;                   ///< of runs in this directory, as far as the log reaches
  std::uint64_t failed_saves = 0;   ///< periodic ones, since the last that was made
  std::uint64_t reported_step = 0;  ///< as last reported
  std::optional<TimePoint> reported_at;
  std::optional<double> steps_per_second;  ///< of the last start, up to its last report
  std::optional<SavedState> saved;
  std::optional<LocalState> local;        ///< if it is newer than what is saved
  std::filesystem::path local_directory;  ///< of the last start; empty: it takes none
  std::optional<TimePoint> started;       ///< the last start
  std::uint64_t total_steps = 0;          ///< of the whole run; 0: it does not say
  std::optional<TimePoint> job_end;       ///< when the batch system ends the job
  std::string slurm_job;
  std::map<std::string, RemoteCopy> copies;  ///< by file
  std::string last_copy;                     ///< the file of the last word about them

  /// Null if no command ran for it.
  [[nodiscard]] const RemoteCopy* copy_of(const std::filesystem::path& checkpoint) const;
  /// Where it is by now, if it works on at the same rate.
  [[nodiscard]] std::uint64_t step_at(TimePoint now) const;
  /// How long it still takes at the same rate. Nothing if nothing runs, or the run does not say how long it is.
  [[nodiscard]] std::optional<std::chrono::duration<double>> time_left(TimePoint now) const;
  /// The work that would be lost if the run were killed now: since its last checkpoint or node-local copy, or since its
  /// start. Nothing if nothing runs.
  [[nodiscard]] std::optional<std::chrono::duration<double>> at_risk(TimePoint now) const;
  /// The same if its nodes were lost as well, and all node-local copies with them.
  [[nodiscard]] std::optional<std::chrono::duration<double>> at_risk_with_nodes(TimePoint now) const;
  /// A node-local copy of that step is complete: it counts if nothing newer is saved.
  void take(const LocalState& copy);
};

/// "copied: ckpt-120.h5, 3 s ago".
std::string copy_text(const std::string& file, const RemoteCopy& copy);
inline const char* to_string(CopyState state) { return name_of(state, {"copying", "copied", "failed", "interrupted"}); }

Json to_json(const RemoteCopy& copy);
Json to_json(const RunStatus& status, TimePoint now);

}  // namespace reprieve::tool
