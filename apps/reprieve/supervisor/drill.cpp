// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/drill.hpp"

#include <fmt/format.h>
#include <signal.h>  // NOLINT: kill is POSIX, not in <csignal>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>
#include <thread>

#include "core/directory.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/run_record.hpp"
#include "core/values.hpp"
#include "supervisor/supervised_run.hpp"
#include "termination/signal_flag.hpp"
#include "values.hpp"

namespace reprieve::supervisor {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

std::string name_of(const ProcessInfo& process) {
  return fmt::format("{} {}", process.program.empty() ? "process" : process.program, process.pid);
}

/// SIGCONT first, which wakes those that are stopped.
Delivery to_all(int signal, const std::vector<pid_t>& pids, std::string to) {
  Delivery delivery{{}, std::move(to)};
  for (const pid_t pid : pids) {
    delivery.targets.insert(delivery.targets.end(), {{pid, SIGCONT}, {pid, signal}});
  }
  return delivery.targets.empty() ? Delivery{} : delivery;
}

Delivery to_launchers(int signal, const std::vector<ProcessInfo>& processes) {
  Delivery delivery;
  for (const ProcessInfo& process : processes) {
    const auto outer = std::ranges::find(delivery.targets, process.parent, &NoticeTarget::pid);
    if (is_launcher(process.program) && outer == delivery.targets.end()) {
      delivery.targets.push_back({process.pid, signal});
      delivery.to += (delivery.to.empty() ? "" : ", ") + name_of(process);
    }
  }
  return delivery;
}

constexpr std::chrono::milliseconds kWait = 20ms;
constexpr std::chrono::milliseconds kOutputInterval = 200ms;
/// A rank that stands in one write for so long is blocked.
constexpr std::chrono::milliseconds kBlocked = 500ms;
/// From SIGTERM to SIGKILL at the end of Slurm's grace time: the default of KillWait.
constexpr std::chrono::seconds kKillWait = 30s;
constexpr std::chrono::seconds kRunKilledTimeout = 10s;
/// Ranks whose launcher has ended may live on so long, in seconds; a platform ends what its job leaves behind.
constexpr double kOrphanTime = 4.0;
/// From the last word of the ranks to the end of the command.
constexpr std::chrono::seconds kLeaveTimeout = 30s;
/// So many steps are enough for the looks at the memory.
constexpr std::uint64_t kMemorySteps = 8;
constexpr const char* kLeavesSomething = "the drill leaves something behind";

/// SIGKILL to all that is left of the run. @param gently  srun gets SIGTERM, which lets it end tasks on other nodes
void kill_run(const fs::path& record, bool gently) {
  for (const ProcessInfo& process : processes_of_run(record)) {
    ::kill(process.pid, gently && process.program == "srun" ? SIGTERM : SIGKILL);
  }
}

/// Runs @p removal, below the open directory above @p path if that is there.
void tidy(const fs::path& path, const std::function<void(const core::Directory& above)>& removal) {
  std::error_code ignored;
  if (!fs::exists(path.parent_path(), ignored)) {
    return;
  }
  core::log::or_warn(kLeavesSomething, [&] { removal(core::Directory::open(path.parent_path())); });
}

/// The last checkpoint of a step; empty if there is none.
fs::path checkpoint_of(const ObservedStart& start, std::uint64_t step) {
  const auto found = std::find_if(start.saves.rbegin(), start.saves.rend(),
                                  [&](const ObservedSave& save) { return save.step == step; });
  return found == start.saves.rend() ? fs::path() : found->file;
}

// The output files of the program.

fs::path aside(const fs::path& file) { return fs::path(file).concat(".resumed"); }

/// Both runs make them: a program that appends would otherwise continue what is there.
void check_outputs_are_new(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    for (const fs::path& taken : {fs::path(file), aside(file)}) {
      if (fs::exists(fs::symlink_status(taken))) {
        throw UsageError("--compare " + file + ": " + taken.string() +
                         " is there already: move it away, since both runs of the drill make it");
      }
    }
  }
}

void put_aside(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (fs::exists(file)) {
      fs::rename(file, aside(file));
    }
  }
}

