// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A rehearsal of a preemption with the user's own command: start, notice, save, end, restart.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/drill_orders.hpp"
#include "supervisor/drill_facts.hpp"
#include "supervisor/notice_way.hpp"
#include "supervisor/run_record_reader.hpp"

namespace reprieve::supervisor {

class RunDirectory;
class SignalQueue;
class SupervisedRun;

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
  std::optional<std::filesystem::path> run_directory_parent;
  /// Compares two checkpoints.
  std::function<StateComparison(const std::filesystem::path&, const std::filesystem::path&)> compare;
  /// Called with a line for people as the drill goes on.
  std::function<void(const std::string&)> say;
};

/// Starts the command as it would be started on the platform, nothing shielded, plays the platform, and starts the
/// command again; with a replay, twice more. The program's checkpoints go into directories of the drill's own inside
/// its checkpoint directory, which are removed at the end. What the program writes to standard output goes to standard
/// error. One per process: it takes over the signals and the children of the process. Thread: main.
class Drill {
 public:
  explicit Drill(DrillSettings settings);
  /// Ends what is left, and removes the drill's checkpoints.
  ~Drill();
  Drill(const Drill&) = delete;
  Drill& operator=(const Drill&) = delete;

  /// @throws UsageError if the command cannot be started; StorageError, Error
  DrillFacts run();

  /// The directories that hold the drill's checkpoints, with `keep`.
  [[nodiscard]] std::vector<std::filesystem::path> kept() const;

 private:
  using Clock = std::chrono::steady_clock;

  /// @param start  what is seen of it; must live as long as the drill
  void start(ObservedStart& start, const core::DrillOrders& orders, const std::vector<std::string>& command);
  void pump(std::chrono::milliseconds limit);
  void take(const RecordedEvent& recorded);
  void take_start(const nlohmann::json& event, ObservedStart& start);
  void take_notice(const nlohmann::json& event, double seconds);
  void take_arrivals(const nlohmann::json& event, double seconds);
  [[nodiscard]] double since_notice(const RecordedEvent& recorded) const;
  [[nodiscard]] double since_notice() const;

  bool await_ready();
  bool await_moment();
  void give_notice();
  std::string deliver(NoticeWay way);
  void watch_end();
  void look_at_ranks();
  void look_at_output();
  void play_end_of_grace();
  void end_start();

  void restart();
  void await_end();
  void compare_states();
  [[nodiscard]] bool came_back() const;
  void keep_saved();
  void clean_up() const;

  // The replay (drill_replay.cpp).
  void replay();
  void run_undisturbed();
  void run_resumed();

  [[nodiscard]] bool watches_notice() const { return notice_at_ && current_ == &facts_.first; }
  [[nodiscard]] bool ended() const;
  void say(const std::string& text) const;

  DrillSettings settings_;
  std::string host_;
  std::string scratch_name_;  ///< the directory of all starts but the undisturbed one
  DrillFacts facts_;
  std::unique_ptr<SignalQueue> signals_;
  std::unique_ptr<RunDirectory> run_directory_;
  std::filesystem::path record_;  ///< the directory of the present start
  std::unique_ptr<SupervisedRun> run_;
  int starts_ = 0;
  ObservedStart* current_ = nullptr;  ///< in `facts_`
  std::string subdirectory_;          ///< the drill's directory of the present start
  std::optional<Clock::time_point> notice_at_;
  bool time_limit_sent_ = false;
  std::optional<std::uint64_t> last_step_;
  std::map<int, pid_t> ranks_;  ///< on this host, when the notice was sent
  std::map<int, Clock::time_point> blocked_since_;
  Clock::time_point next_output_look_;
  std::filesystem::path saved_copy_;                 ///< of the checkpoint from the first start
  std::set<std::filesystem::path> scratch_;          ///< directories with the drill's checkpoints
  std::set<std::filesystem::path> new_directories_;  ///< that were made for them
};

}  // namespace reprieve::supervisor
