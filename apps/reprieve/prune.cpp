// SPDX-License-Identifier: BSD-3-Clause
// reprieve prune [DIR] --keep N

#include <algorithm>
#include <iostream>

#include "command.hpp"
#include "core/directory.hpp"
#include "core/log.hpp"
#include "core/values.hpp"
#include "files.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/checkpoint_list.hpp"
#include "manager/node_directory.hpp"

namespace reprieve::tool::prune_command {

namespace {

constexpr const char* kFooter =
    R"(Removes all but the newest N checkpoints, with the files that a save function left beside them. The newest
checkpoint whose checksums hold is found first, and the N are counted from there: it always stays. Corrupt ones
newer than it are left for the next restart, which quarantines them. While a run uses the directory, nothing is
removed. What one of the --keep options or `reprieve pin` keeps stays. With --keep-every and --keep-within, what has
no readable time stays too.

Examples:
  reprieve prune checkpoints --keep 2 --dry-run     what would go?
  reprieve prune checkpoints --keep 2
  reprieve prune checkpoints --keep-every 1d --keep-within 7d     all of the last week, and one for each day before
  reprieve prune shared --keep 1 --prefix jobA      of several programs' checkpoints in one directory
  reprieve prune --copies FOLDER                    node-local copies of a run that will not come back: FOLDER as
                                                    `reprieve ls --all-local` prints it

Exit codes: 0 done,)";

struct Options : ChangeOptions {
  std::filesystem::path copies;
  std::uint64_t keep = 0;
  std::chrono::seconds keep_every{0};
  std::chrono::seconds keep_within{0};
};

void define(CLI::App& command, Options& options) {
  CLI::Option* const directory = add_directory(command, options.directory, "Directory of checkpoints");
  CLI::Option* const keep = command.add_option("--keep", options.keep, "Checkpoints to keep, at least 1")
                                ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
  CLI::Option* const prefix = command.add_option("--prefix", options.prefix, kPrefixMeaning);
  CLI::Option* const every =
      add_duration(command, "--keep-every", options.keep_every, "Keep one for each such span of time besides")
          ->default_str("");
  CLI::Option* const within =
      add_duration(command, "--keep-within", options.keep_within, "Keep all that are no older than the newest by this")
          ->default_str("");
  command.add_option("--copies", options.copies, "Remove the node-local copies in this folder instead")
      ->type_name("FOLDER")
      ->excludes(directory, keep, every, within, prefix);
  command.add_flag("--dry-run", options.dry_run, "Only say what would be removed");
}

/// What is to be done.
struct Plan {
  std::vector<CheckpointFile> keep;
  std::vector<CheckpointFile> pinned;
  std::vector<CheckpointFile> remove;
  std::vector<CheckpointFile> corrupt;  ///< newer than the newest valid one, left alone
};

/// Takes the corrupt ones off the end of @p files, which then ends with the newest valid checkpoint.
std::vector<CheckpointFile> split_off_corrupt(std::vector<CheckpointFile>& files, const Options& options) {
  std::vector<CheckpointFile> corrupt;
  while (!files.empty() && !verify_with_progress(files.back().path).empty()) {
    corrupt.insert(corrupt.begin(), files.back());
    files.pop_back();
  }
  if (files.empty()) {
    throw CorruptError("no checkpoint in " + options.directory.string() +
                       " is valid, so none is removed; `reprieve verify` shows what is corrupt");
  }
  return corrupt;
}

/// What is judged by its time must have one.
std::vector<manager::RetentionEntry> entries_of(const std::vector<CheckpointFile>& files, bool needs_time) {
  std::vector<manager::RetentionEntry> entries;
  for (const CheckpointFile& file : files) {
    if (file.is_foreign) {
      continue;  // somebody has put it there on purpose
    }
    try {
      entries.push_back({file.number, needs_time ? time_of(storage::read_metadata(file.path))
                                                 : std::chrono::system_clock::time_point()});
    } catch (const CorruptError& error) {
      core::log::debug("{}", error.what());
    }
  }
  return entries;
}

Plan make_plan(const Options& options) {
  Plan plan;
  std::vector<CheckpointFile> files = checkpoints_meant(options.directory, options.prefix);
  plan.corrupt = split_off_corrupt(files, options);
  const bool needs_time = options.keep_every.count() > 0 || options.keep_within.count() > 0;
  std::vector<manager::RetentionEntry> entries = entries_of(files, needs_time);
  if (options.keep_within.count() > 0 && !entries.empty()) {
    const auto since = core::later(entries.back().time, -options.keep_within);
    std::erase_if(entries,
                  [&](const auto& entry) { return entry.time >= since && entry.number != files.back().number; });
  }
  const manager::RetentionPolicy policy{.max_to_keep = std::max<std::uint64_t>(1, options.keep),
                                        .keep_every = options.keep_every};
  const auto retired = manager::to_retire(entries, policy, files.back().number);
  for (CheckpointFile& file : files) {
    const bool goes = std::ranges::find(retired, file.number) != retired.end();
    (is_pinned(file.path) ? plan.pinned : goes ? plan.remove : plan.keep).push_back(std::move(file));
  }
  return plan;
}

/// A run that lives may retire what was listed.
Plan plan_beside_a_run(const Options& options) {
  constexpr int kMostTries = 20;
  for (int tries = 1;; ++tries) {
    const auto states = states_in(options.directory);
    try {
      return make_plan(options);
    } catch (const StorageError&) {
      if (tries == kMostTries || states_in(options.directory) == states) {
        throw;
      }
    }
  }
}

std::uint64_t total_size(const std::vector<CheckpointFile>& files) {
  std::uint64_t bytes = 0;
  for (const CheckpointFile& file : files) {
    std::error_code gone;
    const std::uintmax_t size = std::filesystem::file_size(file.path, gone);
    bytes += gone ? 0 : size;
  }
  return bytes;
}

void print_freed(std::uint64_t bytes, const Options& options) {
  std::cout << fmt::format("{} {}\n", core::size_text(bytes), options.dry_run ? "would be freed" : "freed");
}

void print_text(const Plan& plan, std::uint64_t freed_bytes, const Options& options) {
  const auto print = [](const char* what, const std::vector<CheckpointFile>& files) {
    for (const CheckpointFile& file : files) {
      std::cout << fmt::format("{:<12}  {}\n", what, core::escaped(file.path.filename().string()));
    }
  };
  print(options.dry_run ? "would remove" : "removed", plan.remove);
  print("kept", plan.keep);
  print("pinned", plan.pinned);
  print("corrupt", plan.corrupt);
  print_freed(freed_bytes, options);
}

Json to_json(const Plan& plan, std::uint64_t freed_bytes, const Options& options) {
  const auto names = [](const std::vector<CheckpointFile>& files) {
    return list_json(files, [](const CheckpointFile& file) { return file.path.string(); });
  };
  return {{"directory", options.directory.string()},
          {"dry_run", options.dry_run},
          {"removed", names(plan.remove)},
          {"kept", names(plan.keep)},
          {"pinned", names(plan.pinned)},
          {"corrupt", names(plan.corrupt)},
          {"freed_bytes", freed_bytes}};
}

int prune_copies(const Options& options) {
  const std::uint64_t bytes = manager::remove_local_folder(options.copies, options.dry_run);
  print_answer(options.json,
               {{"folder", options.copies.string()}, {"dry_run", options.dry_run}, {"freed_bytes", bytes}},
               [&] { print_freed(bytes, options); });
  return kGood;
}

int run(const Options& options) {
  if (!options.copies.empty()) {
    return prune_copies(options);
  }
  require_directory(options.directory);
  if (options.keep == 0 && options.keep_every.count() == 0 && options.keep_within.count() == 0) {
    throw UsageError("say what to keep: --keep N, --keep-every TIME or --keep-within TIME (--help has examples)");
  }
  require_free(options);
  const auto states = states_in(options.directory);
  const Plan plan = options.dry_run ? plan_beside_a_run(options) : make_plan(options);
  const std::uint64_t freed_bytes = total_size(plan.remove);
  if (!options.dry_run) {
    // To verify takes long, and a job that starts meanwhile does not wait for it.
    const auto lock = lock_for_a_moment(options.directory);
    if (states_in(options.directory) != states) {
      throw StorageError(ErrorCode::locked, fmt::format("a run has changed {} meanwhile, so nothing is removed: try "
                                                        "again when it has ended",
                                                        options.directory.string()));
    }
    for (const CheckpointFile& file : plan.remove) {
      manager::CheckpointDirectory(options.directory, file.prefix, true).remove(file.number);
    }
  }
  print_answer(options.json, to_json(plan, freed_bytes, options), [&] { print_text(plan, freed_bytes, options); });
  return kGood;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "prune", "Remove old checkpoints, never the newest valid one", kFooter, define, run);
}

}  // namespace reprieve::tool::prune_command

