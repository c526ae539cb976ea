// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/job_supervisor.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "core/directory.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/run_record.hpp"
#include "core/values.hpp"
#include "files.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/checkpoint_list.hpp"
#include "reprieve/error.hpp"
#include "supervisor/after_commit.hpp"
#include "supervisor/launcher.hpp"
#include "supervisor/processes.hpp"
#include "supervisor/supervised_run.hpp"
#include "termination/metadata_source.hpp"
#include "termination/signal_flag.hpp"
#include "termination/slurm_job.hpp"
#include "text.hpp"

namespace reprieve::supervisor {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// The time between reads of the record: while something is expected of it, and otherwise.
constexpr milliseconds kShortWait = 50ms;
constexpr milliseconds kLongWait = 500ms;
constexpr milliseconds kFileInterval = 1s;
constexpr milliseconds kTimeToTrap = 1s;
/// Between reads of all processes: short while the ranks start, as a launcher whose ranks die at once must have been
/// seen with them.
constexpr milliseconds kLauncherInterval = 200ms;
constexpr milliseconds kLongLauncherInterval = 5s;
/// Ranks of a killed launcher end by themselves: within 3 s, but with Open MPI 5.0 not before their next call of MPI.
constexpr std::chrono::seconds kDescendantsTimeout{10};
constexpr std::chrono::seconds kKilledTimeout{5};
/// A record on a network file system may come later than the end of its writer.
constexpr std::chrono::seconds kRecordTimeout{5};
/// From SIGTERM to SIGKILL, for an end at once.
constexpr milliseconds kTerminateTimeout = 1s;
constexpr std::chrono::seconds kSlurmTimeout{30};
/// A controller that is being restarted is waited for: a job that leaves without a requeue is out of the queue.
constexpr std::chrono::minutes kRequeueTimeout{5};
constexpr milliseconds kRequeuePause = 2s;
/// Too few hosts answered the first time.
constexpr int kNotStarted = 1;

const char* to_string(LaunchResult::End end) { return tool::name_of(end, {"finished", "saved", "failed"}); }

/// The code of a shell for what SIGINT ended.
constexpr int kInterrupted = 130;

constexpr std::chrono::seconds kStatusInterval{1};

/// Hosts may be listed by other names than their own.
const std::vector<std::string> kQuestion{"uname", "-n"};
constexpr int kAttempts = 2;
constexpr std::chrono::seconds kNodeNamesTimeout{30};

/// For all rounds together, where a file system hangs: the job shall end some time.
constexpr std::chrono::minutes kDrainTimeout{30};
constexpr std::chrono::milliseconds kHostAnswerTimeout{20'000};
/// A host that could not be reached for a moment gets another turn, and after it those that lacked its parts.
constexpr int kDrainRounds = 3;
/// The code of `reprieve drain` where others had not flushed all yet.
constexpr int kPartsAreMissing = 1;

/// The mark in a checkpoint directory while the command of --before-start runs.
constexpr const char* kFetching = ".reprieve.fetching";

/// The inside of `supervise`.
class JobSupervisor {
 public:
  explicit JobSupervisor(SupervisorSettings settings)
      : settings_(std::move(settings)),
        command_line_(settings_.command),
        plan_(settings_.patience),
        policy_(settings_.restarts) {
    if (!settings_.after_commit.empty() && !run_directory_.is_dry_run()) {  // a drill's checkpoints are nobody's
      after_commit_.emplace(settings_.after_commit, settings_.command_timeout);
    }
  }

  int run() {
    if (!has_room_) {
      say("warning",
          fmt::format("{} has no room for the record of the run: how it ended can only be seen from the event log "
                      "of the checkpoint directory and the launcher's code; choose another place with --run-dir",
                      run_directory_.path().parent_path().string()));
    }
    adopt_orphans();
    if (settings_.slurm) {
      signal_at_parents_death();
      slurm_ = std::make_unique<SlurmClient>(settings_.slurm->job_id, settings_.slurm->poll, settings_.lead);
    }
    read_hosts();
    if (!fetch_checkpoints()) {
      return kNotStarted;
    }
    std::optional<LaunchResult> launch_result;
    while (choose_hosts_of_start()) {
      launch_result = run_once();
      if (!may_continue(*launch_result)) {
        break;
      }
    }
    return launch_result ? leave(*launch_result) : kNotStarted;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Waiting, and what comes in the meantime.

  void wait(milliseconds limit) {
    for (const int signal : signals_.wait(limit)) {
      on_signal(signal);
    }
    reap();
    if (run_) {
      run_->check_end();
    }
    if (slurm_) {
      slurm_->take_answer();
    }
    if (after_commit_) {
      if (const auto event = after_commit_->tick()) {
        settings_.on_event(*event);
      }
    }
    check_requests();
  }

  void wait_while(const auto& lasts, Clock::time_point limit) {
    while (lasts() && Clock::now() < limit) {
      wait(kShortWait);
    }
  }

  void on_signal(int signal) {
    if (signal == SIGCHLD) {
      return;
    }
    slurm_decided_ |= signal == SIGTERM;
    by_hand_ |= signal == SIGINT || signal == SIGHUP;
    if (signal == SIGINT) {
      on_interrupt();
    } else if (!check_parent()) {
      request(termination::signal_name(signal));
    }
  }

  /// Slurm ends a job whose batch script has died, by SIGTERM to it alone for one. True if it has.
  bool check_parent() {
    if (!settings_.slurm || ::getppid() == parent_) {
      return false;
    }
    slurm_decided_ = true;
    request("the batch script has died");
    return true;
  }

  void on_interrupt() {
    ++interrupts_;
    if (interrupts_ == 1) {
      request("SIGINT");
    } else if (interrupts_ == 2) {
      say("warning", loss_text());
    } else if (!kill_at_ && run_ && !run_->code()) {
      say("kill", "ending the run at once");
      run_->terminate();
      kill_at_ = Clock::now() + kTerminateTimeout;
    }
  }

  void request(const std::string& why) {
    if (plan_.requested()) {
      return;
    }
    plan_.request(Clock::now());
    why_ = why;
    const bool runs = run_ && !run_->code();
    const bool ready = runs && run_->progress().ready();
    say("request",
        why + (ready  ? ": asking the ranks to save and leave"
               : runs ? ": kept until the ranks are ready"
                      : ": no further start"),
        {{"why", why}});
  }

  /// What besides signals may say that the job is about to end.
  void check_requests() {
    if (slurm_ && !plan_.requested()) {
      slurm_->tick();
      if (slurm_->notice_is_due()) {
        request(slurm_->job()->preempted ? "Slurm is preempting the job" : "the job's end in Slurm is near");
      }
    }
    if (settings_.deadline && !plan_.requested()) {
      const auto whole_time = core::between<std::chrono::seconds>(begin_, *settings_.deadline);
      const auto lead = settings_.lead.value_or(termination::default_lead(whole_time));
      if (Clock::now() >= core::later(*settings_.deadline, -lead)) {
        request("the deadline is near");
      }
    }
    if (Clock::now() >= next_file_check_) {
      next_file_check_ = Clock::now() + kFileInterval;
      check_preempt_file();
      check_parent();
    }
  }

  /// The file is removed when it is seen: left behind, it would preempt the next run as well.
  void check_preempt_file() {
    std::vector<fs::path> directories = run_ ? run_->progress().directories() : std::vector<fs::path>{};
    if (settings_.directory) {
      directories.push_back(*settings_.directory);
    }
    for (const fs::path& directory : directories) {
      const fs::path file = directory / core::kPreemptFile;
      std::error_code error;
      if (!fs::exists(file, error)) {
        continue;
      }
      bool counts = true;
      try {
        const auto opened = core::Directory::open(directory);
        counts = core::is_for_this_launch(opened, core::kPreemptFile);
        opened.remove_file(core::kPreemptFile);
      } catch (const StorageError& problem) {
        if (!plan_.requested()) {
          core::log::warning("{}", problem.what());
        }
      }
      if (counts) {
        request("the file " + file.string());
      }
    }
  }

  /// By the command of --before-start. A mark in the directory says until its end that not all may be there.
  /// @return false if nothing may be started
  bool fetch_checkpoints() {
    if (settings_.before_start.empty() || run_directory_.is_dry_run()) {
      return true;
    }
    const core::Directory above = core::Directory::open(settings_.directory->parent_path());
    above.make_directory_if_free(settings_.directory->filename(), core::kOwnDirectory);  // or it is there
    const core::Directory directory = core::Directory::open(*settings_.directory);
    if (!directory.contains(kFetching) && !manager::checkpoint_files(*settings_.directory).empty()) {
      return true;
    }
    directory.write_text(kFetching, "", core::kOwnFile, false);
    say("fetch", "no checkpoint in " + settings_.directory->string() + ": running the command of --before-start");
    Command command = start_in_shell(settings_.before_start, *settings_.directory);
    wait_while([&] { return !command.code() && !plan_.requested(); }, Clock::now() + settings_.command_timeout);
    if (command.code() == 0) {
      directory.remove_file(kFetching);
      return true;
    }
    const std::string problem =
        plan_.requested() ? "was interrupted"
        : command.code()  ? fmt::format("ended with code {}: {}", *command.code(), in_one_line(command.output()))
                          : "took too long";
    command.kill_all();
    say("give_up", "the command of --before-start " + problem +
                       ". Nothing was started: the program would begin at step 0. Let the command end with 0 where "
                       "there is nothing to fetch");
    return false;
  }

  // One start of the program.

  LaunchResult run_once() {
    ++starts_;
    last_save_.reset();
    unreachable_said_ = false;
    plan_.begin_run();
    run_ = std::make_unique<SupervisedRun>(
        command_line_, LaunchSettings{.tool = settings_.tool,
                                      .run_directory = run_directory_.make(starts_),
                                      .shield_daemons = settings_.shield_daemons,
                                      .link_timeout_s = static_cast<int>(settings_.link_timeout.count()),
                                      .watches_end = settings_.deadline.has_value() || slurm_ != nullptr,
                                      .directory = settings_.directory});
    say("start", fmt::format("start {}: {}", starts_, fmt::join(command_line_, " ")),
        {{"start", starts_}, {"pid", run_->pid()}, {"command", command_line_}});
    watch_run();
    await_descendants();
    LaunchResult result = launch_result();
    if (const RunProgress& progress = run_->progress(); !progress.managers().empty()) {
      work_is_left_ = progress.leaves_work();  // for the result of the next start
    }
    say("end", fmt::format("{}: {}", to_string(result.end), result.reason),
        {{"start", starts_},
         {"result", to_string(result.end)},
         {"reason", result.reason},
         {"launcher_code", *run_->code()},
         {"exit_code", result.exit_code},
         {"seconds", std::chrono::duration<double>(Clock::now() - run_->started()).count()}});
    return result;
  }

  void watch_run() {
    while (!run_->code()) {
      wait(pressing() ? kShortWait : kLongWait);
      read_record();
      check_directory();
      warn_of_mortal_parents();
      send_notice_if_due();
      if (kill_at_ && Clock::now() >= *kill_at_) {
        run_->kill_all(copier());
      }
      check_hung_launchers();
      show_status();
    }
  }

  /// Slurm sends SIGTERM to what has started this, and to what has started the ranks: those die of it that do not wait
  /// for signals. Of the ranks, those that are here and report to this process stand for all.
  void warn_of_mortal_parents() {
    if (!settings_.slurm) {
      return;
    }
    // A script that runs this in the background needs a moment to set its traps.
    if (Clock::now() - begin_ >= kTimeToTrap && !std::exchange(batch_shell_checked_, true) &&
        !mortal_parent(::getpid()).empty()) {
      say("warning",
          "the shell of the batch script does not wait for signals: Slurm sends SIGTERM to it alone, it dies, and "
          "the job is killed before all is saved. Write `exec reprieve run ...` as the last line; `reprieve "
          "sbatch-template` prints another form, for scripts in which more lines follow");
    }
    if (!run_->progress().ready() || std::exchange(wrapper_checked_, true)) {
      return;
    }
    for (const auto& [record, manager] : run_->progress().managers()) {
      const std::string name = manager.start.host == core::host_name() ? mortal_parent(manager.start.pid) : "";
      if (!name.empty()) {
        return say(
            "warning",
            fmt::format("{} started the program and dies of the SIGTERM that Slurm sends to it as well: Slurm then "
                        "kills the ranks before all is saved. Let it end with `exec` and the program; in a shell "
                        "in which more lines follow, write `trap : TERM USR1 USR2` as the first line",
                        name));
      }
    }
  }

  /// A run that is through may leave a launcher that waits for the reader of its output. Where ranks work on other
  /// hosts, a launcher need not have children here.
  void check_hung_launchers() {
    const auto is_beyond_doubt = [](const auto& manager) {
      return manager.second.stage == ManagerProgress::Stage::finished ||
             manager.second.stage == ManagerProgress::Stage::saved ||
             (!manager.second.start.host.empty() && manager.second.start.host != core::host_name());
    };
    const auto& managers = run_->progress().managers();
    if (Clock::now() < next_launcher_check_ || std::ranges::any_of(managers, is_beyond_doubt)) {
      return;
    }
    next_launcher_check_ = Clock::now() + (run_->progress().ready() ? kLongLauncherInterval : kLauncherInterval);
    if (const std::string killed = run_->kill_hung_launchers(); !killed.empty()) {
      say("kill", fmt::format("{} does not end although all that it started has: killing it", killed));
    }
  }

  /// Whether something is about to happen that is not to be missed by half a second.
  bool pressing() const { return plan_.requested() || kill_at_ || !run_->progress().ready(); }

  void read_record() {
    for (const auto& [record, logged] : run_->read_record()) {
      if (std::holds_alternative<events::SaveFinished>(logged.event)) {
        last_save_ = Clock::now();
      }
      if (after_commit_) {
        after_commit_->take(logged.event, run_->progress().managers().at(record));
      }
      if (const auto* notice = std::get_if<events::Notice>(&logged.event)) {
        on_notice(*notice);
      }
      if (const auto event = describe(logged)) {
        settings_.on_event(*event);
      }
    }
  }

  /// One that the ranks had without this process. A cloud takes one machine: the others can continue.
  void on_notice(const events::Notice& notice) {
    const bool is_of_machine = termination::is_metadata_server(notice.source);
    if (notice.source == "deadline") {
      request("the ranks say that the job is about to end");  // another start would meet the same end
    } else if (is_of_machine && settings_.hosts && notice.host != core::host_name()) {
      ending_machines_.insert(notice.host);
    } else if (is_of_machine) {
      request(fmt::format("the machine of {} is about to end", notice.host));
    }
  }

  void send_notice_if_due() {
    if (kill_at_ || run_->code() || !plan_.send_is_due(run_->progress(), Clock::now())) {
      return;
    }
    const std::string sent_to = run_->send_notice(why_, plan_.sent());
    if (!sent_to.empty()) {
      const bool unready = !run_->progress().has_handler();
      say("notice_sent",
          fmt::format("sent {}{}", sent_to, unready ? ", although the program never said that it is ready" : ""),
          {{"to", sent_to}, {"count", plan_.sent()}});
    } else if (!std::exchange(unreachable_said_, true)) {
      say("warning",
          "the ranks watch no signal that can reach them: add SIGUSR1 to the signals of the program's settings");
    }
  }

  /// The copy of a checkpoint lives on when the program ends.
  pid_t copier() const { return after_commit_ ? after_commit_->process() : 0; }

  /// A program that finished may leave others running. Otherwise the ranks may live on for some time, and continue
  /// saving.
  void await_descendants() {
    const auto ended = Clock::now();
    read_record();
    const RunProgress& progress = run_->progress();
    const auto record_is_late = [&] {
      const bool said_nothing = progress.saved() == nullptr && progress.error() == nullptr;
      const bool is_expected =
          *run_->code() == progress.restart_code() || (*run_->code() == 0 && progress.unfinished());
      return said_nothing && is_expected && has_room_ && Clock::now() < ended + kRecordTimeout;
    };
    if (launch_result().end == LaunchResult::End::finished) {
      return;
    }
    bool killed = false;
    while (has_children(copier()) || record_is_late()) {
      wait(kShortWait);
      read_record();
      if (!has_children(copier()) || Clock::now() < ended + kDescendantsTimeout) {
        continue;
      }
      if (!std::exchange(killed, true)) {
        say("kill", "some of its processes live on: killing them");
        run_->kill_all(copier());
      } else if (Clock::now() >= ended + kDescendantsTimeout + kKilledTimeout) {
        core::log::warning("some processes of the run cannot be killed");
        return;
      }
    }
  }

  // After it.

  /// Verifies a checkpoint that several runs died reading. That says little about it: whoever ran out of memory died
  /// so, too. Only what is found to be corrupt is quarantined.
  /// @return whether the next start takes an older one; nothing if it is corrupt, and there is no older one
  std::optional<bool> verify_before_restart(const fs::path& file) {
    const std::string name = file.filename().string();
    say("verifying", fmt::format("more than one run died while it read {}: verifying it", name));
    try {
      const auto state = tool::state_of(file);
      const auto corruption = storage::verify_file(file, [&](auto, auto) { wait_while_verifying(); });
      if (!corruption.empty()) {
        return quarantine(file, state, tool::corruption_text(corruption.front()));
      }
      say("warning", name +
                         " is valid: something else ends the ranks while they read it, such as a lack of memory; it "
                         "stays where it is");
    } catch (const std::exception& error) {
      say("warning", fmt::format("{} cannot be verified, so it stays where it is: {}", name, error.what()));
    }
    return false;
  }

  void wait_while_verifying() {
    wait(0ms);
    if (plan_.requested()) {
      throw Error(ErrorCode::usage, "stopped by a request to end");
    }
  }

  /// As a restore does. Another job may have begun to work in the directory since the file was verified.
  std::optional<bool> quarantine(const fs::path& file, const std::optional<tool::FileState>& state,
                                 const std::string& problem) {
    const auto lock = tool::lock_soon(file.parent_path(), [this] { wait_while_verifying(); });
    if (!lock) {
      throw std::runtime_error(problem + "; but another run uses the directory");
    }
    if (tool::state_of(file) != state) {
      throw std::runtime_error("another run has replaced it meanwhile");
    }
    const auto files = manager::checkpoint_files(file.parent_path());
    const auto found = std::ranges::find(files, file.filename(), [](const auto& each) { return each.path.filename(); });
    if (found == files.end() || found == files.begin() || std::prev(found)->prefix != found->prefix) {
      say("give_up", fmt::format("giving up: {} is corrupt, and there is no older checkpoint to take instead: {}",
                                 file.string(), problem));
      return std::nullopt;
    }
    const fs::path aside =
        manager::CheckpointDirectory(file.parent_path(), found->prefix, true).quarantine(found->number);
    say("quarantine",
        fmt::format("{} is corrupt: quarantined as {}", file.filename().string(), aside.filename().string()));
    return true;
  }

  /// Decides on a restart, and prepares it.
  bool may_continue(const LaunchResult& launch_result) {
    bool begins_elsewhere = false;
    if (const auto file = policy_.file_to_verify(launch_result)) {
      const auto takes_an_older_one = verify_before_restart(*file);
      if (!takes_an_older_one) {
        return false;
      }
      begins_elsewhere = *takes_an_older_one;
    }
    const RestartDecision decision = policy_.decide(launch_result, begins_elsewhere);
    if (decision.restart && slurm_ && !plan_.requested()) {
      ask_slurm_again();  // it may have sent it to the ranks alone
    }
    if (plan_.requested() || run_directory_.is_dry_run()) {
      return false;
    }
    if (!decision.restart) {
      if (!decision.reason.empty()) {
        say("give_up", decision.reason);
      }
      return false;
    }
    say("restart",
        fmt::format("starting again{} (restart {} of {})",
                    decision.pause > 0ms ? " in " + core::duration_text(decision.pause) : "", policy_.used(),
                    settings_.restarts.restarts),
        {{"restart", policy_.used()}, {"pause_s", std::chrono::duration<double>(decision.pause).count()}});
    wait_while([&] { return !plan_.requested(); }, Clock::now() + decision.pause);
    return !plan_.requested();
  }

  int leave(const LaunchResult& launch_result) {
    flush_local_copies(launch_result);
    finish_after_commit();
    return slurm_ && launch_result.end != LaunchResult::End::finished ? leave_slurm_job(launch_result)
                                                                      : launch_result.exit_code;
  }

  /// Waits for the command, which may be what the state outlives the machine by. Ctrl-C ends that.
  void finish_after_commit() {
    if (!after_commit_) {
      return;
    }
    for (const auto& [record, manager] : run_->progress().managers()) {
      after_commit_->add_uncopied(manager.directory);  // it may have been made of node-local copies
    }
    if (after_commit_->busy()) {
      say("waiting", "waiting for the command of --after-commit; Ctrl-C does not wait");
      wait_while([this, before = interrupts_] { return after_commit_->busy() && interrupts_ == before; },
                 Clock::time_point::max());
      if (after_commit_->busy()) {
        after_commit_->stop();
        say("warning", "the command of --after-commit was stopped: the last checkpoint is in its directory alone");
      }
    }
  }

  int leave_slurm_job(const LaunchResult& launch_result) {
    if (run_directory_.is_dry_run()) {
      say("no_requeue", "a drill: the job stays where it is");
      return launch_result.exit_code;
    }
    const bool saved = launch_result.end == LaunchResult::End::saved;
    if (!slurm_decided_) {
      ask_slurm_again();  // SIGTERM may come until then
    }
    const auto refusal = requeue_refusal({saved, launch_result.hopeless, slurm_decided_, by_hand_, slurm_->job()});
    if (refusal) {
      say("no_requeue", "not put back into the queue: " + *refusal);
      return saved ? kSavedButNotAgain : launch_result.exit_code;
    }
    const int again = saved ? launch_result.exit_code : run_->progress().restart_code();
    if (requeue_way(settings_.slurm->way, *slurm_->job()) == RequeueWay::exit_code) {
      say("requeue", fmt::format("leaving with code {}: Slurm starts the job again where RequeueExit says so", again));
      return again;
    }
    if (!requeue()) {
      say("no_requeue",
          fmt::format("scontrol requeue {} failed: submit the script again, it resumes from what is saved",
                      slurm_->job_id()));
      return saved ? kSavedButNotAgain : launch_result.exit_code;
    }
    say("requeue", fmt::format("job {} is back in the queue", slurm_->job_id()));
    return again;
  }

  void ask_slurm_again() {
    const auto limit = Clock::now() + kSlurmTimeout;
    const auto is_asking = [&] { return slurm_->asking(); };
    wait_while(is_asking, limit);  // the answer to an earlier question is too old
    slurm_->ask();
    wait_while(is_asking, limit);
  }

  /// Tries until it is done, or Slurm ends the job.
  bool requeue() {
    const auto limit = Clock::now() + kRequeueTimeout;
    while (!slurm_decided_ && Clock::now() < limit) {
      Command command({"scontrol", "requeue", slurm_->job_id()}, termination::slurm_environment());
      wait_while([&] { return !command.code(); }, limit);
      if (command.code() == 0) {
        return true;
      }
      wait_while([&] { return !slurm_decided_; }, Clock::now() + kRequeuePause);
    }
    return false;
  }

  void say(const std::string& name, const std::string& text, nlohmann::json fields = nlohmann::json::object()) const {
    settings_.on_event({name, text, std::move(fields)});
  }

  // How one start of the program ended, and whether it may resume at all.

  /// The directory that the program uses instead of the named one. A drill makes its own inside of it.
  std::optional<fs::path> foreign_directory() const {
    const auto opened = run_->progress().directories();
    if (!settings_.directory || opened.empty()) {
      return std::nullopt;
    }
    const auto same = [](const fs::path& a, const fs::path& b) {
      std::error_code ignored;
      return a == b || fs::equivalent(a, b, ignored);
    };
    const bool uses_it = std::ranges::any_of(opened, [&](const fs::path& path) {
      return same(path, *settings_.directory) ||
             (run_directory_.is_dry_run() && same(path.parent_path(), *settings_.directory));
    });
    return uses_it ? std::nullopt : std::optional(opened.front());
  }

  /// It would resume from the state of another run, and save over it. Not gently: that would be a notice, and save as
  /// well.
  void check_directory() {
    if (!kill_at_ && run_->progress().ready() && foreign_directory()) {
      run_->kill_all(copier());
    }
  }

  /// For a run whose code says that it went well, or says nothing, and whose record does not say it: it may have found
  /// no room.
  LaunchResult launch_result_by_event_logs(const LaunchResult& by_record) const {
    const RunProgress logged = run_->progress_in_event_logs(settings_.directory);
    if (!logged.managers().empty()) {
      return judge(logged, *run_->code());
    }
    LaunchResult result = by_record;
    const bool has_room = has_room_ && run_directory_.has_room();
    if (!has_room && run_->progress().managers().empty() && *run_->code() == logged.restart_code()) {
      result.end = LaunchResult::End::saved;
      result.exit_code = *run_->code();
      result.reason = fmt::format("the launcher ended with {}, and there was no room for the record of the run",
                                  code_text(result.exit_code));
    }
    return result;
  }

  LaunchResult launch_result() const {
    if (const auto directory = foreign_directory()) {
      LaunchResult result;
      result.hopeless = true;
      result.reason = fmt::format(
          "the program uses the checkpoint directory {}, but --directory names {}. Either "
          "REPRIEVE_DIRECTORY did not reach it, or its own settings go before: see to it that it "
          "uses that directory, or leave --directory out",
          directory->string(), settings_.directory->string());
      return result;
    }
    LaunchResult result = judge(run_->progress(), *run_->code());
    // A notice that is sent once more, since nothing is known of the run, can hit a launcher that is about to end.
    const bool died_of_notice = plan_.sent() > 1 && *run_->code() == 128 + SIGUSR1;
    const bool says_well = *run_->code() == 0 || *run_->code() == run_->progress().restart_code() || died_of_notice;
    if (says_well && result.end == LaunchResult::End::failed && run_->progress().error() == nullptr) {
      result = launch_result_by_event_logs(result);
    }
    if (result.end == LaunchResult::End::finished && work_is_left_ && run_->progress().managers().empty() &&
        has_room_ && run_directory_.has_room()) {
      result.end = LaunchResult::End::failed;
      result.exit_code = 1;
      result.reason =
          "the command ended with 0, but no rank has opened a checkpoint directory, and the start before left work to "
          "do: a script returns the code of its last command (set -o pipefail helps)";
    }
    if (result.end != LaunchResult::End::failed) {
      return result;
    }
    if (kill_at_) {
      result.exit_code = kInterrupted;
      result.reason = "ended by hand";
    } else if (const auto report = run_->error_report(); report && run_->progress().error() == nullptr) {
      result.reason = *report;
    }
    return result;
  }

  // What the supervisor says of a run that works.

  std::string loss_text() const {
    if (!run_ || run_->code()) {
      return "no run is left to be ended";
    }
    std::optional<std::uint64_t> number;
    for (const auto& [record, manager] : run_->progress().managers()) {
      if (manager.stage == ManagerProgress::Stage::saved) {
        return "the state is saved and the ranks are leaving; a third Ctrl-C ends them at once";
      }
      number = std::max(number, manager.number());
    }
    const std::string age = core::duration_text(Clock::now() - last_save_.value_or(run_->started()));
    const std::string lost = number ? fmt::format("the work since checkpoint {}, {} of it", *number, age)
                                    : fmt::format("all its work, {}: there is no checkpoint yet", age);
    return "the run has not saved for this notice yet. A third Ctrl-C ends it at once and loses " + lost;
  }

  void show_status() {
    if (Clock::now() < next_status_) {
      return;
    }
    next_status_ = Clock::now() + kStatusInterval;
    std::string text = fmt::format("running for {}", core::duration_text(Clock::now() - run_->started()));
    for (const auto& [record, manager] : run_->progress().managers()) {
      const auto number = manager.number();
      text += number ? fmt::format(", checkpoint {}", *number) : ", no checkpoint yet";
    }
    if (last_save_) {
      text += fmt::format(", {} ago", core::duration_text(Clock::now() - *last_save_));
    }
    if (plan_.requested()) {
      text += run_->progress().notice_arrived() ? ", saving" : ", waiting for the ranks to save";
    }
    settings_.on_status(text);
  }

  // The hosts of a start.

  std::string slurm_node_names() {
    Command command({"scontrol", "show", "hostnames"});
    wait_while([&] { return !command.code(); }, Clock::now() + kNodeNamesTimeout);
    return command.code() == 0 ? command.output() : "";
  }

  /// Those that Open MPI's mpirun may use, by its command or by the job. Empty where it is not in the command.
  std::vector<HostSlots> known_hosts() {
    const auto named = hosts_of(settings_.command);
    if (!named) {
      return {};
    }
    std::vector<HostSlots> hosts = parse_host_list(fmt::format("{}", fmt::join(named->lists, ",")));
    if (named->lists.empty()) {
      for (const std::string& file : named->files) {
        const auto more = read_host_file(file);
        hosts.insert(hosts.end(), more.begin(), more.end());
      }
    }
    if (hosts.empty() && core::environment_variable("SLURM_JOB_NODELIST")) {
      hosts = slurm_hosts(slurm_node_names(), core::environment_variable("SLURM_TASKS_PER_NODE").value_or(""));
    } else if (hosts.empty()) {
      const auto of_pbs = core::environment_variable("PBS_NODEFILE");
      const auto file = of_pbs ? of_pbs : core::environment_variable("LSB_DJOB_HOSTFILE");
      hosts = file ? read_host_file(*file) : hosts;
    }
    return hosts;
  }

  /// Once, before the first start.
  void read_hosts() {
    if (!settings_.hosts) {
      return;
    }
    if (!hosts_of(settings_.command)) {
      throw UsageError("hosts can be left out where the command has Open MPI's mpirun in it, not inside of a script");
    }
    if (std::ranges::find(settings_.command, ":") != settings_.command.end()) {
      throw UsageError(
          "hosts cannot be left out of a command that starts several programs (\":\"): each has its own hosts");
    }
    need_.hosts = known_hosts();
    if (need_.hosts.empty()) {
      throw UsageError(
          "hosts can be left out where they are known: by mpirun's --host or --hostfile, or from Slurm, PBS "
          "or LSF");
    }
    need_.spares = settings_.hosts->spares;
    if (need_.hosts.size() <= static_cast<std::size_t>(need_.spares)) {
      throw UsageError(fmt::format("--spares {} leaves none of the hosts {}", need_.spares, host_names(need_.hosts)));
    }
    need_.ranks = ranks_of(settings_.command).value_or(slots_of(need_.hosts, need_.spares));
    need_.min_ranks = settings_.hosts->min_ranks.value_or(need_.ranks);
    if (need_.min_ranks > need_.ranks && need_.ranks > 0) {
      throw UsageError(fmt::format("--min-ranks {} is more than the command has: {}", need_.min_ranks, need_.ranks));
    }
    if (need_.ranks == 0) {
      throw UsageError("to leave hosts out, give the number of ranks to mpirun (-n), or the slots of each host");
    }
  }

  /// Has the launcher start @p words on each of these hosts.
  HostAnswers run_on(const std::vector<HostSlots>& hosts, milliseconds patience, const std::vector<std::string>& words,
                     int attempts, const auto& is_stopped) {
    return ask_hosts(settings_.command, hosts, patience, words, attempts, [&] {
      const bool continues = !is_stopped();
      if (continues) {
        wait(kShortWait);
      }
      return continues;
    });
  }

  std::set<std::string> find_dead_hosts() {
    say("hosts_asked", fmt::format("asking each host whether it answers: {}", need_.hosts.size()));
    const auto asked =
        run_on(need_.hosts, settings_.hosts->patience, kQuestion, kAttempts, [&] { return plan_.requested(); });
    std::set<std::string> dead;
    if (asked.dead.size() == need_.hosts.size()) {
      say("warning", fmt::format("no host answers {}, so none is left out: {}", settings_.command.front(),
                                 asked.dead.begin()->second));
      return dead;
    }
    std::map<std::string, std::string> left_out = asked.dead;
    std::erase_if(ending_machines_, [&](const std::string& machine) {
      const auto host = asked.host_that_says(machine);
      if (host) {
        left_out.emplace(*host, "its machine is about to end");
      }
      return !host;  // it is gone: what answers later is another machine
    });
    for (const auto& [host, why] : left_out) {
      say("host_left_out", fmt::format("the host {} is left out: {}", host, why), {{"host", host}, {"message", why}});
      dead.insert(host);
    }
    return dead;
  }

  /// False if the program cannot be started, or is not to be.
  bool choose_hosts_of_start() {
    if (!settings_.hosts) {
      return true;
    }
    const auto choice = choose_hosts(need_, find_dead_hosts());
    if (plan_.requested() && starts_ > 0) {
      return false;
    }
    if (!choice) {
      say("give_up", fmt::format("too few hosts answer: {} ranks have no room there (--min-ranks)", need_.min_ranks));
      return false;
    }
    command_line_ = with_hosts(settings_.command, choice->hosts);
    command_line_ = with_ranks(command_line_, choice->ranks).value_or(command_line_);
    say("hosts", fmt::format("ranks: {}, on {}", choice->ranks, host_names(choice->hosts)),
        {{"ranks", choice->ranks}, {"hosts", to_text(choice->hosts)}});
    return true;
  }

  // Node-local copies that a run has left: the last start has failed, no other follows, and the memory of the nodes is
  // gone when the job ends. `reprieve drain` makes a checkpoint of them, on each node that the run used.

  void flush_local_copies(const LaunchResult& launch_result) {
    if (launch_result.end != LaunchResult::End::failed || !settings_.flushes_local_copies ||
        run_directory_.is_dry_run() || kill_at_) {
      return;
    }
    draining_is_stopped_ = [this, decided = slurm_decided_, interrupts = interrupts_] {
      return (slurm_decided_ && !decided) || interrupts_ > interrupts + 1;
    };
    for (const auto& [record, manager] : run_->progress().managers()) {
      const std::string local_directory = manager.start.local_directory.value_or("");
      if (local_directory.empty()) {
        continue;
      }
      const std::vector<std::string> words{settings_.tool.string(), "drain", manager.directory.string(), "--local",
                                           local_directory};
      try {
        const std::vector<HostSlots> hosts = need_.hosts.empty() ? known_hosts() : need_.hosts;
        if (hosts.size() > 1) {
          drain_on_hosts(words, hosts);
        } else {
          drain_here(on_nodes_of_srun(settings_.command, words).value_or(words));
        }
      } catch (const Error& error) {
        say("warning", fmt::format("node-local copies are left where they are: {}", error.what()));
      }
    }
  }

  /// On several nodes by srun the last one completes the checkpoint; then the others can give back the memory.
  void drain_here(const std::vector<std::string>& words) {
    const auto limit = Clock::now() + kDrainTimeout;
    std::string said;
    bool keeps_running = true;
    for (int round = 0; round < kDrainRounds && keeps_running; ++round) {
      Command command(with_all_output(words));
      wait_while([&] { return !command.code() && !draining_is_stopped_(); }, limit);
      const bool has_ended = command.code().has_value();
      if (!has_ended) {
        command.kill_all();
        wait_while([&] { return !command.code(); }, Clock::time_point::max());
      }
      const std::string text = has_ended ? in_one_line(command.output()) : "stopped";
      if (std::exchange(said, text) != text) {
        say("local_drain", fmt::format("node-local copies: {}", text), {{"code", *command.code()}});
      }
      keeps_running = has_ended && *command.code() == kPartsAreMissing;
    }
  }

  /// Each flushes what it has, and the last one completes the checkpoint. Then the others, who ended with an error
  /// since parts were missing, can give back the memory. Hosts that are dead have nothing.
  void drain_on_hosts(const std::vector<std::string>& words, const std::vector<HostSlots>& hosts) {
    const auto patience = settings_.hosts ? settings_.hosts->patience : kHostAnswerTimeout;
    std::vector<HostSlots> living = hosts;
    const auto asked = run_on(hosts, patience, kQuestion, kAttempts, draining_is_stopped_);
    std::erase_if(living, [&](const HostSlots& host) { return asked.dead.contains(host.name); });
    if (living.empty() || draining_is_stopped_()) {
      say("warning", "node-local copies are left where they are: no host answers");
      return;
    }
    const auto limit = Clock::now() + kDrainTimeout;
    std::map<std::string, std::string> said;
    for (int round = 0; round < kDrainRounds && !living.empty() && !draining_is_stopped_(); ++round) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
      const auto drained = run_on(living, std::max(left, std::chrono::milliseconds(0)), words, 1, draining_is_stopped_);
      for (const auto& [host, answer] : drained.answers) {
        const std::string text = in_one_line(answer);
        if (std::exchange(said[host], text) != text) {
          say("local_drain", fmt::format("node-local copies on {}: {}", host, text), {{"host", host}});
        }
      }
      std::erase_if(living, [&](const HostSlots& host) { return !drained.dead.contains(host.name); });
    }
  }

  SupervisorSettings settings_;
  SignalQueue signals_;
  RunDirectory run_directory_{settings_.run_directory_parent, settings_.command};
  std::unique_ptr<SlurmClient> slurm_;
  std::vector<std::string> command_line_;  ///< of the next start
  HostNeed need_;
  std::set<std::string> ending_machines_;  ///< that a cloud is about to take away, by their own names
  std::optional<AfterCommit> after_commit_;
  std::unique_ptr<SupervisedRun> run_;
  NoticePlan plan_;
  std::string why_;  ///< the job is about to end
  RestartPolicy policy_;
  Clock::time_point begin_ = Clock::now();
  int starts_ = 0;
  pid_t parent_ = ::getppid();
  bool batch_shell_checked_ = false;
  bool wrapper_checked_ = false;
  int interrupts_ = 0;                         ///< SIGINTs so far
  bool slurm_decided_ = false;                 ///< SIGTERM came
  bool by_hand_ = false;                       ///< SIGINT or SIGHUP came
  std::function<bool()> draining_is_stopped_;  ///< by SIGTERM, or by two more Ctrl-C, since it began
  std::optional<Clock::time_point> kill_at_;   ///< the user wants an end at once
  bool unreachable_said_ = false;
  bool has_room_ = run_directory_.has_room();  ///< for the run's record
  bool work_is_left_ = false;                  ///< by the last start in which a checkpoint directory was opened
  Clock::time_point next_file_check_;
  Clock::time_point next_launcher_check_;
  Clock::time_point next_status_;
  std::optional<Clock::time_point> last_save_;
};

}  // namespace

int supervise(SupervisorSettings settings) { return JobSupervisor(std::move(settings)).run(); }

}  // namespace reprieve::supervisor
