// SPDX-License-Identifier: BSD-3-Clause
// reprieve rewind [DIR] --to STEP

#include <algorithm>
#include <iostream>

#include "command.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "manager/checkpoint_directory.hpp"

namespace reprieve::tool::rewind_command {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    R"(Lets the next launch resume at an earlier step: checkpoints that are newer get the suffix .rewound (.rewound.2 the
second time), and no launch takes them, counts them or removes them. The checkpoint of STEP is verified first. Node-local
copies that are newer are not resumed from either. --undo takes back the last rewind; node-local copies count again if no
launch has come in between. While a run uses the directory, nothing is changed.

Examples:
  reprieve ls checkpoints                         which steps are there?
  reprieve rewind checkpoints --to 120 --dry-run
  reprieve rewind checkpoints --to 120
  reprieve rewind checkpoints --undo
  rm -r checkpoints/*.rewound                     they are not wanted any more

Exit codes: 0 done,)";

struct Options : ChangeOptions {
  std::optional<std::uint64_t> step;
  bool undo = false;
};

void define(CLI::App& command, Options& options) {
  add_directory(command, options.directory, "Directory of checkpoints");
  CLI::Option* const step = command.add_option("--to", options.step, "Resume at this step, as `reprieve ls` shows it")
                                ->check(not_negative())
                                ->type_name("STEP");
  command.add_flag("--undo", options.undo, "Take back the last rewind")->excludes(step);
  command.add_option("--prefix", options.prefix, kPrefixMeaning);
  command.add_flag("--dry-run", options.dry_run, "Only say what would be done");
}

/// What becomes of the directory.
struct Result {
  std::vector<std::string> moved;  ///< names of checkpoints, as they are called after a rewind
  std::string newest;              ///< from which the next launch resumes
  std::uint64_t step = 0;
};

/// Of a program without a handler the number counts.
std::uint64_t step_of(const CheckpointFile& file) {
  return storage::read_metadata(file.path).run_calls.value_or(file.number);
}

/// The newest of that step. @param files  oldest first
std::size_t find_step(const std::vector<CheckpointFile>& files, std::uint64_t wanted) {
  std::vector<std::uint64_t> steps;
  for (std::size_t i = files.size(); i-- > 0;) {
    try {
      steps.push_back(step_of(files[i]));
      if (steps.back() == wanted) {
        return i;
      }
    } catch (const CorruptError& error) {
      core::log::debug("{}", error.what());  // it has no step
    }
  }
  throw MissingError(fmt::format("there is no checkpoint of step {}; there are those of steps {}", wanted,
                                 fmt::join(steps.rbegin(), steps.rend(), ", ")));
}

/// The rewound checkpoints of the prefix that is meant, oldest first. @throws UsageError if there are several kinds
std::vector<manager::QuarantinedName> rewound(const Options& options) {
  std::vector<manager::QuarantinedName> names =
      quarantined_names(options.directory, options.prefix, manager::kRewoundSuffix);
  for (const auto& name : names) {
    if (name.prefix != names.front().prefix) {
      throw UsageError(fmt::format("checkpoints of several kinds were rewound; choose one with --prefix: {}, {}",
                                   names.front().prefix, name.prefix));
    }
  }
  std::ranges::sort(names, {}, &manager::QuarantinedName::number);
  return names;
}

/// How often one was rewound before.
std::uint64_t rewinds_so_far(const std::vector<manager::QuarantinedName>& names) {
  return names.empty() ? 0 : std::ranges::max(names, {}, &manager::QuarantinedName::count).count;
}

/// Node-local copies are taken only of the launch that the directory remembers. Under another name it is none of
/// theirs.
void mark_launch(const fs::path& directory, const std::string& prefix, bool is_rewound) {
  const std::string mark = "rewound:";
  const core::Directory opened = core::Directory::open(directory);
  auto record = manager::read_directory_record(opened);
  if (!record || !record->launches.contains(prefix)) {
    return;
  }
  for (std::string* launch : {&record->launches[prefix].launch, &record->launches[prefix].from_launch}) {
    const bool is_marked = launch->starts_with(mark);
    if (is_rewound && !is_marked && !launch->empty()) {
      *launch = mark + *launch;
    } else if (!is_rewound && is_marked) {
      *launch = launch->substr(mark.size());
    }
  }
  manager::write_directory_record(opened, *record, true);
}

/// The oldest is moved first: until the last one has its new name, the next launch resumes where it would have.
void move_away(const Options& options, const std::vector<CheckpointFile>& newer, const std::string& suffix) {
  mark_launch(options.directory, options.prefix, true);
  manager::CheckpointDirectory directory(options.directory, options.prefix, true);
  for (const CheckpointFile& file : newer) {
    static_cast<void>(directory.quarantine_as(file.number, suffix));
  }
}

Result rewind(const Options& asked) {
  Options options = asked;
  const auto states = states_in(options.directory);
  std::vector<CheckpointFile> files = checkpoints_meant(options.directory, options.prefix);
  const std::size_t target = find_step(files, *options.step);
  options.prefix = files[target].prefix;
  const std::uint64_t count = rewinds_so_far(rewound(options)) + 1;
  const std::string suffix = std::string(manager::kRewoundSuffix) + (count > 1 ? "." + std::to_string(count) : "");
  Result result{{}, files[target].path.filename().string(), *options.step};
  files.erase(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(target) + 1);
  for (const CheckpointFile& file : files) {
    result.moved.push_back(file.path.filename().string() + suffix);
  }
  if (const auto corruption = verify_with_progress(options.directory / result.newest); !corruption.empty()) {
    throw CorruptError(
        fmt::format("{} is corrupt, so nothing is changed: {}", result.newest, corruption_text(corruption.front())));
  }
  if (!options.dry_run) {
    // To verify takes long, and a job that starts meanwhile does not wait for it.
    const auto lock = lock_for_a_moment(options.directory);
    if (states_in(options.directory) != states) {
      throw StorageError(ErrorCode::locked, "a run has changed the directory meanwhile, so nothing is changed");
    }
    move_away(options, files, suffix);
  }
  return result;
}

Result undo(const Options& options) {
  std::vector<manager::QuarantinedName> names = rewound(options);
  const std::uint64_t last = rewinds_so_far(names);
  std::erase_if(names, [&](const auto& name) { return name.count != last; });
  const std::string prefix = names.empty() ? options.prefix.empty() ? "ckpt" : options.prefix : names.front().prefix;
  manager::CheckpointDirectory directory(options.directory, prefix, true);
  Result result;
  for (const auto& name : names) {
    if (fs::exists(fs::symlink_status(directory.file(name.number)))) {
      throw UsageError(
          fmt::format("nothing is taken back: {} was saved after the rewind. To resume from {}, move the "
                      "newer checkpoints away first",
                      directory.file(name.number).string(), name.file));
    }
    result.moved.push_back(name.file);
  }
  if (!options.dry_run) {
    const auto lock = lock_for_a_moment(options.directory);
    std::for_each(names.rbegin(), names.rend(), [&](const auto& name) { directory.take_back(name); });
    mark_launch(options.directory, prefix, false);
    const CheckpointFile newest = checkpoints_meant(options.directory, prefix).back();
    result.newest = newest.path.filename().string();
    result.step = step_of(newest);
  }
  return result;
}

void print_text(const Result& result, const Options& options) {
  for (const std::string& name : result.moved) {
    std::cout << fmt::format("{}{}  {}\n", options.dry_run ? "would be " : "", options.undo ? "taken back" : "rewound",
                             core::escaped(name));
  }
  if (options.undo && result.moved.empty()) {
    std::cout << "no checkpoint was rewound\n";
  }
  if (!result.newest.empty()) {
    std::cout << fmt::format("the next launch {} at step {}, from {}\n", options.dry_run ? "would resume" : "resumes",
                             result.step, core::escaped(result.newest));
  }
}

int run(const Options& options) {
  require_directory(options.directory);
  if (!options.undo && !options.step) {
    throw UsageError("give the step: reprieve rewind DIR --to STEP, or --undo");
  }
  require_free(options);
  const Result result = options.undo ? undo(options) : rewind(options);
  print_answer(options.json,
               {{"directory", options.directory.string()},
                {"dry_run", options.dry_run},
                {options.undo ? "taken_back" : "rewound", result.moved},
                {"file", result.newest.empty() ? Json() : Json(result.newest)},
                {"step", result.newest.empty() ? Json() : Json(result.step)}},
               [&] { print_text(result, options); });
  return kGood;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "rewind", "Let the next launch resume at an earlier step", kFooter, define, run);
}

}  // namespace reprieve::tool::rewind_command
