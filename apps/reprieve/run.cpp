// SPDX-License-Identifier: BSD-3-Clause
// reprieve run [options] -- LAUNCHER..., and what it shows on standard error between the output of the program.

#include <fmt/chrono.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <regex>
#include <set>
#include <system_error>

#include "command.hpp"
#include "core/directory.hpp"
#include "core/process.hpp"
#include "core/run_record.hpp"
#include "core/values.hpp"
#include "supervisor/job_supervisor.hpp"
#include "supervisor/processes.hpp"
#include "supervisor/run_progress.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::tool::run_command {

namespace {

/// Events that are shown even to those who want to see nothing.
const std::set<std::string> kThatMatter{"warning",    "give_up",     "fallback",
                                        "kill",       "quarantine",  "save_failed",
                                        "no_requeue", "local_drain", "after_commit_failed"};

/// One write, so that the lines of the ranks do not get in between; none if it could block, since a stopped terminal or
/// a reader that does not read must not keep the supervisor from its signals.
void write_if_possible(const std::string& text) {
  pollfd entry{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&entry, 1, 0) != 1 || (entry.revents & POLLOUT) == 0) {
    return;
  }
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) {
    return;  // nobody reads it: there is nowhere to say so
  }
}

class RunOutput {
 public:
  enum class Form {
    text,   ///< a line per event; on a terminal a status line as well
    json,   ///< a JSON object per event
    quiet,  ///< only what a person has to know: warnings, and why there is no further start
  };

  explicit RunOutput(Form form) : form_(form), terminal_(form == Form::text && ::isatty(STDERR_FILENO) == 1) {}
  ~RunOutput() { wipe(); }
  RunOutput(const RunOutput&) = delete;
  RunOutput& operator=(const RunOutput&) = delete;

