// SPDX-License-Identifier: BSD-3-Clause
// reprieve drain [DIR]

#include <unistd.h>

#include <iostream>
#include <set>

#include "command.hpp"
#include "core/directory.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "manager/local_finish.hpp"

namespace reprieve::tool::drain_command {

namespace {

using manager::DrainResult;

constexpr const char* kFooter =
    R"(After a crash, makes a checkpoint of the newest node-local copy of DIR that is complete: the state in the memory of the
nodes, which is gone when the job gives the nodes back. The next start of the program does the same if it runs on the
same nodes; this is for a batch script, whose job ends now.

Where the job had several nodes, run it once on each of them. What one node has is flushed into DIR, and the last of
them completes the checkpoint. If a node is gone, its parts are missing, and the newest checkpoint counts. Nodes that
came before the last one keep their copies in memory until it is run there once more.

Examples:
  reprieve drain checkpoints --dry-run                          what would become of it?
  reprieve drain checkpoints
  srun --ntasks-per-node=1 --kill-on-bad-exit=0 reprieve drain checkpoints      on all nodes of a Slurm job

Exit codes: 0 a checkpoint was made, or there is nothing newer than the checkpoints, 1 not complete: parts of other
nodes are missing, or a part is corrupt,)";

struct Options : ChangeOptions {
  std::filesystem::path local;
  std::chrono::milliseconds wait{60'000};
};

void define(CLI::App& command, Options& options) {
  add_directory(command, options.directory, "Directory of checkpoints");
  command.add_option("--local", options.local,
                     "Where the copies lie [checkpoints.local_directory of the last run, or /dev/shm]");
  command.add_option("--prefix", options.prefix, "Only copies of the program whose checkpoints' names begin so");
  add_duration(command, "--wait", options.wait,
               "How long to wait while another node, or a run that ends, has the directory [60s]");
  command.add_flag("--dry-run", options.dry_run, "Only say what would be done");
}

std::string flushed_text(std::size_t flushed, bool dry_run) {
  if (dry_run) {
    return "What this node has would be flushed into the directory";
  }
  return fmt::format("{}: run this on the other nodes",
                     flushed > 0 ? "This node has flushed " + count_text(flushed, "part") + " into the directory"
                                 : "What this node has is in the directory already, if it has any");
}

std::string text_of(const DrainResult& result, bool dry_run) {
  if (result.kind != DrainResult::Kind::completed && !result.corrupt.empty()) {
    return "no node-local copy whose parts are all here and valid is newer than the checkpoints";
  }
  switch (result.kind) {
    case DrainResult::Kind::nothing:
      return "no node-local copy is newer than the checkpoints";
    case DrainResult::Kind::completed:
      return fmt::format("the node-local copy at step {} {} {}", result.copy->step(),
                         dry_run ? "would become" : "has become", core::escaped(result.file.string()));
    case DrainResult::Kind::incomplete:
      return fmt::format("{}. {}", result.why_incomplete, flushed_text(result.flushed, dry_run));
  }
  return "";
}

Json to_json(const std::string& prefix, const DrainResult& result) {
  Json json{{"prefix", prefix},
            {"result", name_of(result.kind, {"nothing", "completed", "incomplete"})},
            {"missing_ranks", result.missing},
            {"flushed_parts", result.flushed},
            {"corrupt", result.corrupt}};
  if (result.copy) {
    json["step"] = result.copy->step();
    json["number"] = result.copy->number;
    json["ranks"] = result.copy->ranks;
  }
  json["file"] = result.file.empty() ? Json() : Json(result.file.string());
  return json;
}

DrainResult drain(const Options& options, const std::string& prefix) {
  manager::CheckpointDirectory checkpoints(options.directory, prefix, true);
  return manager::drain(checkpoints, {options.local, prefix, this_process(), options.wait, options.dry_run});
}

/// Node-local copies are looked for below the name of the user who asks.
void require_own(const std::filesystem::path& directory) {
  const auto owner = core::Directory::open(directory).status().st_uid;
  if (owner != ::geteuid()) {
    throw UsageError(fmt::format(
        "{} belongs to the user {}, and this is the user {}, who sees no node-local copies of others: run it as "
        "the owner, in an epilog of Slurm with `runuser -u \"$SLURM_JOB_USER\" -- reprieve drain`",
        directory.string(), owner, ::geteuid()));
  }
}

int run(const Options& asked) {
  require_directory(asked.directory);
  Options options = asked;
  if (options.local.empty()) {
    options.local = local_directory_of(logged_status(options.directory)).value_or("/dev/shm");
  }
  require_directory(options.local);
  require_own(options.directory);
  std::set<std::string> prefixes{options.prefix};
  if (options.prefix.empty()) {
    prefixes =
        manager::drainable_prefixes(manager::CheckpointDirectory(options.directory, "ckpt", true), options.local);
  }
  Json copies = Json::array();
  int exit_code = kGood;
  for (const std::string& prefix : prefixes) {
    const DrainResult result = drain(options, prefix);
    exit_code = result.kind == DrainResult::Kind::incomplete || !result.corrupt.empty() ? int{kBad} : exit_code;
    copies.push_back(to_json(prefix, result));
    if (!options.json) {
      for (const std::string& part : result.corrupt) {
        std::cout << "CORRUPT " << printable(part) << '\n';
      }
      std::cout << (prefixes.size() > 1 ? printable(prefix) + ": " : "") << text_of(result, options.dry_run) << '\n';
    }
  }
  if (options.json) {
    print_json(std::cout,
               {{"directory", options.directory.string()}, {"dry_run", options.dry_run}, {"copies", copies}});
  } else if (prefixes.empty()) {
    std::cout << text_of({}, options.dry_run) << '\n';
  }
  return exit_code;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "drain", "Make a checkpoint of what lies in the memory of the nodes", kFooter, define, run);
}

}  // namespace reprieve::tool::drain_command
