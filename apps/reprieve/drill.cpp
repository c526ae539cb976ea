// SPDX-License-Identifier: BSD-3-Clause
// reprieve drill [options] -- COMMAND..., and what it found, for people and for programs.

#include "supervisor/drill.hpp"

#include <array>
#include <csignal>
#include <iostream>
#include <ostream>

#include "command.hpp"
#include "core/log.hpp"
#include "supervisor/launcher.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::tool::drill_command {

namespace {

using supervisor::DrillFacts;
using supervisor::DrillVerdict;
using supervisor::ObservedNotice;
using supervisor::ObservedStart;
using supervisor::StateDifference;

struct DrillReport {
  DrillFacts facts;
  std::vector<supervisor::Finding> findings = supervisor::judge_drill(facts);
  DrillVerdict verdict = supervisor::verdict_of(findings);
};

/// The forms of a verdict: for programs, for people, and as the exit code.
struct VerdictWords {
  const char* id;
  const char* text;
  ExitCode code;
  Tone tone;
};

const VerdictWords& words_of(DrillVerdict verdict) {
  static constexpr std::array<VerdictWords, 3> kWords{
      {{"would_survive", "the job would survive", kGood, Tone::good},
       {"would_lose_work", "the job would lose work, go another way, or not continue by itself", kBad, Tone::bad},
       {"unknown", "the drill could not tell", kTrouble, Tone::warning}}};
  return kWords.at(static_cast<std::size_t>(verdict));
}

Json start_json(const ObservedStart& start) {
  return {{"opened", start.opened},
          {"ready", start.ready},
          {"directory", start.directory.string()},
          {"ranks", start.world_size},
          {"begins_at_step", or_null(start.begins_at)},
          {"restored_step", or_null(start.restored_step)},
          {"restore_s", start.restore_s},
          {"error", start.error},
          {"exit_code", or_null(start.code)}};
}

Json notice_json(const ObservedNotice& notice) {
  const auto arrivals = list_json(notice.arrivals, [](const supervisor::Arrival& arrival) -> Json {
    return {{"rank", arrival.rank}, {"host", arrival.host}, {"source", arrival.source}, {"seconds", arrival.seconds}};
  });
  const auto ends = list_json(notice.rank_ends, [](const auto& end) -> Json {
    return {{"rank", end.first}, {"seconds", end.second}};
  });
  return {{"sent", notice.sent},
          {"last_step", or_null(notice.last_step)},
          {"arrivals", arrivals},
          {"agreed_s", or_null(notice.agreed_s)},
          {"saved_s", or_null(notice.saved_s)},
          {"trained_on_s", or_null(notice.trained_on_s)},
          {"left_s", or_null(notice.left_s)},
          {"ended_s", or_null(notice.ended_s)},
          {"killed_s", or_null(notice.killed_s)},
          {"rank_ends", ends},
          {"ranks_blocked_in_output", notice.blocked_ranks},
          {"saved_step", or_null(notice.saved_step)},
          {"save_s", notice.save_s},
          {"longest_step_s", notice.longest_step_s},
          {"restart_code", notice.restart_code == 0 ? Json() : Json(notice.restart_code)}};
}

Json state_json(const supervisor::StateComparison& state) {
  const auto names = list_json(state.different, [](const StateDifference& each) { return each.variable; });
  const auto differences = list_json(state.different, [](const StateDifference& each) -> Json {
    return {{"variable", each.variable},
            {"kind", name_of(each.kind, {"values", "rounding", "other_ranks"})},
            {"what", each.what},
            {"relative_error", each.relative_error}};
  });
  return {{"equal", state.equal()}, {"variables", state.variables}, {"bytes", state.bytes},
          {"different", names},     {"differences", differences},   {"failure", state.failure}};
}

/// One of the two runs of a replay.
Json replayed_json(const ObservedStart& start, const std::optional<supervisor::StateComparison>& state) {
  Json json = start_json(start);
  json["stopped_at_step"] = or_null(start.stopped_at());
  json["compared"] = state ? state_json(*state) : Json();
  return json;
}

Json replay_json(const supervisor::ReplayFacts& replay) {
  return {{"from_step", replay.from_step},
          {"steps", replay.steps},
          {"undisturbed", replayed_json(replay.undisturbed, replay.start)},
          {"resumed", replay.resumed ? replayed_json(*replay.resumed, replay.end) : Json()}};
}

Json end_json(const supervisor::EndFacts& end) {
  const auto files = list_json(end.files, [](const supervisor::EndFacts::File& file) -> Json {
    return {{"path", file.path}, {"equal", file.difference.empty()}, {"difference", file.difference}};
  });
  return {{"resumed", start_json(end.resumed)}, {"undisturbed", start_json(end.undisturbed)}, {"files", files}};
}

Json memory_json(const supervisor::MemoryFacts& memory) {
  Json json = {{"start", start_json(memory.start)}};
  if (memory.changes) {
    json["steps"] = memory.changes->steps;
    json["unchanged"] = memory.changes->unchanged;
    json["uncovered"] = list_json(memory.changes->uncovered, [](const auto& object) -> Json {
      return {{"name", object.name}, {"bytes", object.bytes}};
    });
  }
  return json;
}

Json death_json(const supervisor::DeathFacts& death) {
  return {{"start", start_json(death.start)},
          {"rank", or_null(death.rank)},
          {"last_step", death.last_step},
          {"recovery_s", or_null(death.recovery_s)}};
}

Json to_json(const DrillReport& report) {
  const DrillFacts& facts = report.facts;
  const auto costs = supervisor::grace_costs(facts);
  return {{"verdict", words_of(report.verdict).id},
          {"findings", tool::to_json(report.findings)},
          {"command", facts.asked.command},
          {"signal", facts.signal_name()},
          {"grace_s", facts.grace_s()},
          {"first_start", start_json(facts.first)},
          {"notice", facts.notice ? notice_json(*facts.notice) : Json()},
          {"second_start", facts.second ? start_json(*facts.second) : Json()},
          {"state", facts.state ? state_json(*facts.state) : Json()},
          {"replay", facts.replay ? replay_json(*facts.replay) : Json()},
          {"to_end", facts.to_end ? end_json(*facts.to_end) : Json()},
          {"memory", facts.memory ? memory_json(*facts.memory) : Json()},
          {"death", facts.death ? death_json(*facts.death) : Json()},
          {"grace_needed", costs ? tool::to_json(*costs) : Json()},
          {"kept", list_json(facts.kept, [](const auto& directory) { return directory.string(); })}};
}

void print_text(std::ostream& out, const DrillReport& report) {
  const DrillFacts& facts = report.facts;
  out << fmt::format("drill   {}\n", printable(fmt::format("{}", fmt::join(facts.asked.command, " "))));
  if (facts.notice && !facts.notice->sent.empty()) {
    out << fmt::format("notice  {}, at step {} or so\n", facts.notice->sent, facts.notice->last_step.value_or(0));
  }
  out << '\n';
  print_findings(out, report.findings);
  if (const auto costs = supervisor::grace_costs(facts)) {
    out << fmt::format("\nSlurm: #SBATCH --signal=B:URG@{0} for a script with `reprieve run`, B:USR1@{0} for others\n",
                       supervisor::signal_lead_s(*costs));
  }
  for (const auto& directory : facts.kept) {
    out << fmt::format("\nkept: {}\n", core::escaped(directory.string()));
  }
  const bool promises_no_output = report.verdict == DrillVerdict::would_survive && !facts.asked.to_end;
  out << fmt::format("\n{}{}\n", toned(words_of(report.verdict).tone, words_of(report.verdict).text),
                     promises_no_output ? ", as far as its registered variables say; --to-end --compare FILE looks at "
                                          "its output, too"
                                        : "");
}

constexpr const char* kFooter =
    R"(reprieve drill [options] -- COMMAND ARGUMENTS...

Rehearses a preemption with your own command: starts it, waits until its ranks work, sends the notice as the platform
would, watches how the job saves and ends, starts it again, and compares the state that it resumes with the one that it
saved. Run it where the job will run, on as many ranks: inside an allocation (salloc), or with mpirun alone.

Your checkpoints are safe: the program works in a directory of the drill's own inside its checkpoint directory, which is
empty at the start and removed at the end (--keep leaves it). What else the program writes is not shielded. Its output
goes to standard error, the report to standard output.

Ways of the notice (--as):
  command           SIGUSR1 to the command itself, as #SBATCH --signal=B:USR1@N and `kill -USR1 %1` do (default)
  time-limit        SIGCONT and SIGTERM to every process: Slurm at a time limit or `scancel`, systemd; killed after --grace
  slurm-grace       the same to the tasks of srun alone, and to nobody under mpirun: Slurm's GraceTime. SIGTERM to
                    everything after --grace, SIGKILL 30 s later
  term-to-launcher  SIGTERM to mpirun or srun itself: a script that kills its children
  rank              SIGTERM to one rank alone: its node is taken away

What is compared is what the program registered. To find what it forgot to register, or restores wrongly (ghost layers, a
generator, a counter): --replay N starts it twice more, once undisturbed from the beginning to N steps after the save, once
resumed, and compares the states there. Use it before the first long job, and after each change of the state.

What the program writes is not compared: a histogram that is not registered is in no checkpoint. --to-end --compare FILE...
lets the preempted run and an undisturbed one come to their ends, and compares the files that they have made, byte by byte,
or by a command that knows the format and a tolerance: --compare-with "h5diff --relative=1e-9".

--memory looks for what was forgotten: it lists the heap blocks (from 1 KiB) and global variables of rank 0 that steps change
and in which no registered variable lies, and the variables that no step changes. It needs no other build of the program.

--kill-rank kills a rank of a run that resumes: do the others continue in place (run_resilient), or does the job end?

With --ranks M the resumed run has M ranks: differences up to 1e-9 of the largest value that differs (double; float: 1e-4)
are rounding, and no problem. On the same number of ranks every bit must be equal.

Examples:
  reprieve drill -- reprieve run -- mpirun -n 4 ./train             the recommended way to start a job
  reprieve drill --replay 5 -- mpirun -n 4 ./train                  is everything registered that the steps need?
  reprieve drill --replay 5 --ranks 3 -- mpirun -n 4 ./train        and on another number of ranks?
  reprieve drill --to-end --compare loss.csv -- mpirun -n 4 ./train short.json   is the output the same?
  reprieve drill --memory -- mpirun -n 4 ./train                    which memory do steps change that is not registered?
  reprieve drill --kill-rank -- mpirun --with-ft ulfm -n 4 ./train  what does the death of a rank cost?
  reprieve drill --grace 30s -- ./job.sh                            a batch script, by the signal of --signal=B:USR1@30
  reprieve drill --as time-limit -- mpirun -n 4 ./train             what if Slurm signals every process?
  reprieve drill --as command --signal TERM --grace 10s -- ./job.sh   docker stop, Kubernetes
  reprieve drill --after-steps 100 --json -- srun --mpi=pmix ./train > drill.json

Exit codes: 0 the job would survive, 1 it would lose work,)";

