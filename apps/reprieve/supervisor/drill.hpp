// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A dry run of a preemption with the user's own command: the ways to give notice, what a drill sees, and what that
/// means.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "advise.hpp"
#include "core/events.hpp"
#include "supervisor/launcher.hpp"
#include "supervisor/processes.hpp"
#include "text.hpp"

namespace reprieve::supervisor {

/// How a platform announces the end of a job: which processes get which signal. Pure.
enum class NoticeWay {
  command,      ///< one signal to the command itself: `#SBATCH --signal=B:USR1@N`, `kill -USR1 %1`, docker stop
  time_limit,   ///< SIGCONT and the signal to every process: Slurm at a time limit, scancel, systemd
  slurm_grace,  ///< SIGCONT and the signal to the tasks of srun alone: the start of Slurm's GraceTime; mpirun gets none
  launcher,     ///< the signal to mpirun or srun itself
  rank,         ///< the signal to one rank alone: its node is taken away
};

/// The signals of one moment, and whom they reach, in words.
struct Delivery {
  std::vector<NoticeTarget> targets;
  std::string to;  ///< "mpirun 4711", "all processes (7)"; empty if there is nobody
};

/// The signal that the platform sends if the user names none.
int usual_signal(NoticeWay way);

/// @param command  the process that was started
/// @param processes  of the run on this host, parents before children, with @p command
Delivery plan_delivery(NoticeWay way, int signal, pid_t command, const std::vector<ProcessInfo>& processes);

// What a drill saw. Times are in seconds since the notice was sent.

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
  std::string sent;                        ///< "SIGUSR1 to mpirun 4711"; empty: the way reaches nobody
  std::optional<std::uint64_t> last_step;  ///< calls of `run`, as last reported before it
  bool ranks_survive_signal = false;       ///< every rank on this host handles or ignores the signal
  std::vector<Arrival> arrivals;           ///< as the ranks reported at the end
  std::optional<double> agreed_s;
  std::optional<double> saved_s;  ///< the commit of the last save
  /// After a save the program continued, since by its own grace period so much time was left.
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

/// The output files of the program at its end, in a run that was preempted and in one that nothing disturbed.
struct EndFacts {
  struct File {
    std::string path;
    std::string difference{};  ///< empty: equal
  };
  ObservedStart resumed;
  ObservedStart undisturbed;
  std::vector<File> files;  ///< nothing unless both runs came to their end
};

/// A run whose steps were watched, of rank 0.
struct MemoryFacts {
  ObservedStart start;
  std::optional<events::MemoryChanges> changes;
};

/// A resumed run in which a rank was killed.
struct DeathFacts {
  ObservedStart start;               ///< as it is after the recovery
  std::optional<int> rank;           ///< that was killed; nothing without two ranks on this host
  std::uint64_t last_step = 0;       ///< calls of `run`, as last reported before
  std::optional<double> recovery_s;  ///< until the others were ready again, in place
};

struct DrillSettings {
  std::vector<std::string> command;  ///< the launcher or script, searched in PATH, and its arguments
  NoticeWay way = NoticeWay::command;
  int signal = 0;
  std::chrono::milliseconds grace{30'000};  ///< from the notice to SIGKILL for all that is left
  std::chrono::milliseconds after{2'000};   ///< from the ranks' being ready to the notice
  std::optional<std::uint64_t> after_steps;
  std::chrono::milliseconds ready_timeout{60'000};  ///< for a program that opens no checkpoint directory
  std::chrono::milliseconds timeout{600'000};       ///< for one that does, and for the second start
  bool keep = false;                                ///< leave the checkpoints of the drill
  std::uint64_t replay_steps = 0;           ///< to be compared with those of a run that is not disturbed; 0: none
  int replay_ranks = 0;                     ///< of the resumed run; 0: as many as the command says
  std::vector<std::string> replay_command;  ///< of the resumed run
  bool watch_memory = false;                ///< what steps change, and no variable covers
  bool kill_rank = false;                   ///< in one more run, to see what the others do
  std::filesystem::path run_directory_parent;
  std::vector<std::string> ignore;  ///< variables that may differ
  bool to_end = false;              ///< run the program to its end, to compare its outputs
  std::vector<std::string> outputs;
  std::string compare_command;  ///< of the user's; empty: they are compared byte by byte
};

struct DrillFacts {
  DrillSettings asked;
  bool interrupted = false;  ///< by the user
  ObservedStart first{};
  std::optional<ObservedNotice> notice{};  ///< nothing if the first start did not come so far
  std::optional<ObservedStart> second{};   ///< nothing if there was nothing to restart from
  std::optional<StateComparison> state{};
  std::optional<ReplayFacts> replay{};        ///< nothing unless the restart resumed with the state that was saved
  std::optional<EndFacts> to_end{};           ///< as `replay`
  std::optional<MemoryFacts> memory{};        ///< as `replay`
  std::optional<DeathFacts> death{};          ///< as `replay`
  std::vector<std::filesystem::path> kept{};  ///< directories with the drill's checkpoints, where they were to be kept

  [[nodiscard]] double grace_s() const { return std::chrono::duration<double>(asked.grace).count(); }
  [[nodiscard]] std::string signal_name() const;  ///< "SIGUSR1"
};

/// What the time from the notice to the end was made of; nothing unless the state was saved.
std::optional<GraceCosts> grace_costs(const DrillFacts& facts);

/// Starts the command as it would be started on the platform, nothing shielded, plays the platform, and starts the
/// command again; with a replay, twice more. The program's checkpoints go into directories of the drill's own inside
/// its checkpoint directory, which are removed at the end. What the program writes to standard output goes to standard
/// error, and so do lines for people. Takes over the signals and the children of the process. Thread: main.
/// @throws UsageError if the command cannot be started, or outputs are there already; StorageError, Error
DrillFacts run_drill(DrillSettings settings);

/// What the facts of a drill mean: whether a job would survive, and what to do if not. Pure.
enum class DrillVerdict { would_survive, would_lose_work, unknown };

/// Everything that is worth a line, in the order in which it happens.
std::vector<Finding> judge_drill(const DrillFacts& facts);

/// One problem means that work would be lost; without one, something unknown makes the verdict unknown.
DrillVerdict verdict_of(const std::vector<Finding>& findings);

/// Whether a resumed run goes the way of one that nothing disturbed; in the order in which it happens.
std::vector<Finding> judge_replay(const ReplayFacts& facts);

}  // namespace reprieve::supervisor
