// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// `JobSupervisor`: keeps a parallel program, its launcher and whoever wants it to end apart.

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/hosts.hpp"
#include "supervisor/restart_policy.hpp"
#include "supervisor/run_progress.hpp"
#include "supervisor/slurm.hpp"

namespace reprieve::supervisor {

class Command;
class HostProbe;
class RunDirectory;
class SignalQueue;
class SlurmClient;
class SupervisedRun;

struct SlurmSettings {
  std::string job_id;
  RequeueWay way = RequeueWay::scontrol;
  std::chrono::milliseconds poll{30'000};  ///< how often Slurm is asked for the job's end
};

/// Hosts that do not answer are left out.
struct HostSettings {
  int spares = 0;                ///< so many of the last hosts stay free while all others answer
  std::optional<int> min_ranks;  ///< on fewer the program is not started; nothing: the ranks of the command
  std::chrono::milliseconds patience{20'000};  ///< how long a host has to answer
};

struct SupervisorSettings {
  std::vector<std::string> command;  ///< the launcher or program, searched in PATH, and its arguments
  std::filesystem::path tool;        ///< the program that offers `launch-agent`
  RestartLimits restarts;
  /// The job is killed then.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  /// How long before the deadline, or before the end of the Slurm job, the ranks are told; nothing:
  /// `termination::default_lead`.
  std::optional<std::chrono::seconds> lead;
  /// How long a notice waits for a program that tells nothing of itself.
  std::chrono::milliseconds patience{60'000};
  /// The checkpoint directory that the program is to use; its PREEMPT file counts from the start on. Absolute.
  std::optional<std::filesystem::path> directory;
  /// Where to make the private directory; nothing: chosen by the number of nodes.
  std::optional<std::filesystem::path> run_directory_parent;
  bool shield_daemons = true;
  std::chrono::seconds link_timeout{120};
  std::optional<SlurmSettings> slurm;
  std::optional<HostSettings> hosts;
  /// A run that ends in disorder leaves node-local copies behind: a checkpoint is made of them then.
  bool flushes_local_copies = true;
  /// Verifies a checkpoint that several runs died reading, and renames it if it is corrupt and there is an older one to
  /// take instead. Calls its second argument often, which may throw to stop it.
  std::function<Suspicion(const std::filesystem::path&, const std::function<void()>& meanwhile)> look_at_suspect;
  std::function<void(const SupervisorEvent&)> on_event;
  /// Called about once a second with a line for a terminal.
  std::function<void(const std::string&)> on_status;
};

/// Starts the program, turns whatever says that the job is about to end (a signal to this process, a deadline, a file
/// named PREEMPT in the checkpoint directory) into a notice that reaches the ranks, and starts it again if that is
/// wanted. One per process: it takes over the signals and the children of the process. Thread: main.
class JobSupervisor {
 public:
  explicit JobSupervisor(SupervisorSettings settings);
  ~JobSupervisor();
  JobSupervisor(const JobSupervisor&) = delete;
  JobSupervisor& operator=(const JobSupervisor&) = delete;

  /// Runs the program to its end, or to the end of all patience.
  /// @return 0 if it finished, the restart code if it was saved, the code of the error otherwise
  /// @throws UsageError if the program cannot be started, or its hosts are not known; Error
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  // Waiting, and what comes in the meantime.
  void wait(std::chrono::milliseconds limit);
  void on_signal(int signal);
  void on_interrupt();
  void request(const std::string& why);
  void look_for_requests();
  void look_for_preempt_file();

  // On which hosts (run_hosts.cpp).
  void read_hosts();
  [[nodiscard]] std::string slurm_node_names();
  [[nodiscard]] bool choose_hosts_of_start();
  [[nodiscard]] std::set<std::string> find_dead_hosts();

  [[nodiscard]] std::vector<HostSlots> known_hosts();

  // Node-local copies that a crash has left (run_hosts.cpp).
  void flush_local_copies(const Verdict& verdict);
  void drain_here(const std::vector<std::string>& words);
  [[nodiscard]] bool run_drain(const std::vector<std::string>& words, Clock::time_point limit);
  void drain_on_hosts(const std::vector<std::string>& words, const std::vector<HostSlots>& hosts);
  [[nodiscard]] bool draining_is_stopped() const;

  // One start of the program.
  Verdict run_once();
  void watch_run();
  void await_descendants();
  void read_record();
  void check_directory();
  [[nodiscard]] std::optional<std::filesystem::path> foreign_directory() const;
  [[nodiscard]] Verdict verdict_by_event_logs(const Verdict& by_record) const;
  void send_notice_if_due();
  void end_at_once();
  void look_for_hung_launchers();
  void show_status();
  [[nodiscard]] bool pressing() const;
  [[nodiscard]] std::string loss_text() const;
  [[nodiscard]] Verdict verdict() const;
  void note_what_is_left();

  // After it.
  Suspicion look_at(const std::filesystem::path& suspect);
  [[nodiscard]] bool may_continue(const Verdict& verdict);
  void pause_before_restart(std::chrono::milliseconds pause);
  int leave(const Verdict& verdict);
  int leave_slurm_job(const Verdict& verdict);
  void ask_slurm_again();
  bool requeue();

  void say(const std::string& name, const std::string& text, nlohmann::json fields = nlohmann::json::object()) const;

  SupervisorSettings settings_;
  std::unique_ptr<SignalQueue> signals_;
  std::unique_ptr<RunDirectory> run_directory_;
  std::unique_ptr<SlurmClient> slurm_;
  std::vector<std::string> command_line_;  ///< of the next start
  HostNeed need_;
  std::unique_ptr<HostProbe> probe_;  ///< while it runs
  std::unique_ptr<Command> command_;  ///< one of scontrol, while it runs
  std::unique_ptr<SupervisedRun> run_;
  NoticePlan plan_;
  RestartPolicy policy_;
  Clock::time_point begin_ = Clock::now();
  int starts_ = 0;
  int interrupts_ = 0;          ///< SIGINTs so far
  bool slurm_decided_ = false;  ///< SIGTERM came
  bool by_hand_ = false;        ///< SIGINT or SIGHUP came
  int interrupts_before_drain_ = 0;
  bool decided_before_drain_ = false;         ///< SIGTERM came before node-local copies were brought
  std::optional<Clock::time_point> kill_at_;  ///< the user wants an end at once
  bool unreachable_said_ = false;
  bool has_room_ = true;       ///< for the run's record
  bool work_is_left_ = false;  ///< by the last start in which a checkpoint directory was opened
  Clock::time_point next_file_look_;
  Clock::time_point next_launcher_look_;
  Clock::time_point next_status_;
  std::optional<Clock::time_point> last_save_;
};

}  // namespace reprieve::supervisor
