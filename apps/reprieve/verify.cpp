// SPDX-License-Identifier: BSD-3-Clause
// reprieve verify [FILE|DIR...]

#include <algorithm>
#include <iostream>

#include "command.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "manager/checkpoint_directory.hpp"

namespace reprieve::tool::verify_command {

namespace {

constexpr const char* kFooter =
    R"(Reads every byte and compares it with the checksums that were stored when the checkpoint was written. Of a
directory, all checkpoints are verified, except those that a living run retires before their turn comes. A restart
does the same by itself and passes over corrupt checkpoints.

Examples:
  reprieve verify checkpoints
  reprieve verify checkpoints/ckpt-120.h5
  reprieve verify run1 run2/ckpt-120.h5
  reprieve verify checkpoints --json | jq -r '.files[] | select(.valid | not) | .file'

Exit codes: 0 all are valid, 1 corrupt (the variable and the region are named),)";

struct Options {
  std::vector<std::filesystem::path> paths;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  add_directory(command, options.paths, "Checkpoints, and directories of checkpoints", "FILE|DIR");
  add_color(command);
}

/// What became of one file.
struct VerifiedFile {
  std::filesystem::path file;
  std::vector<storage::Corruption> corruptions;
  const char* state = "valid";
  std::string error;  ///< why that cannot be known, or why it is no checkpoint at all; empty otherwise

  [[nodiscard]] int exit_code() const { return !error.empty() ? kTrouble : corruptions.empty() ? kGood : kBad; }
};

VerifiedFile verify(const std::filesystem::path& file) {
  if (is_foreign(file)) {
    return {file, {}, "NOT A CHECKPOINT", kForeign};
  }
  VerifiedFile verified{file, {}, "valid", {}};
  try {
    verified.corruptions = verify_with_progress(file);
    verified.state = verified.corruptions.empty() ? "valid" : "CORRUPT";
  } catch (const Error& error) {
    verified.state = "UNREADABLE";
    verified.error = error.what();
  }
  return verified;
}

void print_text(const VerifiedFile& verified) {
  std::cout << core::escaped(verified.file.string()) << ": "
            << toned(verified.exit_code() == kGood ? Tone::good : Tone::bad, verified.state);
  if (!verified.error.empty()) {
    std::cout << ": " << printable(verified.error);
  } else if (!verified.corruptions.empty()) {
    std::cout << " in " << count_text(verified.corruptions.size(), "place");
  }
  std::cout << '\n';
  for (const storage::Corruption& corruption : verified.corruptions) {
    std::cout << "  " << corruption_text(corruption) << '\n';
  }
  std::cout << std::flush;
}

Json to_json(const VerifiedFile& verified) {
  const auto corruptions = list_json(verified.corruptions, [](const storage::Corruption& corruption) -> Json {
    return {{"variable", corruption.variable}, {"region", corruption.region}, {"problem", corruption.problem}};
  });
  return {{"file", verified.file.string()},
          {"valid", verified.exit_code() == kGood},
          {"state", verified.state},
          {"corruptions", corruptions},
          {"problem", verified.error.empty() ? Json() : Json(verified.error)}};
}

/// @param take  is given each verdict
void verify_all(const std::filesystem::path& path, const std::function<void(const VerifiedFile&)>& take) {
  if (!std::filesystem::is_directory(path)) {
    take(verify(path));
    return;
  }
  bool has_any = false;
  for_each_checkpoint(path, [&](const CheckpointFile& checkpoint) {
    const VerifiedFile verified = verify(checkpoint.path);
    if (!verified.error.empty() && is_gone(checkpoint.path)) {
      return false;  // it was not corrupt: its run has retired it
    }
    has_any = true;
    take(verified);
    return true;
  });
  if (!has_any) {
    throw MissingError("there is no checkpoint in " + core::escaped(path.string()) +
                       "; their names are <prefix>-<number>.h5");
  }
}

int run(const Options& options) {
  for (const auto& path : options.paths) {
    if (!std::filesystem::is_directory(path)) {
      require_file(path);
    }
  }
  int exit_code = kGood;
  Json files = Json::array();
  const auto take = [&](const VerifiedFile& verified) {
    exit_code = std::max(exit_code, verified.exit_code());
    if (options.json) {
      files.push_back(to_json(verified));
    } else {
      print_text(verified);
    }
  };
  for (const auto& path : options.paths) {
    verify_all(path, take);
  }
  if (options.json) {
    print_json(std::cout, {{"valid", exit_code == kGood}, {"files", files}});
  }
  return exit_code;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "verify", "Verify every checksum and name what is corrupt", kFooter, define, run);
}

}  // namespace reprieve::tool::verify_command

