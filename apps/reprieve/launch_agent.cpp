// SPDX-License-Identifier: BSD-3-Clause
// reprieve launch-agent --run-dir DIR DAEMON...: how `reprieve run` has mpirun start its daemons on other nodes. Not
// for people.

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "command.hpp"
#include "core/run_record.hpp"
#include "reprieve/error.hpp"
#include "supervisor/child_process.hpp"

namespace reprieve::tool::launch_agent_command {

namespace {

constexpr const char* kFooter =
    R"(Becomes the daemon with SIGTERM, SIGINT and SIGHUP blocked: a scheduler signals all processes of a job, and a daemon
that gets SIGTERM kills its ranks. The ranks start with no signal blocked all the same.)";

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
  if (options.command.empty()) {
    throw UsageError("launch-agent needs the daemon to become");
  }
  for (const auto& [name, value] : {std::pair{core::kRunDirectoryVariable, options.run_directory},
                                    std::pair{core::kDirectoryVariable, options.directory}}) {
    if (!value.empty() && ::setenv(name, value.c_str(), 1) != 0) {
      throw Error(ErrorCode::io, "cannot set a variable of the environment");
    }
  }
  supervisor::block_termination_signals();
  std::vector<char*> arguments;
  for (const std::string& text : options.command) {
    arguments.push_back(const_cast<char*>(text.c_str()));  // NOLINT: as execvp wants it, which changes nothing
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  throw UsageError("cannot start " + options.command.front() + ": " + std::generic_category().message(errno));
}

}  // namespace

void add(CLI::App& app, int& exit_code) {
  add_command<Options>(app, exit_code, "launch-agent", "Start a daemon of mpirun, shielded", kFooter, define, run);
}

}  // namespace reprieve::tool::launch_agent_command
