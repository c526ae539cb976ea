// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a drill saw. Times are in seconds since the notice was sent.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/grace_need.hpp"
#include "supervisor/notice_way.hpp"

namespace reprieve::supervisor {

/// A checkpoint that a start committed.
struct ObservedSave {
  std::uint64_t step = 0;  ///< calls of `run` in it
  std::filesystem::path file;
  double seconds = 0;  ///< that it took
};

/// One start of the command.
struct ObservedStart {
  bool opened = false;              ///< a rank has opened a checkpoint directory
  bool ready = false;               ///< all ranks watch their signals
  std::filesystem::path directory;  ///< the checkpoint directory, as the program chose it
  bool in_scratch = true;           ///< the program has used the drill's directory inside it
  int world_size = 0;
  std::optional<std::uint64_t> begins_at;      ///< calls of `run` when it was ready
  std::optional<std::uint64_t> restored_step;  ///< calls of `run` in the checkpoint that it restored
  double restore_s = 0;
  std::vector<ObservedSave> saves;           ///< in the order of their commits
  std::optional<std::uint64_t> left_at;      ///< the step at which the ranks left, saved
  std::optional<std::uint64_t> finished_at;  ///< the step at which the program came to its end
  std::string error;                         ///< the last one that the ranks agreed on
  std::optional<int> code;                   ///< of the command, as a shell shows it
  bool timed_out = false;                    ///< the drill waited no longer

  /// Where it stopped by itself, in one way or the other.
  [[nodiscard]] std::optional<std::uint64_t> stopped_at() const { return left_at ? left_at : finished_at; }
};

/// A rank that had a notice of its own.
struct Arrival {
  int rank = 0;
  std::string host;
  std::string source;  ///< "signal SIGUSR1"
  double seconds = 0;
};

/// What became of the notice.
struct ObservedNotice {
  std::string told;                        ///< "SIGUSR1 to mpirun 4711"; empty: the way reaches nobody
  std::optional<std::uint64_t> last_step;  ///< calls of `run`, as last told before it
  bool ranks_survive_signal = false;       ///< every rank on this host handles or ignores the signal
  std::vector<Arrival> arrivals;           ///< as the ranks told at the end
  std::optional<double> agreed_s;
  std::optional<double> saved_s;  ///< the commit of the last save
  /// After a save the program went on, since by its own grace period so much time was left.
  std::optional<double> trained_on_s;
  std::optional<double> left_s;    ///< the ranks left, together
  std::optional<double> ended_s;   ///< the command returned
  std::optional<double> killed_s;  ///< the drill killed what was left, as the platform does
  /// The command ended while ranks were still at work; what is left is ended with it.
  bool command_died_first = false;
  std::map<int, double> rank_ends;  ///< ranks on this host
  std::set<int> blocked_ranks;      ///< that stood in a write to their output
  std::filesystem::path checkpoint;
  std::optional<std::uint64_t> saved_step;  ///< calls of `run` in it
  std::optional<std::uint64_t> older_step;  ///< in the newest checkpoint before the notice
  double save_s = 0;                        ///< its length
  double longest_step_s = 0;
  std::string save_error;
  int restart_code = 0;  ///< the ranks' code; 0: they did not leave together
};

/// A variable that is not the same in two checkpoints.
struct StateDifference {
  enum class Kind {
    values,       ///< another value, or another type or shape
    rounding,     ///< floating-point numbers that are as close as another order of sums leaves them
    other_ranks,  ///< one part for each rank, of another number of ranks: cannot be compared
  };
  std::string variable;
  Kind kind = Kind::values;
  std::string what{};  ///< "first at element [3, 4] (1.5 against 1.25)"
  double relative_error =
      0;  ///< of rounding: the greatest difference, as a part of the greatest of the numbers that differ
};

/// Two checkpoints, variable by variable.
struct StateComparison {
  std::size_t variables = 0;
  std::uint64_t bytes = 0;
  std::vector<StateDifference> different;
  std::string failure;      ///< why there was none; empty otherwise
  std::size_t ignored = 0;  ///< of the variables: they differ, as the user expects

  [[nodiscard]] bool equal() const noexcept { return failure.empty() && different.empty(); }
};

/// The same steps once more, in two runs: one from the beginning to the end, which nothing disturbs, and one that goes
/// on from the checkpoint. What the program needs and did not register makes them different.
struct ReplayFacts {
  std::uint64_t from_step = 0;  ///< of the checkpoint
  std::uint64_t steps = 0;      ///< that the user asked for
  int ranks = 0;                ///< that the user asked for, of the resumed run; 0: as many as of the first start
  ObservedStart undisturbed;
  std::optional<StateComparison> start;  ///< the first start and the undisturbed run at `from_step`
  std::optional<ObservedStart> resumed;  ///< nothing unless these two are equal
  std::optional<StateComparison> end;    ///< the undisturbed and the resumed run where both have stopped

  [[nodiscard]] std::uint64_t to_step() const noexcept { return from_step + steps; }
};

struct DrillFacts {
  std::vector<std::string> command;
  NoticeWay way = NoticeWay::command;
  std::string signal;  ///< "SIGUSR1"
  double grace_s = 0;
  double ready_timeout_s = 0;
  bool interrupted = false;  ///< by the user
  ObservedStart first;
  std::optional<ObservedNotice> notice;  ///< nothing if the first start did not come so far
  std::optional<ObservedStart> second;   ///< nothing if there was nothing to restart from
  std::optional<StateComparison> state;
  std::uint64_t replay_steps = 0;     ///< that the user asked for
  std::optional<ReplayFacts> replay;  ///< nothing unless the restart resumed with the state that was saved
};

/// What the time from the notice to the end was made of; nothing unless the state was saved.
std::optional<GraceCosts> grace_costs(const DrillFacts& facts);

}  // namespace reprieve::supervisor