// reprieve pin FILE..., reprieve unpin FILE...

namespace reprieve::tool::pin_command {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPinFooter =
    R"(Marks checkpoints that stay: neither a run's `max_to_keep` nor `reprieve prune` removes them. The mark is an empty file
beside the checkpoint, <checkpoint>.pinned. A run may be at work meanwhile. `reprieve ls` shows the mark.

Examples:
  reprieve pin checkpoints/ckpt-120.h5
  reprieve pin checkpoints/ckpt-*.h5
  reprieve unpin checkpoints/ckpt-120.h5

Exit codes: 0 done,)";

constexpr const char* kUnpinFooter =
    R"(Takes the mark of `reprieve pin` away. The checkpoint itself stays until a run or `reprieve prune` removes it.

Examples:
  reprieve unpin checkpoints/ckpt-120.h5

Exit codes: 0 done,)";

struct Options {
  std::vector<fs::path> files;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  command.add_option("FILE", options.files, "Checkpoints, <prefix>-<number>.h5")->required();
}

std::string pin_of(const fs::path& file) { return file.filename().string() + std::string(manager::kPinnedSuffix); }

core::Directory directory_of(const fs::path& file) {
  return core::Directory::open(file.has_parent_path() ? file.parent_path() : ".");
}

void require_checkpoint_name(const fs::path& file) {
  if (!manager::is_checkpoint_name(file)) {
    throw UsageError(file.string() + " is no checkpoint; their names are <prefix>-<number>.h5");
  }
}

