// SPDX-License-Identifier: BSD-3-Clause
// reprieve pin FILE..., reprieve unpin FILE...

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "command.hpp"
#include "core/directory.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "manager/checkpoint_list.hpp"
#include "reprieve/error.hpp"
#include "text.hpp"

namespace reprieve::tool {

namespace pin_command {

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
  add_json(command, options.json);
}

std::string pin_of(const fs::path& file) { return file.filename().string() + std::string(manager::kPinnedSuffix); }

core::Directory place_of(const fs::path& file) {
  return core::Directory::open(file.has_parent_path() ? file.parent_path() : ".");
}

void require_checkpoint_name(const fs::path& file) {
  if (!manager::is_checkpoint_name(file)) {
    throw UsageError(file.string() + " is no checkpoint; their names are <prefix>-<number>.h5");
  }
}

/// The mark comes first: then the run that has the directory leaves the checkpoint alone, or has retired it already.
void pin(const fs::path& file) {
  const core::Directory place = place_of(file);
  place.write_text(pin_of(file), "", place.file_mode(), true);
  if (is_gone(file)) {
    place.remove_file(pin_of(file));
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
    place_of(file).remove_file(pin_of(file));
  }
  return print(options, "unpinned");
}

}  // namespace

void add(const Tool& tool) {
  add_command<Options>(tool, "pin", "Mark checkpoints that nothing removes", kPinFooter, define, run_pin);
}
}  // namespace pin_command

namespace unpin_command {
void add(const Tool& tool) {
  add_command<pin_command::Options>(tool, "unpin", "Take such a mark away", pin_command::kUnpinFooter,
                                    pin_command::define, pin_command::run_unpin);
}
}  // namespace unpin_command

}  // namespace reprieve::tool
