// SPDX-License-Identifier: BSD-3-Clause
// The command line tool: looks after checkpoints, and after the runs that write them. It never starts MPI itself.

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"
#include "core/directory.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/setting.hpp"
#include "files.hpp"
#include "reprieve/error.hpp"
#include "reprieve/version_details.hpp"
#include "text.hpp"

namespace {

constexpr const char* kFooter = R"(Examples:
  reprieve status                               what runs here, how far is it, what would be lost now?
  reprieve log checkpoints --follow             what happens, line by line
  reprieve save checkpoints --wait              ask the run for a checkpoint now
  reprieve stop checkpoints --wait              ask the run to save and to end
  reprieve report checkpoints                   what became of it? a page: starts, lost work, saves, notices
  reprieve ls checkpoints                       which checkpoints are there?
  reprieve show checkpoints/ckpt-120.h5         what is in it?
  reprieve export FILE temperature -o t.npy     the values of a variable for NumPy, or as .csv
  reprieve verify checkpoints                   is every byte of every checkpoint as it was written?
  reprieve diff a/ckpt-120.h5 b/ckpt-120.h5     did two runs come to the same state?
  reprieve prune checkpoints --keep 2           make room
  reprieve pin checkpoints/ckpt-120.h5          never remove this one
  reprieve rewind checkpoints --to 120          let the next launch resume at an earlier step
  reprieve drain checkpoints                    after a crash: keep what lies in the memory of the nodes
  reprieve xdmf checkpoints                     let ParaView open them
  reprieve run -- mpirun -n 4 ./program         a run that saves itself before it is killed
  reprieve drill -- mpirun -n 4 ./program       would my job survive a preemption? a dry run with the real thing
  reprieve doctor checkpoints                   is this machine fit for it?
  reprieve advise checkpoints                   how often to save, and how long before the end to give notice
  reprieve sbatch-template                      a batch script for Slurm

Every subcommand has a --help with more examples, and --json for scripts.
Exit codes: 0 all is well, 1 a check has failed: corrupt (verify), different (diff), not safe (drill, doctor, advise),
)";

/// Takes what stands behind `--` off the command line of a subcommand that runs a program. CLI11 would change it: it
/// reads "[a,b]" as two words.
std::vector<std::string> take_program(int& argc, char** argv) {
  char** const end = argv + argc;
  char** const dashes = std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
  const std::string_view name = argc < 2 ? "" : argv[1];
  if ((name != "run" && name != "drill") || dashes == end) {
    return {};
  }
  argc = static_cast<int>(dashes - argv);
  return {dashes + 1, end};
}

/// Throws UsageError, with the nearest command, if the first word is no command and no option.
void require_command(const CLI::App& app, int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  if (word.empty() || word.starts_with('-') || std::ranges::find(names, word) != names.end()) {
    return;
  }
  const auto meant = reprieve::core::nearest(word, names);
  throw reprieve::UsageError("there is no command \"" + word + "\"" +
                             (meant ? "; did you mean \"" + *meant + "\"?" : "") +
                             " `reprieve --help` lists them all.");
}

bool is_run(int argc, char** argv) { return argc > 1 && std::string_view(argv[1]) == "run"; }

/// `run` has the codes of its program: its own errors are all 2.
reprieve::tool::ExitCode code_of(const std::exception& error, bool is_run) {
  using namespace reprieve::tool;
  const auto* known = dynamic_cast<const reprieve::Error*>(&error);
  if (is_run || known == nullptr) {
    return kTrouble;
  }
  return dynamic_cast<const MissingError*>(known) != nullptr ? kMissing
         : known->code() == reprieve::ErrorCode::locked      ? kLocked
         : known->code() == reprieve::ErrorCode::corrupt     ? kCorrupt
                                                             : kTrouble;
}

/// If --json stands among the words of the tool itself: on standard output, where a program expects an answer; of `run`
/// where its events go, as one line.
void print_error_if_json(const std::string& message, int code, int argc, char** argv) {
  const auto end = std::find(argv, argv + argc, std::string_view("--"));
  if (std::find(argv, end, std::string_view("--json")) == end || std::string_view(argv[1]) == "launch-agent") {
    return;
  }
  using reprieve::tool::Json;
  const std::string in_message = reprieve::core::message_code_in(message);
  const Json message_code = in_message.empty() ? Json() : Json(in_message);
  const Json error = {{"error", {{"message", message}, {"message_code", message_code}, {"exit_code", code}}}};
  if (is_run(argc, argv)) {
    reprieve::tool::print_json(std::cerr, error, -1);
  } else {
    reprieve::tool::print_json(std::cout, error);
  }
}

/// On a terminal, at its width; elsewhere as it is, for man pages and for completion in the shells.
void print_wrapped(std::ostream& stream, int descriptor, const std::string& text) {
  constexpr std::size_t kLeastWidth = 80;
  winsize size{};
  const bool is_terminal = ::isatty(descriptor) == 1 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  stream << (is_terminal ? reprieve::tool::wrapped(text, std::max<std::size_t>(size.ws_col, kLeastWidth)) : text)
         << std::flush;
}

int parse_and_run(int argc, char** argv) {
  using namespace reprieve::tool;
  CLI::App app("Looks after checkpoints, and after the runs that write them.", "reprieve");
  const std::string version = to_text(reprieve::core::built_details());
  app.set_version_flag("--version", version.substr(0, version.size() - 1));  // CLI11 ends the line
  app.require_subcommand(1);
  app.footer(std::string(kFooter) + kOtherExitCodes + "\n`run` has other codes, see its --help.");
  int exit_code = kGood;
  const std::vector<std::string> program = take_program(argc, argv);
  for (const auto add : {status_command::add,       log_command::add,          request_command::add,
                         report_command::add,       ls_command::add,           show_command::add,
                         export_command::add,       verify_command::add,       diff_command::add,
                         prune_command::add,        pin_command::add,          rewind_command::add,
                         unquarantine_command::add, drain_command::add,        xdmf_command::add,
                         run_command::add,          drill_command::add,        doctor_command::add,
                         advise_command::add,       launch_agent_command::add, sbatch_template_command::add}) {
    add({app, exit_code, program});
  }
  if (argc == 1) {
    print_wrapped(std::cerr, STDERR_FILENO, app.help());
    return kTrouble;
  }
  require_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has exit codes of its own.
    std::ostringstream out;
    std::ostringstream messages;
    const bool was_asked_for = app.exit(error, out, messages) == 0;
    print_wrapped(std::cout, STDOUT_FILENO, out.str());
    print_wrapped(std::cerr, STDERR_FILENO, messages.str());
    if (was_asked_for) {
      return kGood;
    }
    print_error_if_json(error.what(), kTrouble, argc, argv);
    return kTrouble;
  }
  if (!std::cout.flush()) {
    throw reprieve::StorageError(reprieve::ErrorCode::io, "cannot write to standard output");
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  const reprieve::core::StandardDescriptors taken;
  try {
    reprieve::core::log::set_level("warning");
    return parse_and_run(argc, argv);
  } catch (const std::exception& error) {
    std::string text;
    std::istringstream lines(error.what());
    for (std::string line; std::getline(lines, line);) {
      text += reprieve::core::escaped(line) + '\n';  // it may hold a name of somebody else's
    }
    const int code = code_of(error, is_run(argc, argv));
    print_error_if_json(error.what(), code, argc, argv);
    std::cerr << "reprieve: " << text;
    return code;
  }
}