/// The mark comes first: then the run that has the directory leaves the checkpoint alone, or has retired it already.
void pin(const fs::path& file) {
  const core::Directory directory = directory_of(file);
  directory.write_text(pin_of(file), "", directory.file_mode(), true);
  if (is_gone(file)) {
    directory.remove_file(pin_of(file));
    throw MissingError(file.string() + " is gone: its run has retired it meanwhile");
  }
}

int print(const Options& options, const char* done) {
  print_answer(options.json, {{done, list_json(options.files, [](const fs::path& file) { return file.string(); })}},
               [&] {
                 for (const fs::path& file : options.files) {
                   std::cout << fmt::format("{}  {}\n", done, core::escaped(file.string()));
                 }
               });
  return kGood;
}

int run_pin(const Options& options) {
  for (const fs::path& file : options.files) {
    require_file(file);
    require_checkpoint_name(file);
  }
  std::ranges::for_each(options.files, pin);
  return print(options, "pinned");
}

int run_unpin(const Options& options) {
  for (const fs::path& file : options.files) {
    require_checkpoint_name(file);
    if (!is_pinned(file)) {
      throw UsageError(file.string() + " is not pinned");
    }
  }
  for (const fs::path& file : options.files) {
    directory_of(file).remove_file(pin_of(file));
  }
  return print(options, "unpinned");
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "pin", "Mark checkpoints that nothing removes", kPinFooter, define, run_pin);
  add_command(tool, "unpin", "Take such a mark away", kUnpinFooter, define, run_unpin);
}

}  // namespace reprieve::tool::pin_command