struct Options {
  std::vector<std::string> program;
  supervisor::DrillSettings settings;
  std::string signal;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  supervisor::DrillSettings& settings = options.settings;
  add_choice(command, "--as", settings.way, {"command", "time-limit", "slurm-grace", "term-to-launcher", "rank"},
             "How the platform gives notice, see below; default: command");
  command.add_option("--signal", options.signal, "Another signal than that of the way: TERM, USR1, USR2, INT, HUP");
  add_duration(command, "--grace", settings.grace, "How long after the notice the platform kills what is left");
  add_duration(command, "--after", settings.after, "How long after the ranks are ready the notice is given");
  command.add_option("--after-steps", settings.after_steps, "Give notice when the run has done so many steps, instead")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000'000}).description(""))
      ->type_name("N")
      ->excludes("--after");
  add_duration(command, "--ready-timeout", settings.ready_timeout,
               "A program that opens no checkpoint directory for so long does not use the library");
  add_duration(command, "--timeout", settings.timeout, "Wait no longer than that for steps, or for the second start");
  CLI::Option* replay = command
                            .add_option("--replay", settings.replay_steps,
                                        "Compare the next N steps with those of an undisturbed run, too")
                            ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000'000}).description(""))
                            ->type_name("N");
  command
      .add_option("--ranks", settings.replay_ranks,
                  "With --replay: the resumed run has M ranks; rounding is named as such")
      ->check(CLI::Range(1, 100'000'000).description(""))
      ->type_name("M")
      ->needs(replay);
  CLI::Option* to_end = command.add_flag("--to-end", settings.to_end,
                                         "Run the program to its end, resumed and undisturbed, and compare its output");
  to_end->excludes(replay);
  to_end->needs(command.add_option("--compare", settings.outputs, "The files that --to-end compares")
                    ->delimiter(',')
                    ->type_name("FILE")
                    ->needs(to_end));
  command
      .add_option("--compare-with", settings.compare_command,
                  "Compare by this command, which gets both names: 0 means equal; without it, byte by byte")
      ->type_name("COMMAND")
      ->needs(to_end);
  command.add_flag("--memory", settings.watch_memory,
                   "List the memory of rank 0 that steps change and that no registered variable covers");
  command.add_flag("--kill-rank", settings.kill_rank, "Kill a rank of a resumed run, and see what the others do");
  command.add_option("--ignore", settings.ignore, "Variables that may differ where states are compared")
      ->delimiter(',');
  command.add_option("--run-dir", settings.run_directory_parent,
                     "Where to make the private directory for the run's record; all nodes must see it");
  command.add_flag("--keep", settings.keep, "Leave the checkpoints of the drill, and say where they are");
  add_color(command);
}