// reprieve unquarantine [DIR]

namespace reprieve::tool::unquarantine_command {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    R"(Verifies the checkpoints that were quarantined as corrupt (suffix .corrupt), every byte of them, and gives those that
are valid their names back, so that the next start takes them into account again. What is corrupt stays as it is, and
so does what cannot be read. While a run uses the directory, nothing is changed.

Examples:
  reprieve unquarantine checkpoints --dry-run     is any of them valid?
  reprieve unquarantine checkpoints

Exit codes: 0 none is left that was quarantined, 1 some stay,)";

using Options = ChangeOptions;

void define(CLI::App& command, Options& options) {
  add_directory(command, options.directory, "Directory of checkpoints");
  command.add_option("--prefix", options.prefix, kPrefixMeaning);
  command.add_flag("--dry-run", options.dry_run, "Only verify them");
}

/// What became of one of them.
struct Result {
  fs::path file;
  bool is_valid = false;
  std::string text;  ///< the name that it has again, or why it stays
};

/// Verifies one, and gives it its name back if it is valid.
Result unquarantine(const manager::QuarantinedName& name, const Options& options) {
  Result result{options.directory / name.file, false, ""};
  try {
    if (const auto corruption = verify_with_progress(result.file); !corruption.empty()) {
      result.text = corruption_text(corruption.front());
      return result;
    }
    // To verify takes long, and a job that starts meanwhile does not wait for it.
    const auto lock = options.dry_run ? nullptr : lock_for_a_moment(options.directory);
    manager::CheckpointDirectory directory(options.directory, name.prefix, true);
    result.text = directory.file(name.number).filename().string();
    if (fs::exists(fs::symlink_status(directory.file(name.number)))) {
      result.text += " is there already; move one of the two away";
      return result;
    }
    if (!options.dry_run) {
      directory.take_back(name);
    }
    result.is_valid = true;
  } catch (const Error& error) {
    result.text = error.what();
  }
  return result;
}

void print_text(const std::vector<Result>& results, const Options& options) {
  for (const Result& result : results) {
    std::cout << fmt::format("{:<10}  {}: {}\n",
                             !result.is_valid  ? "stays"
                             : options.dry_run ? "valid"
                                               : "taken back",
                             core::escaped(result.file.filename().string()), printable(result.text));
  }
  if (results.empty()) {
    std::cout << "no checkpoint was quarantined\n";
  }
}

Json to_json(const std::vector<Result>& results, const Options& options) {
  const auto list = list_json(results, [](const Result& result) -> Json {
    return {{"file", result.file.string()},
            {"valid", result.is_valid},
            {"name", result.is_valid ? Json(result.text) : Json()},
            {"problem", result.is_valid ? Json() : Json(result.text)}};
  });
  return {{"directory", options.directory.string()}, {"dry_run", options.dry_run}, {"files", list}};
}

int run(const Options& options) {
  require_directory(options.directory);
  require_free(options);
  std::vector<Result> results;
  for (const auto& name : quarantined_names(options.directory, options.prefix)) {
    results.push_back(unquarantine(name, options));
  }
  print_answer(options.json, to_json(results, options), [&] { print_text(results, options); });
  return std::ranges::all_of(results, &Result::is_valid) ? kGood : kBad;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "unquarantine", "Take back checkpoints that were quarantined although they are valid", kFooter,
              define, run);
}

}  // namespace reprieve::tool::unquarantine_command
