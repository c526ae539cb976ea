// SPDX-License-Identifier: BSD-3-Clause
#include "status.hpp"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <thread>

#include "command.hpp"
#include "core/directory.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "termination/slurm_job.hpp"
#include "timeline.hpp"

namespace reprieve::tool {

using Seconds = std::chrono::duration<double>;

std::vector<QueuedJob> parse_squeue(const std::string& text) {
  std::vector<QueuedJob> jobs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    QueuedJob job;
    if (std::getline(fields, job.id, '|') && std::getline(fields, job.state, '|') &&
        std::getline(fields, job.time_left, '|') && std::getline(fields, job.where, '|') &&
        std::getline(fields, job.name)) {
      jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

std::uint64_t RunStatus::step_at(TimePoint now) const {
  if (state != RunState::running || !steps_per_second || !reported_at || now < *reported_at) {
    return reported_step;
  }
  constexpr double kMost = 1e15;  // a broken log must not make more of it than a number holds
  const double since = std::min(kMost, *steps_per_second * Seconds(now - *reported_at).count());
  const auto step = reported_step + static_cast<std::uint64_t>(since);
  return total_steps > 0 ? std::min(step, std::max(total_steps, reported_step)) : step;
}

const RemoteCopy* RunStatus::copy_of(const std::filesystem::path& checkpoint) const {
  const auto copy = copies.find(checkpoint.filename().string());
  return copy == copies.end() ? nullptr : &copy->second;
}

std::optional<Seconds> RunStatus::time_left(TimePoint now) const {
  if (!works(state) || total_steps == 0 || !steps_per_second) {
    return std::nullopt;
  }
  const std::uint64_t step = step_at(now);
  return Seconds(step < total_steps ? static_cast<double>(total_steps - step) / *steps_per_second : 0.0);
}

std::optional<Seconds> RunStatus::at_risk_with_nodes(TimePoint now) const {
  if (!works(state) || !started) {
    return std::nullopt;
  }
  const TimePoint since = saved && saved->time ? std::max(*saved->time, *started) : *started;
  return std::max(Seconds(now - since), Seconds(0));
}

std::optional<Seconds> RunStatus::at_risk(TimePoint now) const {
  auto least = at_risk_with_nodes(now);
  if (least && local && local->time && *local->time > *started) {
    least = std::clamp(Seconds(now - *local->time), Seconds(0), *least);
  }
  return least;
}

void RunStatus::take(const LocalState& copy) {
  if (!saved || !saved->step || copy.step > *saved->step) {
    local = copy;
  }
}

std::string copy_text(const std::string& file, const RemoteCopy& copy) {
  const std::string age = copy.time ? human_age(*copy.time) : "?";
  switch (copy.state) {
    case CopyState::copying:
      return fmt::format("copying for {}: {}", age, core::escaped(file));
    case CopyState::copied:
      return fmt::format("copied: {}, {} ago", core::escaped(file), age);
    case CopyState::failed:
      return fmt::format("copy failed: {}, {} ago: code {} ({} of {} tries): {}", core::escaped(file), age, copy.code,
                         copy.attempt, copy.attempts, printable(copy.message));
    case CopyState::interrupted:
      break;
  }
  return fmt::format("copy interrupted: {}, begun {} ago; the next `reprieve run` makes it", core::escaped(file), age);
}

Json to_json(const RemoteCopy& copy) {
  const bool has_ended = copy.state == CopyState::copied || copy.state == CopyState::failed;
  return {
      {"state", to_string(copy.state)}, {"time", or_null(copy.time)}, {"code", has_ended ? Json(copy.code) : Json()},
      {"attempt", copy.attempt},        {"attempts", copy.attempts},  {"message", copy.message}};
}

Json to_json(const RunStatus& status, TimePoint now) {
  Json saved, local, copied;
  if (const auto& last = status.saved) {
    saved = {
        {"number", last->number}, {"step", or_null(last->step)}, {"bytes", last->bytes}, {"time", or_null(last->time)}};
  }
  if (const auto& last = status.local) {
    local = {{"step", last->step},
             {"bytes", last->bytes},
             {"memory_bytes", last->memory()},
             {"time", or_null(last->time)},
             {"partners", last->has_partners},
             {"partner_step", or_null(last->partner_step)},
             {"partner_time", or_null(last->partner_time)},
             {"directory", status.local_directory.string()}};
  }
  if (const RemoteCopy* const copy = status.copy_of(status.last_copy)) {
    copied = to_json(*copy);
    copied["file"] = status.last_copy;
  }
  return {{"directory", status.directory.string()},
          {"state", to_string(status.state)},
          {"message", status.message},
          {"host", status.start.host},
          {"pid", status.start.pid},
          {"ranks", status.start.world_size},
          {"starts", status.starts},
          {"failed_saves", status.failed_saves},
          {"started", or_null(status.started)},
          {"step", status.reported_step},
          {"step_reported_at", or_null(status.reported_at)},
          {"step_estimate", status.step_at(now)},
          {"steps_per_second", or_null(status.steps_per_second)},
          {"total_steps", status.total_steps > 0 ? Json(status.total_steps) : Json()},
          {"job_end", or_null(status.job_end)},
          {"slurm_job", status.slurm_job.empty() ? Json() : Json(status.slurm_job)},
          {"time_left_s", or_null(status.time_left(now))},
          {"checkpoint", saved},
          {"local_copy", local},
          {"copy", copied},
          {"at_risk_s", or_null(status.at_risk(now))},
          {"at_risk_with_nodes_s", or_null(status.at_risk_with_nodes(now))}};
}

}  // namespace reprieve::tool

// reprieve status [DIR...]

namespace reprieve::tool::status_command {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::system_clock;
using namespace std::chrono_literals;

constexpr const char* kFooter =
    R"(Shows every run below the directories, by what it has written there: its event log (events.jsonl) and the list of its
processes. The run itself notices nothing of it, and may work on another node.

  STATE    running; leaving: it has a notice; saved: it has left, to be started again; finished; failed; gone: it has
           ended without a word, so it was killed, or its node was lost; ended: it had a manager without a handler,
           which writes nothing about its end
  STEP     calls of run(). With ~ it follows from the rate since the run last reported its step (every minute, or step)
  LEFT     how long the run still takes at this rate, if it says how many steps it makes (termination.total_steps)
  SAVED    the step of the last checkpoint
  LOCAL    the step of the last node-local copy, if it is newer: in the memory of the nodes, which a crash leaves there
  AT RISK  the work that would be lost if the run were killed now: since its last checkpoint or node-local copy, or since its
           start
  STARTS   how often a run was started in this directory

A line below says why a run failed, or that its periodic saves do.

With --watch on a terminal: s sorts by the next column, the space bar shows it at once, q ends it.

Where Slurm answers, the user's jobs follow, with the run of each, or why it waits.

Examples:
  reprieve status                              every run below this directory
  reprieve status run1 run2 --watch            again every two seconds
  reprieve status /scratch --sort risk         those that have the most to lose first
  reprieve status --json | jq '.runs[] | select(.state == "gone") | .directory'

Exit codes: 0 shown,)";

constexpr std::size_t kLongestName = 20;

enum class Order : std::uint8_t { name, state, step, risk };
const std::vector<std::string> kOrderNames{"name", "state", "step", "risk"};

struct Options {
  std::vector<fs::path> directories;
  Order order = Order::name;
  bool watch = false;
  std::chrono::milliseconds interval{2000};
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  add_directory(command, options.directories, "Directories to look in, and below");
  add_choice(command, "--sort", options.order, kOrderNames,
             "The order of the runs: the greatest step or risk comes first")
      ->default_str("name");
  command.add_flag("--watch", options.watch, "Show it again and again, until interrupted");
  add_duration(command, "--interval", options.interval, "With --watch: so often")->default_str("2s");
  add_color(command);
}

/// The log reports a node-local copy when the next one begins, and not each one. Here the parts themselves say more.
void add_local(RunStatus& status) {
  std::error_code ignored;
  if (status.local_directory.empty() || !fs::is_directory(status.local_directory, ignored)) {
    return;
  }
  try {
    bool has_any = false;
    for (const LocalListEntry& entry : list_local(status.local_directory, status.directory)) {
      has_any = has_any || (entry.is_of_directory && entry.copy);
      if (entry.is_of_directory && entry.is_complete() && (!status.local || entry.step() > status.local->step)) {
        LocalState copy = status.local.value_or(LocalState{0, entry.size_bytes, std::nullopt});
        copy.has_partners = copy.has_partners || entry.partner_parts > 0;
        copy.step = entry.step();
        copy.time = entry.time();
        status.take(copy);
      }
    }
    if (!has_any && status.start.host == core::host_name()) {
      status.local.reset();  // it became a checkpoint, or was removed
    }
  } catch (const Error&) {
    // What is not this user's: the log has the last word.
  }
}

/// The end of a path says more than its beginning.
std::string short_name(const fs::path& directory) {
  std::string name = core::escaped(directory.string());
  const bool is_cut = name.size() > kLongestName && ::isatty(STDOUT_FILENO) == 1;  // a pipe gets all of it
  return !is_cut ? name : "..." + name.substr(name.size() - kLongestName + 3);
}

std::string step_text(const RunStatus& status, TimePoint now) {
  const std::uint64_t step = status.step_at(now);
  return (step != status.reported_step ? "~" : "") + std::to_string(step);
}

std::string step_text(const std::optional<std::uint64_t>& step) { return step ? std::to_string(*step) : "?"; }

std::string time_text(const std::optional<std::chrono::duration<double>>& time) {
  return time ? core::duration_text(*time) : "-";
}

/// Where it works, what it saved, and what ends it.
std::string details_of(const RunStatus& run, TimePoint now) {
  std::string text = fmt::format("{}: {} on {} (process {})", short_name(run.directory),
                                 count_text(run.start.world_size, "rank"), printable(run.start.host), run.start.pid);
  if (run.saved && run.saved->time) {
    text += fmt::format("; saved {} {} ago", core::size_text(run.saved->bytes), human_age(*run.saved->time));
  }
  if (!run.slurm_job.empty()) {
    text += "; Slurm job " + printable(run.slurm_job);
  }
  if (run.job_end && *run.job_end > now) {
    text += fmt::format("; the job ends in {}", core::duration_text(*run.job_end - now));
  }
  return text;
}

std::string partner_text(const LocalState& local) {
  if (local.has_partners || !local.partner_step) {
    return local.has_partners ? ", on partner nodes too" : "";
  }
  return fmt::format("; on partner nodes that of step {}{}", *local.partner_step,
                     local.partner_time ? ", " + human_age(*local.partner_time) + " old" : "");
}

/// What the memory of the nodes holds of it.
std::string local_text(const RunStatus& run, TimePoint now) {
  const LocalState& local = *run.local;
  std::string text =
      fmt::format("{}: node-local copy of step {}{}, {} of memory in {}{}", short_name(run.directory), local.step,
                  local.time ? ", " + human_age(*local.time) + " old" : "", core::size_text(local.memory()),
                  core::escaped(run.local_directory.string()), partner_text(local));
  if (const auto risk = run.at_risk_with_nodes(now)) {
    return text + fmt::format("; if {} lost, {} of work is at risk",
                              local.has_partners ? "a node and its partner are" : "a node is",
                              core::duration_text(*risk));
  }
  return text + "; a start on the same nodes continues there, `reprieve drain` makes a checkpoint of it";
}

std::string state_text(RunState state) {
  const bool is_good = works(state) || state == RunState::saved || state == RunState::finished;
  const bool is_bad = state == RunState::failed || state == RunState::gone;
  return is_good ? toned(Tone::good, to_string(state)) : is_bad ? toned(Tone::bad, to_string(state)) : to_string(state);
}

void print_runs(std::ostream& out, const std::vector<RunStatus>& runs, TimePoint now) {
  Table table = table_of({"RUN", "STATE", ">STEP", ">RATE", ">LEFT", ">SAVED", ">LOCAL", ">AT RISK", ">STARTS"});
  for (const RunStatus& run : runs) {
    table.add_row({short_name(run.directory), state_text(run.state), step_text(run, now),
                   run.steps_per_second ? fmt::format("{:.3g}/s", *run.steps_per_second) : "-",
                   time_text(run.time_left(now)), run.saved ? step_text(run.saved->step) : "none",
                   run.local ? std::to_string(run.local->step) : "-", time_text(run.at_risk(now)),
                   std::to_string(run.starts)});
  }
  table.print(out);
  for (const RunStatus& run : runs) {
    if (run.at_risk(now)) {
      out << details_of(run, now) << '\n';
    }
    if (run.local) {
      out << local_text(run, now) << '\n';
    }
    if (const RemoteCopy* const copy = run.copy_of(run.last_copy)) {
      out << short_name(run.directory) << ": " << copy_text(run.last_copy, *copy) << '\n';
    }
    if (!run.message.empty()) {
      out << short_name(run.directory) << ": " << printable(first_line(run.message)) << '\n';
    }
  }
}

void print_jobs(std::ostream& out, const std::vector<QueuedJob>& jobs, const std::vector<RunStatus>& runs) {
  Table table = table_of({"SLURM JOB", "NAME", "STATE", ">TIME LEFT", "RUN"});
  for (const QueuedJob& job : jobs) {
    const auto run = std::ranges::find(runs, job.id, &RunStatus::slurm_job);
    table.add_row({printable(job.id), short_name(job.name), printable(job.state), printable(job.time_left),
                   run == runs.end() ? printable(job.where) : short_name(run->directory)});
  }
  out << '\n';
  table.print(out);
}

void sort(std::vector<RunStatus>& runs, Order order, TimePoint now) {
  std::ranges::sort(runs, {}, [](const RunStatus& run) { return run.directory; });
  std::ranges::stable_sort(runs, [&](const RunStatus& left, const RunStatus& right) {
    switch (order) {
      case Order::state:
        return left.state < right.state;
      case Order::step:
        return left.step_at(now) > right.step_at(now);
      case Order::risk:
        return left.at_risk(now) > right.at_risk(now);  // a run that has nothing to lose comes last
      case Order::name:
        break;
    }
    return false;
  });
}

void show(std::ostream& out, const Options& options) {
  std::vector<RunStatus> runs;
  for_each_run(options.directories, [&](const Timeline&, RunStatus status) {
    add_local(status);
    runs.push_back(std::move(status));
  });
  const TimePoint now = Clock::now();
  sort(runs, options.order, now);
  if (options.json) {
    print_json(out, {{"runs", list_json(runs, [&](const RunStatus& run) { return to_json(run, now); })}});
    return;
  }
  // The user's jobs, where Slurm answers: also those that wait, and have no run yet. The name may hold anything.
  const auto answer =
      termination::output_of({"squeue", "--me", "--noheader", "-o", "%i|%T|%L|%R|%j"}, {}, kAnswerLimit);
  const std::vector<QueuedJob> jobs = parse_squeue(answer.value_or(""));
  if (runs.empty() && jobs.empty() && !options.watch) {
    throw MissingError(
        "there is no run: no directory here has an event log (events.jsonl). A run makes one in its checkpoint "
        "directory; name that, or a directory above it");
  }
  if (runs.empty()) {
    out << "no run yet\n";
  } else {
    print_runs(out, runs, now);
  }
  if (!jobs.empty()) {
    print_jobs(out, jobs, runs);
  }
}

/// Gives single keys from the terminal, without Enter; none in the background, where the kernel would stop the process
/// for that. The terminal is as before when this ends.
class Keys {
 public:
  Keys() : works_(::tcgetpgrp(STDIN_FILENO) == ::getpgrp() && ::tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios single = before_;
    single.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);  // Ctrl-C comes as a key, so the end is orderly
    works_ = works_ && ::tcsetattr(STDIN_FILENO, TCSANOW, &single) == 0;
  }
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys() {
    if (works_) {
      static_cast<void>(::tcsetattr(STDIN_FILENO, TCSANOW, &before_));
    }
  }

  /// A key, or 0 if none came within @p limit.
  [[nodiscard]] char wait(std::chrono::milliseconds limit) const {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    char key = 0;
    if (!works_) {
      std::this_thread::sleep_for(limit);
    } else if (::poll(&input, 1, static_cast<int>(limit.count())) > 0 && ::read(STDIN_FILENO, &key, 1) <= 0) {
      return 'q';  // the terminal is gone
    }
    return key;
  }

 private:
  termios before_{};
  bool works_;
};

/// Until the user ends it. On a terminal each picture replaces the one before.
int watch(Options options) {
  constexpr char kInterrupt = 3;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1 && !options.json;
  const std::optional<Keys> keys = terminal ? std::make_optional<Keys>() : std::nullopt;
  const auto interval = std::clamp<std::chrono::milliseconds>(options.interval, 100ms, 24h);
  for (;;) {
    std::ostringstream picture;
    show(picture, options);
    std::cout << (terminal ? fmt::format("\033[H\033[2J{} on {}, by {}\n", utc_time(Clock::now()), core::host_name(),
                                         kOrderNames.at(static_cast<std::size_t>(options.order)))
                           : "")
              << picture.str() << std::flush;
    if (!std::cout) {
      throw StorageError(ErrorCode::io, "cannot write to standard output");
    }
    if (!keys) {
      std::this_thread::sleep_for(interval);
      continue;
    }
    const char key = keys->wait(interval);
    if (key == 'q' || key == kInterrupt) {
      return kGood;
    }
    if (key == 's') {
      options.order = static_cast<Order>((static_cast<std::size_t>(options.order) + 1) % kOrderNames.size());
    }
  }
}

int run(const Options& options) {
  if (options.watch) {
    return watch(options);
  }
  show(std::cout, options);
  return kGood;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "status", "How the runs below a directory stand", kFooter, define, run);
}

}  // namespace reprieve::tool::status_command