int signal_of(const Options& options) {
  if (options.signal.empty()) {
    return supervisor::usual_signal(options.settings.way);
  }
  const std::string name = options.signal.starts_with("SIG") ? options.signal : "SIG" + options.signal;
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGINT, SIGHUP, SIGURG, SIGXCPU}) {
    if (termination::signal_name(signal) == name) {
      return signal;
    }
  }
  throw UsageError("--signal " + options.signal + " is none of TERM, USR1, USR2, INT, HUP, URG, XCPU");
}

/// The command of the run that resumes on another number of ranks.
std::vector<std::string> command_on(int ranks, const std::vector<std::string>& command) {
  auto changed = supervisor::with_ranks(command, ranks);
  if (!changed) {
    throw UsageError(
        "--ranks replaces the number behind -n, -np, --np or --ntasks of mpirun, mpiexec or srun, and there is none in "
        "the command: drill the line that starts the ranks, as in `reprieve drill --replay 5 --ranks 3 -- mpirun -n 4 "
        "./program`");
  }
  return *std::move(changed);
}

supervisor::DrillSettings settings_of(const Options& options) {
  supervisor::DrillSettings settings = options.settings;
  settings.command = options.program;
  settings.signal = signal_of(options);
  if (settings.replay_ranks > 0) {
    settings.replay_command = command_on(settings.replay_ranks, options.program);
  }
  return settings;
}

int run(const Options& options) {
  const DrillReport report{supervisor::run_drill(settings_of(options))};
  print_answer(options.json, to_json(report), [&] { print_text(std::cout, report); });
  return words_of(report.verdict).code;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "drill", "Rehearse a preemption: would my job survive?", kFooter, define, run);
}

}  // namespace reprieve::tool::drill_command