/// Empty if two files are equal.
std::string difference_of(const fs::path& undisturbed, const fs::path& resumed) {
  std::ifstream a(undisturbed, std::ios::binary);
  std::ifstream b(resumed, std::ios::binary);
  if (!a || !b) {
    return std::string("it cannot be read, or was not made, in the ") + (b ? "undisturbed" : "resumed") + " run";
  }
  std::uint64_t bytes = 0;
  std::uint64_t line = 1;
  for (int byte = a.get(); byte == b.get(); byte = a.get(), ++bytes) {
    if (byte == std::char_traits<char>::eof()) {
      return "";
    }
    line += byte == '\n' ? 1 : 0;
  }
  return fmt::format(
      "{} bytes in the undisturbed run, {} in the resumed one, first different at byte {} (line {}); the "
      "latter is kept as {}",
      fs::file_size(undisturbed), fs::file_size(resumed), bytes, line, resumed.string());
}

/// By a command of the user's, which gets both names and writes to standard error.
std::string difference_by(const std::string& command, const fs::path& undisturbed, const fs::path& resumed) {
  Command compare({"sh", "-c", command + " \"$@\" >&2", "sh", undisturbed, resumed});
  while (!compare.code()) {
    reap();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return *compare.code() == 0 ? ""
                              : fmt::format("`{} {} {}` ended with exit code {}", command, undisturbed.string(),
                                            resumed.string(), *compare.code());
}

std::vector<EndFacts::File> compare_outputs(const std::vector<std::string>& files, const std::string& command) {
  std::vector<EndFacts::File> compared;
  for (const std::string& file : files) {
    compared.push_back(
        {file, command.empty() ? difference_of(file, aside(file)) : difference_by(command, file, aside(file))});
    if (compared.back().difference.empty()) {
      fs::remove(aside(file));
    }
  }
  return compared;
}

class Drill {
 public:
  explicit Drill(DrillSettings settings)
      : facts_{.asked = std::move(settings)},
        host_(core::host_name()),
        scratch_name_(fmt::format(".reprieve-drill-{}", ::getpid())) {}

  ~Drill() {
    core::log::or_warn(kLeavesSomething, [this] {
      if (run_) {
        end_start();
      }
      clean_up();
    });
  }

  DrillFacts run() {
    adopt_orphans();
    start(facts_.first, {.subdirectory = scratch_name_}, settings_.command);
    if (await_ready() && await_moment()) {
      give_notice();
      watch_end();
    }
    end_start();
    if (facts_.notice && facts_.notice->saved_s && !facts_.interrupted) {
      restart();
    }
    if (settings_.replay_steps > 0 && came_back()) {
      replay();
    }
    if (settings_.to_end && came_back()) {
      run_to_end();
    }
    if (settings_.watch_memory && came_back()) {
      watch_memory();
    }
    if (settings_.kill_rank && came_back()) {
      kill_rank();
    }
    if (settings_.keep) {
      facts_.kept.assign(scratch_.begin(), scratch_.end());
    }
    return facts_;
  }
  Drill(const Drill&) = delete;
  Drill& operator=(const Drill&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool watches_notice() const { return notice_at_ && current_ == &facts_.first; }

  static void say(const std::string& text) { std::cerr << "[drill] " << tool::printable(text) << std::endl; }

  bool ended() const { return run_->code().has_value() || facts_.interrupted; }

  // One start, and its reports.

  void start(ObservedStart& start, const core::DrillOrders& orders, const std::vector<std::string>& command) {
    current_ = &start;
    subdirectory_ = orders.subdirectory;
    record_ = run_directory_.make(++starts_);
    core::Directory::open(record_).write_text(core::kDrillOrdersName, core::to_text(orders), core::kOwnFile, false);
    run_ = std::make_unique<SupervisedRun>(command, LaunchSettings{.tool = {},
                                                                   .run_directory = record_,
                                                                   .shield_daemons = false,
                                                                   .shield = Shield::session,
                                                                   .output = STDERR_FILENO});
    say(fmt::format("start {}: {}", starts_, fmt::join(command, " ")));
  }

  /// Waits, and takes up what has come in the meantime.
  void pump(std::chrono::milliseconds limit) {
    for (const int signal : signals_.wait(limit)) {
      facts_.interrupted |= signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
    }
    reap();
    run_->check_end();
    if (run_->code() && !current_->code) {
      current_->code = run_->code();
      if (watches_notice()) {
        facts_.notice->ended_s = since_notice();
      }
    }
    for (const RecordedEvent& recorded : run_->read_record()) {
      take(recorded);
    }
  }

  void take(const RecordedEvent& recorded) {
    const core::Event& event = recorded.logged.event;
    std::visit([&](const auto& one) { on_start(one); }, event);
    if (watches_notice()) {
      std::visit([&, seconds = since_notice(recorded)](const auto& one) { on_notice(one, seconds); }, event);
    }
  }

  /// What an event says of the start, and, once there is a notice, of that. @param seconds  since the notice
  void on_start(const auto&) {}
  void on_start(const events::StepReached& event) { last_step_ = event.run_calls.value_or(0); }
  void on_start(const events::OpenFailed& event) { current_->error = event.message; }
  void on_start(const events::RestoreFailed& event) { current_->error = event.message; }
  void on_start(const events::Failed& event) { current_->error = event.message; }
  void on_start(const events::Exit& event) { current_->left_at = event.run_calls.value_or(0); }
  void on_start(const events::Finished& event) { current_->finished_at = event.run_calls.value_or(0); }

  void on_start(const events::MemoryChanges& event) {
    if (facts_.memory) {
      facts_.memory->changes = event;
    }
  }

  void on_notice(const auto&, double) {}
  void on_notice(const events::StepReached& event, double) { note_step(event.step_s); }
  void on_notice(const events::LongestStep& event, double) { note_step(event.longest_step_s); }
  void on_notice(const events::SaveFailed& event, double) { facts_.notice->save_error = event.message; }

  void on_start(const events::Start& event) {
    const fs::path opened = event.directory;
    const bool is_ours = opened.filename() == subdirectory_;
    current_->opened = true;
    current_->directory = is_ours ? opened.parent_path() : opened;
    current_->world_size = event.world_size;
    current_->in_scratch &= is_ours;
    if (is_ours) {
      scratch_.insert(opened);
    }
    if (event.in_new_directory.value_or(false)) {
      new_directories_.insert(current_->directory);
    }
  }

  void on_start(const events::Ready& event) {
    current_->ready = true;
    current_->begins_at = last_step_ = event.run_calls.value_or(0);
  }

  void on_start(const events::Restored& event) {
    current_->restored_step = event.run_calls.value_or(0);
    current_->restore_s = event.seconds;
    current_->error.clear();  // a corrupt checkpoint was passed over
  }

  void on_start(const events::SaveFinished& event) {
    current_->saves.push_back(
        {event.run_calls.value_or(0), current_->directory / subdirectory_ / event.file, event.seconds});
  }

  void on_notice(const events::Agreement& event, double seconds) {
    facts_.notice->agreed_s = seconds;
    say(fmt::format("{:.3f} s: all ranks agreed on step {}", seconds, event.run_calls.value_or(0)));
  }

  void note_step(double seconds) { facts_.notice->longest_step_s = std::max(facts_.notice->longest_step_s, seconds); }

  void on_notice(const events::SaveFinished& event, double seconds) {
    ObservedNotice& notice = *facts_.notice;
    if (!event.reason || event.reason->kind != SaveReason::Kind::preemption) {
      notice.older_step = event.run_calls.value_or(0);
      return;
    }
    notice.saved_s = seconds;
    notice.saved_step = event.run_calls.value_or(0);
    notice.save_s = std::max(notice.save_s, event.seconds);
    notice.checkpoint = facts_.first.directory / scratch_name_ / event.file;
    say(fmt::format("{:.3f} s: saved step {} in {}", seconds, *notice.saved_step, core::seconds_text(notice.save_s)));
  }

  void on_notice(const events::TrainOn& event, double seconds) {
    facts_.notice->trained_on_s = event.time_left_s;
    say(fmt::format("{:.3f} s: continuing, since the program counts on {} more", seconds,
                    core::seconds_text(event.time_left_s)));
  }

  void on_notice(const events::Exit& event, double seconds) {
    facts_.notice->left_s = seconds;
    facts_.notice->restart_code = event.exit_code;
    say(fmt::format("{:.3f} s: the ranks leave with code {}", seconds, event.exit_code));
  }

  void on_notice(const events::Arrivals& event, double seconds) {
    for (const auto& rank : event.ranks) {
      if (rank.source) {
        facts_.notice->arrivals.push_back(
            {rank.rank, rank.host, *rank.source, std::max(0.0, seconds - rank.age_s.value_or(0))});
      }
    }
  }

  double since_notice() const { return Seconds(Clock::now() - *notice_at_).count(); }

  /// The clock of another host says nothing here: then it counts when the event was read.
  double since_notice(const RecordedEvent& recorded) const {
    const auto manager = run_->progress().managers().find(recorded.record);
    if (manager == run_->progress().managers().end() || manager->second.start.host != host_ ||
        !recorded.logged.monotonic_s) {
      return since_notice();
    }
    return *recorded.logged.monotonic_s - Seconds(notice_at_->time_since_epoch()).count();
  }

  // The first start: until the notice.

  /// False if there is no run to send a notice to. A program that opens no checkpoint directory gets it all the same.
  bool await_ready() {
    const auto begin = Clock::now();
    while (!ended() && facts_.first.in_scratch && !run_->progress().ready()) {
      if (Clock::now() - begin >= (facts_.first.opened ? settings_.timeout : settings_.ready_timeout)) {
        break;
      }
      pump(kWait);
    }
    if (ended() || !facts_.first.in_scratch || !facts_.first.error.empty()) {
      return false;
    }
    if (facts_.first.opened && !facts_.first.ready) {
      facts_.first.timed_out = true;
      return false;
    }
    say(facts_.first.ready
            ? fmt::format("the ranks are ready ({}), at step {}", core::count_text(facts_.first.world_size, "rank"),
                          facts_.first.begins_at.value_or(0))
            : "no rank has opened a checkpoint directory: the notice is sent anyway");
    return true;
  }

  bool await_moment() {
    const auto begin = Clock::now();
    const auto enough_steps = [&] { return last_step_.value_or(0) >= settings_.after_steps.value_or(0); };
    while (facts_.first.opened && !ended() &&
           (Clock::now() - begin < (settings_.after_steps ? 0ms : settings_.after) || !enough_steps())) {
      if (Clock::now() - begin >= settings_.timeout) {
        facts_.first.timed_out = true;
        return false;
      }
      pump(kWait);
    }
    return !ended() && facts_.first.error.empty();
  }

  // From the notice to the end.

  void give_notice() {
    const auto processes = processes_of_run(record_);
    ranks_ = rank_processes(processes);
    facts_.notice.emplace();
    facts_.notice->last_step = last_step_;
    if (!facts_.first.saves.empty()) {
      facts_.notice->older_step = facts_.first.saves.back().step;
    }
    facts_.notice->ranks_survive_signal =
        !ranks_.empty() && std::ranges::all_of(
                               ranks_, [&](pid_t pid) { return survives(pid, settings_.signal); }, core::kMapped);
    notice_at_ = Clock::now();
    facts_.notice->sent = deliver(settings_.way);
    say(facts_.notice->sent.empty() ? "the notice reaches nobody" : "0.000 s: sent " + facts_.notice->sent);
  }

  /// Returns the receivers.
  std::string deliver(NoticeWay way) {
    const Delivery delivery = plan_delivery(way, settings_.signal, run_->pid(), processes_of_run(record_));
    for (const NoticeTarget& target : delivery.targets) {
      ::kill(target.pid, target.signal);  // one that has gone needs none
    }
    return delivery.to.empty() ? "" : fmt::format("{} to {}", facts_.signal_name(), delivery.to);
  }

  void watch_end() {
    while (!facts_.interrupted && !facts_.notice->killed_s) {
      pump(kWait);
      check_ranks();
      check_output();
      if (run_->code() &&
          (processes_of_run(record_).empty() || since_notice() >= *facts_.notice->ended_s + kOrphanTime)) {
        facts_.notice->command_died_first = std::ranges::any_of(ranks_, lives, core::kMapped);
        return;
      }
      play_end_of_grace();
    }
  }

  void check_ranks() {
    for (const auto& [rank, pid] : ranks_) {
      if (!facts_.notice->rank_ends.contains(rank) && !lives(pid)) {
        facts_.notice->rank_ends[rank] = since_notice();
      }
    }
  }

  void check_output() {
    const auto now = Clock::now();
    if (now < next_output_check_) {
      return;
    }
    next_output_check_ = now + kOutputInterval;
    for (const auto& [rank, pid] : ranks_) {
      if (facts_.notice->rank_ends.contains(rank)) {
        continue;
      }
      if (!writes_output(pid)) {
        blocked_since_.erase(rank);
        facts_.notice->blocked_ranks.erase(rank);
      } else if (now - blocked_since_.try_emplace(rank, now).first->second >= kBlocked) {
        facts_.notice->blocked_ranks.insert(rank);
      }
    }
  }

  /// What the platform does when the grace is over: SIGKILL. Slurm's grace time ends as a time limit does, with SIGTERM
  /// to everything first.
  void play_end_of_grace() {
    const auto since = Clock::now() - *notice_at_;
    const bool by_slurm = settings_.way == NoticeWay::slurm_grace;
    if (by_slurm && since >= settings_.grace && !std::exchange(time_limit_sent_, true)) {
      say(fmt::format("{:.3f} s: the grace is over: sent {}", since_notice(), deliver(NoticeWay::time_limit)));
    }
    if (since >= settings_.grace + (by_slurm ? std::chrono::milliseconds(kKillWait) : 0ms)) {
      facts_.notice->killed_s = since_notice();
      say(fmt::format("{:.3f} s: the grace is over: killing what is left", since_notice()));
    }
  }

  /// Nothing of a start may be left when the next one begins, or the drill ends.
  void end_start() {
    const auto limit = Clock::now() + kRunKilledTimeout;
    while ((!run_->code() || !processes_of_run(record_).empty()) && Clock::now() < limit) {
      kill_run(record_, Clock::now() < limit - kRunKilledTimeout / 2);
      pump(kWait);
    }
    pump(0ms);  // the last words
    if (!run_->code()) {
      core::log::warning("some processes of the drill cannot be killed");
    }
  }

  // The second start.

  void restart() {
    keep_saved();
    run_to_end_of(facts_.second.emplace(), {.subdirectory = scratch_name_, .leave_at_once = true}, settings_.command);
    if (facts_.second->restored_step) {
      compare_states();
    }
  }

  /// One start that leaves by the drill's orders, or comes to its end.
  void run_to_end_of(ObservedStart& one, const core::DrillOrders& orders, const std::vector<std::string>& command) {
    start(one, orders, command);
    await_end();
    end_start();
  }

  /// From the beginning, in a directory that no start has used.
  void run_undisturbed(ObservedStart& undisturbed, const std::string& name, core::DrillOrders orders = {}) {
    orders.subdirectory = scratch_name_ + name;
    scratch_.insert(facts_.first.directory / orders.subdirectory);  // also if the run ends before it reports it
    run_to_end_of(undisturbed, orders, settings_.command);
  }

  /// Of a start that leaves by the drill's orders: the second one at its first step boundary.
  void await_end() {
    const auto begin = Clock::now();
    auto last_word = Clock::time_point::max() - kLeaveTimeout;
    while (!facts_.interrupted && !(run_->code() && processes_of_run(record_).empty())) {
      pump(kWait);
      if (last_word > Clock::now() && (run_->progress().saved() != nullptr || run_->code())) {
        last_word = Clock::now();
      }
      const bool too_long = Clock::now() - begin >= (current_->opened ? settings_.timeout : settings_.ready_timeout);
      if (!current_->in_scratch || too_long || Clock::now() >= last_word + kLeaveTimeout) {
        current_->timed_out = too_long;
        return;
      }
    }
  }

  /// The second start replaces the checkpoint by one of the same number.
  void keep_saved() {
    saved_copy_ = facts_.notice->checkpoint.parent_path() / "saved-by-the-first-start.h5";
    std::error_code error;
    fs::create_hard_link(facts_.notice->checkpoint, saved_copy_, error);
    if (error) {
      fs::copy_file(facts_.notice->checkpoint, saved_copy_, error);
    }
    if (error) {
      saved_copy_.clear();
    }
  }

  void compare_states() {
    if (facts_.second->saves.empty()) {
      return;
    }
    const ObservedSave& restored = facts_.second->saves.back();
    facts_.state.emplace();
    if (saved_copy_.empty()) {
      facts_.state->failure = "there is no room for a copy of the first checkpoint";
    } else if (restored.step != facts_.second->restored_step) {
      facts_.state->failure = "the program did not save before its next step: steps inside of a watch_preemption_scope";
    } else {
      facts_.state = tool::compare_states(saved_copy_, restored.file, settings_.ignore);
    }
  }

  /// The restart resumed where the first start left, with what it had saved.
  bool came_back() const {
    return !facts_.interrupted && facts_.state && facts_.state->equal() &&
           facts_.second->restored_step == facts_.notice->saved_step;
  }

  void clean_up() const {
    if (settings_.keep) {
      return;
    }
    for (const fs::path& directory : scratch_) {
      const std::string name = directory.filename().string();
      tidy(directory, [&](const core::Directory& above) {
        above.remove_tree(name);
        core::remove_write_directories_beside(above, name);  // of ranks that were killed in a save
      });
    }
    for (const fs::path& directory : new_directories_) {
      tidy(directory,
           [&](const core::Directory& above) { above.remove_empty_directory(directory.filename().string()); });
    }
  }

  // The replay of a drill: the steps after the checkpoint once more, in a run from the beginning and in a resumed one.

  /// The resumed run makes no sense if the program goes another way at each start.
  void replay() {
    ReplayFacts& replay = facts_.replay.emplace();
    replay.from_step = *facts_.notice->saved_step;
    replay.steps = settings_.replay_steps;
    replay.ranks = settings_.replay_ranks;
    say(fmt::format("replay: an undisturbed run, from the beginning to step {}", replay.to_step()));
    run_undisturbed(replay.undisturbed, "-undisturbed", {.save_at = replay.from_step, .leave_at = replay.to_step()});
    const fs::path same_step = checkpoint_of(replay.undisturbed, replay.from_step);
    if (facts_.interrupted || !replay.undisturbed.stopped_at() || same_step.empty()) {
      return;
    }
    replay.start = tool::compare_states(saved_copy_, same_step, settings_.ignore);
    if (replay.start->equal()) {
      run_resumed();
    }
  }

  /// From the checkpoint that the second start saved before its first step, which is equal to that of the first.
  void run_resumed() {
    ReplayFacts& replay = *facts_.replay;
    say(fmt::format("replay: a resumed run, from step {} to step {}", replay.from_step, replay.to_step()));
    ObservedStart& resumed = replay.resumed.emplace();
    run_to_end_of(resumed, {.subdirectory = scratch_name_, .leave_at = replay.to_step()},
                  settings_.replay_ranks > 0 ? settings_.replay_command : settings_.command);
    const auto step = resumed.stopped_at();
    if (facts_.interrupted || !step || step != replay.undisturbed.stopped_at()) {
      return;
    }
    const fs::path of_undisturbed = checkpoint_of(replay.undisturbed, *step);
    const fs::path of_resumed = checkpoint_of(resumed, *step);
    if (!of_undisturbed.empty() && !of_resumed.empty()) {
      replay.end = tool::compare_states(of_undisturbed, of_resumed, settings_.ignore);
    }
  }

  /// Two runs to the end: the preempted one, from its checkpoint, and one that nothing disturbs.
  void run_to_end() {
    EndFacts& end = facts_.to_end.emplace();
    say("the resumed run, to its end");
    run_to_end_of(end.resumed, {.subdirectory = scratch_name_}, settings_.command);
    if (facts_.interrupted || !end.resumed.finished_at) {
      return;
    }
    put_aside(settings_.outputs);
    say("an undisturbed run, from the beginning to its end");
    run_undisturbed(end.undisturbed, "-undisturbed");
    if (!facts_.interrupted && end.undisturbed.finished_at) {
      end.files = compare_outputs(settings_.outputs, settings_.compare_command);
    }
  }

  void watch_memory() {
    say("a run from the beginning, with looks at the memory of rank 0 between its steps");
    run_undisturbed(facts_.memory.emplace().start, "-memory", {.leave_at = kMemorySteps, .watch_memory = true});
  }

  /// The last rank of this host dies in a run that resumes.
  void kill_rank() {
    DeathFacts& death = facts_.death.emplace();
    say("a resumed run, in which a rank is killed");
    start(death.start, {.subdirectory = scratch_name_}, settings_.command);
    const bool works = pump_until([&] { return death.start.ready && last_step_ > death.start.begins_at; });
    const auto ranks = rank_processes(processes_of_run(record_));
    if (works && ranks.size() > 1) {
      death.rank = ranks.rbegin()->first;
      death.last_step = *last_step_;
      death.start.ready = false;
      const auto begin = Clock::now();
      ::kill(ranks.rbegin()->second, SIGKILL);
      if (pump_until([&] { return death.start.ready; }) && lives(ranks.begin()->second)) {
        death.recovery_s = Seconds(Clock::now() - begin).count();
      }
    }
    end_start();
  }

  /// False if the run ends before, or takes too long.
  bool pump_until(const std::function<bool()>& reached) {
    const auto limit = Clock::now() + settings_.timeout;
    while (!reached() && !ended() && Clock::now() < limit) {
      pump(kWait);
    }
    return reached();
  }

  DrillFacts facts_;
  const DrillSettings& settings_ = facts_.asked;
  std::string host_;
  std::string scratch_name_;  ///< the directory of all starts but the undisturbed one
  SignalQueue signals_;
  RunDirectory run_directory_{settings_.run_directory_parent, settings_.command};
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
  Clock::time_point next_output_check_;
  std::filesystem::path saved_copy_;                 ///< of the checkpoint from the first start
  std::set<std::filesystem::path> scratch_;          ///< directories with the drill's checkpoints
  std::set<std::filesystem::path> new_directories_;  ///< that were made for them
};

}  // namespace

int usual_signal(NoticeWay way) { return way == NoticeWay::command ? SIGUSR1 : SIGTERM; }

Delivery plan_delivery(NoticeWay way, int signal, pid_t command, const std::vector<ProcessInfo>& processes) {
  const auto ranks = rank_processes(processes);
  std::vector<pid_t> pids;
  switch (way) {
    case NoticeWay::command: {
      const auto found = std::ranges::find(processes, command, &ProcessInfo::pid);
      return found == processes.end() ? Delivery{} : Delivery{{{command, signal}}, name_of(*found)};
    }
    case NoticeWay::time_limit:
      std::ranges::transform(processes, std::back_inserter(pids), &ProcessInfo::pid);
      return to_all(signal, pids, fmt::format("all processes ({})", processes.size()));
    case NoticeWay::slurm_grace:
      if (std::ranges::find(processes, "srun", &ProcessInfo::program) != processes.end()) {
        std::ranges::transform(ranks, std::back_inserter(pids), core::kMapped);
      }
      return to_all(signal, pids, fmt::format("the {} tasks of srun on this node", ranks.size()));
    case NoticeWay::launcher:
      return to_launchers(signal, processes);
    case NoticeWay::rank:
      break;
  }
  return ranks.empty()
             ? Delivery{}
             : Delivery{{{ranks.rbegin()->second, signal}}, fmt::format("rank {} alone", ranks.rbegin()->first)};
}

std::string DrillFacts::signal_name() const { return termination::signal_name(asked.signal); }

DrillFacts run_drill(DrillSettings settings) {
  check_outputs_are_new(settings.outputs);
  return Drill(std::move(settings)).run();
}

}  // namespace reprieve::supervisor
