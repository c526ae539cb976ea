// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The hosts that a launcher may use: which of them answer, and which of them a start gets.

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/processes.hpp"

namespace reprieve::supervisor {

// The hosts of a command, and which of them a start gets. Pure.

struct HostSlots {
  std::string name;
  int slots = 0;  ///< how many ranks have room there; 0: as many as the launcher finds

  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

/// What --host of Open MPI's mpirun takes: "h0:2,h1". A host without a number has one slot; one that is named again has
/// so many more.
[[nodiscard]] std::vector<HostSlots> parse_host_list(const std::string& text);

/// A file for --hostfile, one host a line: "h0 slots=2". A host without slots has as many as the launcher finds, but as
/// many as lines if it has several.
[[nodiscard]] std::vector<HostSlots> parse_host_file(const std::string& text);

/// The nodes of a Slurm job, one a line, with the value of SLURM_TASKS_PER_NODE: "2(x3),1".
[[nodiscard]] std::vector<HostSlots> slurm_hosts(const std::string& names, const std::string& tasks_per_node);

/// As --host takes it: "h0:2,h1:*".
[[nodiscard]] std::string to_text(const std::vector<HostSlots>& hosts);

/// On what a start runs.
struct HostChoice {
  std::vector<HostSlots> hosts;
  int ranks = 0;
};

/// What `choose_hosts` has to know.
struct HostNeed {
  std::vector<HostSlots> hosts;  ///< all, in the order in which the launcher uses them
  int spares = 0;                ///< so many of the last of them stay free while none of the others is dead
  int ranks = 0;                 ///< of the command
  int min_ranks = 0;             ///< on fewer it is not started
};

/// The first hosts that are not dead: as many as a start without dead ones has, and more if they have fewer slots.
/// Where too few are left, the ranks that have room there; where the command has more ranks than slots, or slots are
/// unknown, as many ranks for each slot, or host, as without dead ones.
/// @return nothing if these are fewer than min_ranks
[[nodiscard]] std::optional<HostChoice> choose_hosts(const HostNeed& need, const std::set<std::string>& dead);

// What a launcher reaches on which hosts.

class Command;

/// Starts a small process on each host by the launcher itself, some hosts at a time: an unreachable host cannot get a
/// rank. Until it is done, it must be advanced, and must get the ended children. Thread: main.
class HostProbe {
 public:
  /// @param command  that of the program: its launcher, and how that reaches hosts
  /// @param patience  for each host
  /// @param words  what is started there
  /// @param attempts  for each host whose answer is an error: launchers that start and end at the same time share
  ///   directories, and one may fail for it
  HostProbe(std::vector<std::string> command, const std::vector<HostSlots>& hosts, std::chrono::milliseconds patience,
            std::vector<std::string> words, int attempts = 1);
  ~HostProbe();
  HostProbe(const HostProbe&) = delete;
  HostProbe& operator=(const HostProbe&) = delete;

  /// Starts the next processes, and ends what takes too long. @throws UsageError if there is no such launcher
  void advance();
  void on_ended(const EndedChild& child);
  [[nodiscard]] bool is_done() const { return waiting_.empty() && running_.empty(); }

  /// Those that did not answer, each with what the launcher says.
  [[nodiscard]] const std::map<std::string, std::string>& dead() const noexcept { return dead_; }
  /// What each host said, if it ended at all.
  [[nodiscard]] const std::map<std::string, std::string>& answers() const noexcept { return answers_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Running {
    std::unique_ptr<Command> command;
    Clock::time_point limit;
  };

  std::vector<std::string> command_;
  std::chrono::milliseconds patience_;
  std::vector<std::string> words_;
  std::vector<std::string> waiting_;          ///< the next one is the last
  std::map<std::string, int> attempts_left_;  ///< of each host
  std::map<std::string, Running> running_;
  std::map<std::string, std::string> dead_;
  std::map<std::string, std::string> answers_;
};

}  // namespace reprieve::supervisor