  void event(const supervisor::SupervisorEvent& event) {
    if (form_ == Form::quiet && !kThatMatter.contains(event.name)) {
      return;
    }
    wipe();
    if (form_ == Form::json) {
      Json line{{"version", kJsonVersion},
                {"event", event.name},
                {"wall_clock_s", static_cast<std::int64_t>(std::time(nullptr))},
                {"text", event.text}};
      for (const auto& [key, value] : event.fields.items()) {
        line[key] = value;
      }
      write_if_possible(line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
    } else {
      write_if_possible(fmt::format("[reprieve {:%H:%M:%S}] {}\n", fmt::localtime(std::time(nullptr)),
                                    printable(first_line(event.text))));
    }
  }

  /// Shown in place, until the next event; nothing unless standard error is a terminal.
  void status(const std::string& text) {
    if (!terminal_) {
      return;
    }
    // The cursor goes back to the start of the line, so that a line of the program overwrites the status.
    write_if_possible(fmt::format("\r[reprieve] {}\x1b[K\r", printable(text)));
    status_shown_ = true;
  }

 private:
  void wipe() {
    if (std::exchange(status_shown_, false)) {
      write_if_possible("\r\x1b[K");
    }
  }

  Form form_;
  bool terminal_;
  bool status_shown_ = false;
};

using std::chrono::milliseconds;

constexpr const char* kFooter =
    R"(reprieve run [options] -- LAUNCHER ARGUMENTS...

Starts a launcher, or any program, and sees to it that a notice of its end reaches the ranks as one: SIGTERM,
SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM and SIGURG to `reprieve run` (or to its process group), a
deadline, or a file DIR/PREEMPT in the checkpoint directory. The launcher itself gets none of these: mpirun would
kill the ranks within seconds of a SIGTERM, and return 1. A notice that comes before the ranks are ready is kept
until they are. All this ends the command as well: whoever sent it starts it again. A notice that only a rank got
(its node is taken away) is answered by a restart, with --restarts.

On a terminal: Ctrl-C asks the run to save and leave, a second one says what would be lost, a third ends it at once.

Examples:
  reprieve run -- mpirun -n 4 ./train                          save and leave with code 42 at SIGTERM or Ctrl-C
  reprieve run --restarts 5 -- mpirun -n 4 ./train             start again after a crash, from the newest checkpoint
  reprieve run --time-left 2h --lead 5m -- mpirun -n 4 ./train   leave in 1 h 55 min
  reprieve run --slurm -- srun --mpi=pmix ./train              in a batch script: back into the queue when it is saved
  reprieve run --slurm -- mpirun ./train                       the same; `reprieve sbatch-template` prints a whole script
  reprieve run --restarts 5 --min-ranks 2 -- mpirun -n 4 --hostfile hosts ./train   continue without hosts that die
  touch checkpoints/PREEMPT                                    from anywhere: save and leave

Exit codes: 0 the program finished; the restart code (42 unless the program sets another) its state is saved, start it
again; 2 wrong usage; 75 with --slurm: saved, but not to be started again by Slurm; 130 ended by a third Ctrl-C;
otherwise the launcher's code, or 1 if the launcher returned 0 or the restart code although nothing was saved.)";

struct Options {
  std::vector<std::string> program;
  supervisor::SupervisorSettings settings;
  supervisor::SlurmSettings slurm;
  supervisor::HostSettings hosts;
  std::string directory;
  milliseconds time_left{0};
  std::string deadline;
  bool in_slurm = false;
  bool quiet = false;
  bool events_as_json = false;
};

void define_restarts(CLI::App& command, Options& options) {
  command.option_defaults()->group("Restarts");
  command
      .add_option("--restarts", options.settings.restarts.restarts,
                  "How often a saved or crashed run is started again, at most")
      ->check(CLI::Range(0, 1'000'000));
  add_duration(command, "--backoff", options.settings.restarts.first_pause,
               "Pause after a crash; doubles, up to 1 min, while there is no progress");
  command
      .add_option("--give-up-after", options.settings.restarts.fruitless_runs,
                  "Runs in a row without a newer checkpoint")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void define_end(CLI::App& command, Options& options) {
  command.option_defaults()->group("The end of the job");
  auto* time_left = add_duration(command, "--time-left", options.time_left, "The job is killed in TIME");
  command.add_option("--deadline", options.deadline, "The same as a time: 2026-03-01T12:00:00 (local, or with Z UTC)")
      ->excludes(time_left);
  const auto take_lead = [&](double seconds) {
    options.settings.lead = std::chrono::seconds(static_cast<std::int64_t>(seconds));
  };
  add_duration(command, "--lead", take_lead, "How long before the end the ranks get notice")
      ->default_str("2 min, or a quarter of the time if that is less");
  command.add_option(
      "--directory", options.directory,
      "Checkpoint directory of the program, which gets it as REPRIEVE_DIRECTORY; watched for PREEMPT from "
      "the start on. A program that uses another one is ended");
  command.add_flag_callback(
      "--no-drain", [&] { options.settings.flushes_local_copies = false; },
      "Leave node-local copies in the memory of the nodes when a run ends in disorder. Otherwise `reprieve drain` "
      "makes a checkpoint of them");
  command
      .add_option("--before-start", options.settings.before_start,
                  "Before the first start, if --directory has no checkpoint: a shell runs COMMAND with "
                  "DIRECTORY, to fetch them; if it fails, nothing is started")
      ->type_name("COMMAND");
  command
      .add_option("--after-commit", options.settings.after_commit,
                  "After each checkpoint, beside the program: a shell runs COMMAND with FILE and DIRECTORY, to copy it "
                  "elsewhere")
      ->type_name("COMMAND");
  add_duration(command, "--command-timeout", options.settings.command_timeout, "How long each of the two may take");
  add_duration(command, "--ready-timeout", options.settings.patience,
               "How long a notice waits for a program to show that it uses the library");
}

void define_launcher(CLI::App& command, Options& options) {
  command.option_defaults()->group("Launcher");
  command.add_flag_callback(
      "--no-shield", [&] { options.settings.shield_daemons = false; },
      "Leave the launch agent of mpirun's daemons on other nodes alone");
  add_duration(command, "--link-timeout", options.settings.link_timeout,
               "mpirun notices a dead connection to a node within TIME; 0: as it is configured");
  command.add_option("--run-dir", options.settings.run_directory_parent,
                     "Where to make the private directory for the run's record; all nodes must see it. Default: the "
                     "working directory if there are several nodes, else the directory for temporary files");
}

void define_hosts(CLI::App& command, Options& options) {
  command.option_defaults()->group("Dead hosts");
  command
      .add_option(
          "--min-ranks", options.hosts.min_ranks,
          "Before each start, leave out the hosts that mpirun cannot reach or whose machine a cloud takes away; "
          "start on fewer ranks if the others have no room for all, but not on fewer than this")
      ->check(CLI::Range(1, 100'000'000));
  command
      .add_option("--spares", options.hosts.spares,
                  "The last so many hosts of mpirun's --host or --hostfile, or of the job, stay free until another one "
                  "is left out")
      ->check(CLI::Range(0, 1'000'000));
  add_duration(command, "--host-timeout", options.hosts.patience, "How long a host has to answer");
}

void define_slurm(CLI::App& command, Options& options) {
  command.option_defaults()->group("Slurm");
  auto* slurm =
      command.add_flag("--slurm", options.in_slurm,
                       "Inside a job: watch its end and its preemption, and put it back into the queue when it "
                       "was saved, unless Slurm has decided already or the job forbids it (--no-requeue)");
  command
      .add_flag_callback(
          "--requeue-exit", [&] { options.slurm.way = supervisor::RequeueWay::exit_code; },
          "The site has RequeueExit set to the restart code: leave with it, instead of scontrol requeue, unless "
          "the job is preempted")
      ->needs(slurm);
  add_duration(command, "--slurm-poll", options.slurm.poll, "Ask Slurm so often")->needs(slurm);
}

void define(CLI::App& command, Options& options) {
  define_restarts(command, options);
  define_end(command, options);
  define_slurm(command, options);
  define_launcher(command, options);
  define_hosts(command, options);
  command.option_defaults()->group("Options");
  command.add_flag("--quiet", options.quiet, "Show only what a person has to know");
  command.add_flag("--json", options.events_as_json, "Show events as JSON, one per line, on standard error");
}

std::chrono::system_clock::time_point parse_deadline(const std::string& text) {
  std::tm parts{};
  const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  const bool utc = rest != nullptr && *rest == 'Z';
  if (rest == nullptr || (*rest != '\0' && !(utc && rest[1] == '\0'))) {
    throw UsageError("--deadline " + text + " is not a time such as 2026-03-01T12:00:00 or 2026-03-01T12:00:00Z");
  }
  parts.tm_isdst = -1;
  return core::wall_clock_time(utc ? timegm(&parts) : std::mktime(&parts));
}

std::optional<std::chrono::steady_clock::time_point> deadline_of(const Options& options) {
  const auto now = std::chrono::steady_clock::now();
  if (!options.deadline.empty()) {
    const auto left = core::between<milliseconds>(std::chrono::system_clock::now(), parse_deadline(options.deadline));
    return core::later(now, left);
  }
  return options.time_left.count() > 0 ? std::optional(core::later(now, options.time_left)) : std::nullopt;
}

std::optional<supervisor::SlurmSettings> slurm_settings(const Options& options) {
  if (!options.in_slurm) {
    return std::nullopt;
  }
  const auto job = termination::slurm_job_id(core::environment_variable);
  if (!job) {
    throw UsageError("--slurm works inside of a Slurm job only: SLURM_JOB_ID is not set");
  }
  return supervisor::SlurmSettings{*job, options.slurm.way, options.slurm.poll};
}

supervisor::SupervisorSettings settings_of(const Options& options) {
  supervisor::SupervisorSettings settings = options.settings;
  settings.command = options.program;
  settings.tool = std::filesystem::read_symlink("/proc/self/exe");
  settings.deadline = deadline_of(options);
  if (!options.directory.empty()) {
    settings.directory = core::without_dots(std::filesystem::absolute(options.directory));
  }
  if (!settings.before_start.empty() && !settings.directory) {
    throw UsageError("--before-start needs --directory, to know where the checkpoints belong");
  }
  settings.slurm = slurm_settings(options);
  if (options.hosts.spares > 0 || options.hosts.min_ranks) {
    settings.hosts = options.hosts;
  }
  return settings;
}

int run(const Options& options) {
  using Form = RunOutput::Form;
  RunOutput output(options.events_as_json ? Form::json : options.quiet ? Form::quiet : Form::text);
  supervisor::SupervisorSettings settings = settings_of(options);
  settings.on_event = [&](const auto& event) { output.event(event); };
  settings.on_status = [&](const auto& text) { output.status(text); };
  return supervisor::supervise(std::move(settings));
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "run", "Run a parallel program that saves itself before it is killed", kFooter, define, run);
}

}  // namespace reprieve::tool::run_command

