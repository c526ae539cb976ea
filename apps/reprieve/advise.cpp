// SPDX-License-Identifier: BSD-3-Clause
// reprieve advise [DIR...]

#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "advice.hpp"
#include "command.hpp"
#include "core/event_reader.hpp"
#include "files.hpp"
#include "manager/checkpoint_directory.hpp"
#include "reprieve/error.hpp"

namespace reprieve::tool::advise_command {

namespace {

constexpr const char* kFooter =
    R"(Reads the event logs (events.jsonl) that past runs have left in their checkpoint directories, and says

  how often to save, against failures that come without notice: the interval that loses the least time, from the
  measured cost of a save and the mean time between failures (Young 1974, Daly 2006);
  how long before the end Slurm should give notice: --signal=B:URG@N, from the longest step and the slow saves;
  whether a queue's grace is long enough, for one save or for two (--grace).

The mean time between failures is that of --mtbf; else it is counted from runs that ended without a word; else it is the
shortest that fits with so much time without a failure. Notices are no failures: they lose nothing.

Examples:
  reprieve advise checkpoints
  reprieve advise checkpoints --mtbf 6h --grace 2min          what the site says of its nodes and its partition
  reprieve advise checkpoints --node-mtbf 30d                 how often to take near copies, and to save besides?
  reprieve advise run1 run2 run3 --time-limit 4h              of several runs of one program
  export REPRIEVE_TERMINATION_SAVE_EVERY_S=$(reprieve advise checkpoints --json | jq .checkpoint_interval.interval_s)

Exit codes: 0 done, 1 the grace of --grace is too short or tight, 2 there is nothing to advise from, or wrong usage.)";

struct Options {
  std::vector<std::filesystem::path> directories{"checkpoints"};
  double mtbf_s = 0;
  double node_mtbf_s = 0;
  double grace_s = 0;
  double time_limit_s = 0;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  command.add_option("DIR", options.directories, "Checkpoint directories of one program; default: checkpoints");
  add_duration(command, "--mtbf", options.mtbf_s, "Mean time between failures of the whole job, all its nodes together")
      ->default_str("as measured");
  add_duration(command, "--node-mtbf", options.node_mtbf_s,
               "The same of losses that near copies do not survive: of a node, of power")
      ->default_str("not asked");
  add_duration(command, "--grace", options.grace_s, "Time from the notice to the kill, as the queue has it")
      ->default_str("not asked");
  add_duration(command, "--time-limit", options.time_limit_s, "Time limit of one job")->default_str("not asked");
  command.add_flag("--json", options.json, "Print JSON");
}

std::optional<double> if_positive(double value) { return value > 0 ? std::optional(value) : std::nullopt; }

supervisor::RunHistory read_histories(const Options& options) {
  supervisor::RunHistory history;
  for (const auto& directory : options.directories) {
    require_directory(directory);
    const auto log = directory / manager::kEventLogName;
    if (!std::filesystem::exists(log)) {
      throw UsageError(fmt::format("{} has no event log ({}): the setting checkpoints.event_log writes one",
                                   directory.string(), manager::kEventLogName));
    }
    history.add(supervisor::read_history(core::read_events(log, core::kLongestLog)));
  }
  return history;
}

int run(const Options& options) {
  const Advice advice =
      advise(read_histories(options), {if_positive(options.mtbf_s), if_positive(options.node_mtbf_s),
                                       if_positive(options.grace_s), if_positive(options.time_limit_s)});
  if (options.json) {
    print_json(std::cout, to_json(advice));
  } else {
    print_text(std::cout, advice);
  }
  if (!advice.notice) {
    return kTrouble;
  }
  return advice.grace_is_enough() ? kGood : kBad;
}

}  // namespace

void add(CLI::App& app, int& exit_code) {
  add_command<Options>(app, exit_code, "advise", "How often to save, and how much grace to ask for, from past runs",
                       kFooter, define, run);
}

}  // namespace reprieve::tool::advise_command
