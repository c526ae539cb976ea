// The command line tool: looks at checkpoints and looks after them. Needs no MPI launcher and never starts MPI.

#include <CLI/CLI.hpp>
#include <iostream>

#include "command.hpp"
#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "reprieve/version.hpp"

namespace {

constexpr const char* kFooter = R"(Examples:
  reprieve ls checkpoints                       what is there, and is it sound?
  reprieve show checkpoints/ckpt-120.h5         what is in it?
  reprieve verify checkpoints                   is every byte of every checkpoint as it was written?
  reprieve diff a/ckpt-120.h5 b/ckpt-120.h5     did two runs come to the same state?
  reprieve prune checkpoints --keep 2           make room

Every subcommand has a --help with more examples, and --json for scripts.
Exit codes: 0 all is well, 1 damaged or different, 2 wrong usage or unreadable.)";

int parse_and_run(int argc, char** argv) {
  using namespace reprieve::tool;
  CLI::App app("Shows, verifies, compares and removes checkpoints. Needs no MPI launcher.", "reprieve");
  app.set_version_flag("--version", "reprieve " REPRIEVE_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  int exit_code = kGood;
  add_ls(app, exit_code);
  add_show(app, exit_code);
  add_verify(app, exit_code);
  add_diff(app, exit_code);
  add_prune(app, exit_code);
  add_run(app, exit_code);
  add_launch_agent(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 prints the help or the message, and has exit codes of its own.
    return app.exit(error) == 0 ? kGood : kTrouble;
  }
  if (!std::cout.flush()) {
    throw reprieve::StorageError(reprieve::ErrorCode::io, "cannot write to standard output");
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    reprieve::core::log::set_level("warning");
    return parse_and_run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "reprieve: " << error.what() << '\n';
    return reprieve::tool::kTrouble;
  }
}