// reprieve launch-agent --run-dir DIR DAEMON...: how `reprieve run` has mpirun start its daemons on other nodes; and
// reprieve launch-agent LAUNCHER...: how a script below it starts a launcher. Not for people.

namespace reprieve::tool::launch_agent_command {

namespace {

constexpr const char* kFooter =
    R"(Becomes the launcher or its daemon with SIGTERM, SIGINT and SIGHUP blocked: a scheduler signals all processes of a
job, and a launcher that gets SIGTERM kills its ranks. The ranks start with no signal blocked all the same.)";

struct Options {
  std::string run_directory;
  std::string directory;
  std::vector<std::string> command;
};

void define(CLI::App& command, Options& options) {
  command.group("");  // not in the list of subcommands
  command.add_option("--run-dir", options.run_directory, "Directory for the record of the run");
  command.add_option("--directory", options.directory, "Directory for the checkpoints");
  command.prefix_command();
  command.parse_complete_callback([&command, &options] { options.command = command.remaining(); });
}

int run(const Options& options) {
  std::vector<std::string> words = options.command;
  if (words.empty()) {
    throw UsageError("launch-agent needs the daemon to become");
  }
  for (const auto& [name, value] : {std::pair{core::kRunDirectoryVariable, options.run_directory},
                                    std::pair{core::kDirectoryVariable, options.directory}}) {
    if (!value.empty() && ::setenv(name, value.c_str(), 1) != 0) {
      throw Error(ErrorCode::io, "cannot set a variable of the environment");
    }
  }
  supervisor::block_termination_signals();
  ::execvp(words.front().c_str(), core::pointers_to(words).data());
  throw UsageError("cannot start " + words.front() + ": " + std::generic_category().message(errno));
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "launch-agent", "Start a daemon of mpirun, shielded", kFooter, define, run);
}

}  // namespace reprieve::tool::launch_agent_command

// reprieve sbatch-template

namespace reprieve::tool::sbatch_template_command {

namespace {

constexpr const char* kFooter =
    R"(Prints a batch script for Slurm. The job saves itself and goes back into the queue when it is preempted and when its
time limit is near, until the program has finished.

Examples:
  reprieve sbatch-template --nodes 2 --tasks-per-node 8 --time 4:00:00 --program ./train > job.sbatch && sbatch job.sbatch
  reprieve sbatch-template --launcher mpirun --grace 60          the partition's GraceTime is 60 s
  reprieve sbatch-template --array 0-9 --directory 'checkpoints-$SLURM_ARRAY_TASK_ID'
  reprieve sbatch-template --requeue requeue-exit                the site has RequeueExit=42

Exit codes: 0 printed,)";

enum class Launcher { srun, mpirun };
enum class Requeue { scontrol, requeue_exit, none };

struct Options {
  Launcher launcher = Launcher::srun;
  Requeue requeue = Requeue::scontrol;
  int nodes = 1;
  int tasks_per_node = 4;
  int cpus_per_task = 1;
  std::string time = "24:00:00";
  int grace_s = 120;
  std::string partition;
  std::string name = "train";
  std::string array;
  std::string directory = "checkpoints";
  std::string program_line = "./program";
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  add_choice(command, "--launcher", options.launcher, {"srun", "mpirun"}, "srun (default) or mpirun");
  add_choice(command, "--requeue", options.requeue, {"scontrol", "requeue-exit", "none"},
             "scontrol (default), requeue-exit (the site has RequeueExit), or none");
  const auto add_number = [&](const char* name, int& number, int most, const char* meaning) {
    command.add_option(name, number, meaning)
        ->check(CLI::Range(1, most).description(""))
        ->type_name("N")
        ->capture_default_str();
  };
  add_number("--nodes", options.nodes, 1'000'000, "Number of nodes");
  add_number("--tasks-per-node", options.tasks_per_node, 1'000'000, "Ranks on each node");
  add_number("--cpus-per-task", options.cpus_per_task, 1'000'000, "Cores for each rank");
  command.add_option("--time", options.time, "Time limit of one run of the job")->capture_default_str();
  add_number("--grace", options.grace_s, 86'400,
             "Seconds that a save and a step take at most, with a margin; the partition's GraceTime if it has one");
  command.add_option("--partition", options.partition, "Partition");
  command.add_option("--name", options.name, "Name of the job")->capture_default_str();
  command.add_option("--array", options.array, "Indices of a job array: 0-9, 1,3,5, 0-99%10");
  command.add_option("--directory", options.directory, "Checkpoint directory, on a file system that all nodes share")
      ->capture_default_str();
  command.add_option("--program", options.program_line, "The program and its arguments, as in a shell")
      ->capture_default_str();
}

/// Slurm's forms of a time limit: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].
/// Nothing for one without a limit. @throws UsageError if it is none of them
std::optional<double> time_limit_s(const std::string& text) {
  static const std::regex forms(R"((?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?)");
  std::smatch part;
  if (text == "UNLIMITED" || text == "INFINITE") {
    return std::nullopt;
  }
  if (!std::regex_match(text, part, forms)) {
    throw UsageError(fmt::format(
        "--time: found \"{}\"; allowed: what Slurm takes, as in 90 (minutes), 4:00:00 or 1-12:00:00", text));
  }
  const auto number = [&](std::size_t index) { return part[index].matched ? std::stod(part[index]) : 0.0; };
  if (part[1].matched) {
    return 86'400 * number(1) + 3600 * number(2) + 60 * number(3) + number(4);
  }
  if (part[4].matched) {
    return 3600 * number(2) + 60 * number(3) + number(4);
  }
  return 60 * number(2) + number(3);
}

void check_times(const Options& options) {
  const auto limit = time_limit_s(options.time);
  if (limit && *limit <= options.grace_s) {
    throw UsageError(
        fmt::format("--grace: the job would be asked to save {} s before its end, but --time {} gives it only {:.0f} s "
                    "in all; ask for "
                    "a longer time",
                    options.grace_s, options.time, *limit));
  }
}

std::string head(const Options& options) {
  std::string text = "#!/bin/bash\n";
  const auto add = [&](const std::string& option) { text += "#SBATCH " + option + '\n'; };
  add("--job-name=" + options.name);
  if (!options.partition.empty()) {
    add("--partition=" + options.partition);
  }
  if (!options.array.empty()) {
    add("--array=" + options.array);
  }
  add(fmt::format("--nodes={}", options.nodes));
  add(fmt::format("--ntasks-per-node={}", options.tasks_per_node));
  add(fmt::format("--cpus-per-task={}", options.cpus_per_task));
  add("--time=" + options.time);
  add(options.requeue == Requeue::none ? "--no-requeue" : "--requeue");
  add(options.array.empty() ? "--output=%x-%j.out" : "--output=%x-%A_%a.out");
  add("--open-mode=append");
  text +=
      "# SIGURG to this script alone, that many seconds before the time limit, and at the start of the grace time\n"
      "# where the site has SlurmctldParameters=preempt_send_user_signal. SIGURG because it ends no program that does\n"
      "# not know it: what comes before `reprieve run` listens does no harm, and is not missed, since `reprieve run`\n"
      "# asks Slurm as well.\n";
  add(fmt::format("--signal=B:URG@{}", options.grace_s));
  return text;
}

std::string body(const Options& options) {
  // `exec` makes the supervisor the process that Slurm signals; no shell stands between that could lose a signal.
  std::string run = fmt::format("exec reprieve run --slurm --restarts 5 --lead {}", options.grace_s);
  if (options.requeue == Requeue::requeue_exit) {
    run += " --requeue-exit";
  }
  return fmt::format(R"(
# What your site needs to find the program and the launcher:
#   module load openmpi
#   program=(apptainer exec image.sif ./program)       # Apptainer/Singularity, with srun or with mpirun outside
#   srun --container-image=image.sqsh ...              # Enroot with Pyxis
directory={}
program=({})

# To preempt the job by hand: touch "$directory/PREEMPT", or scancel --batch --signal=URG JOBID
#
# `exec` is needed: Slurm signals this shell alone, and a shell that waits for a command dies of it. Where more lines
# must follow, replace `exec` by the background, and pass the signals on:
#   reprieve run ... & run=$!
#   trap 'kill -TERM $run' TERM; trap 'kill -URG $run' URG
#   while wait $run; code=$?; kill -0 $run 2>/dev/null; do :; done
#   ...                                                # more lines
#   exit $code
{} --directory "$directory" -- {} "${{program[@]}}"
)",
                     options.directory, options.program_line, run,
                     options.launcher == Launcher::srun ? "srun --mpi=pmix" : "mpirun -n \"$SLURM_NTASKS\"");
}

int run(const Options& options) {
  for (const auto& [option, value] : std::map<std::string, std::string>{{"--name", options.name},
                                                                        {"--partition", options.partition},
                                                                        {"--array", options.array},
                                                                        {"--time", options.time},
                                                                        {"--directory", options.directory},
                                                                        {"--program", options.program_line}}) {
    // A word of a comment line of sbatch cannot hold a line break, which would begin a command.
    if (value.find_first_of("\r\n") != std::string::npos) {
      throw UsageError(option + " must be one line");
    }
  }
  check_times(options);
  const std::string script = head(options) + body(options);
  print_answer(options.json, {{"script", script}}, [&] { std::cout << script; });
  return kGood;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "sbatch-template", "Print a batch script for Slurm", kFooter, define, run);
}

}  // namespace reprieve::tool::sbatch_template_command
