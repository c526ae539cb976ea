// SPDX-License-Identifier: BSD-3-Clause
// reprieve verify FILE|DIR

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "command.hpp"
#include "files.hpp"
#include "progress.hpp"
#include "reprieve/error.hpp"
#include "text.hpp"

namespace reprieve::tool::verify_command {

namespace {

constexpr const char* kFooter =
    R"(Reads every byte and compares it with the checksums that were stored when the checkpoint was written. Of a
directory, all checkpoints are verified. A restart does the same by itself and passes over damaged checkpoints.

Examples:
  reprieve verify checkpoints/ckpt-120.h5
  reprieve verify checkpoints
  reprieve verify checkpoints --json | jq -r '.files[] | select(.sound | not) | .file'

Exit codes: 0 sound, 1 damaged (the variable and the region are named), 2 unreadable or wrong usage.)";

struct Options {
  std::filesystem::path path;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  command.add_option("FILE|DIR", options.path, "A checkpoint, or a directory of checkpoints")->required();
  command.add_flag("--json", options.json, "Print JSON");
}

/// What became of one file.
struct Verdict {
  std::filesystem::path file;
  std::vector<storage::Damage> damages;
  std::string error;  ///< why it could not be read at all; empty otherwise

  [[nodiscard]] int exit_code() const { return !error.empty() ? kTrouble : damages.empty() ? kGood : kBad; }
};

Verdict verify(const std::filesystem::path& file) {
  Verdict verdict{file, {}, {}};
  try {
    Progress progress("verifying " + file.filename().string());
    verdict.damages = storage::verify_file(file, [&](auto done, auto total) { progress.update(done, total); });
  } catch (const Error& error) {
    verdict.error = error.what();
  }
  return verdict;
}

void print_text(const Verdict& verdict) {
  std::cout << verdict.file.string() << ": ";
  if (!verdict.error.empty()) {
    std::cout << "UNREADABLE: " << printable(verdict.error) << '\n';
  } else if (verdict.damages.empty()) {
    std::cout << "sound\n";
  } else {
    std::cout << "DAMAGED in " << count_text(verdict.damages.size(), "place") << '\n';
    for (const storage::Damage& damage : verdict.damages) {
      std::cout << "  " << damage_text(damage) << '\n';
    }
  }
  std::cout << std::flush;
}

Json to_json(const Verdict& verdict) {
  Json json{{"file", verdict.file.string()}, {"sound", verdict.exit_code() == kGood}, {"damages", Json::array()}};
  for (const storage::Damage& damage : verdict.damages) {
    json["damages"].push_back({{"variable", damage.variable}, {"region", damage.region}, {"problem", damage.problem}});
  }
  json["error"] = verdict.error.empty() ? Json() : Json(verdict.error);
  return json;
}

std::vector<std::filesystem::path> files_to_verify(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    require_file(path);
    return {path};
  }
  std::vector<std::filesystem::path> files;
  for (const CheckpointFile& checkpoint : checkpoint_files(path)) {
    files.push_back(checkpoint.path);
  }
  if (files.empty()) {
    throw UsageError("there is no checkpoint in " + path.string() + "; their names are <prefix>-<number>.h5");
  }
  return files;
}

int run(const Options& options) {
  int exit_code = kGood;
  Json files = Json::array();
  for (const auto& file : files_to_verify(options.path)) {
    const Verdict verdict = verify(file);
    exit_code = std::max(exit_code, verdict.exit_code());
    if (options.json) {
      files.push_back(to_json(verdict));
    } else {
      print_text(verdict);
    }
  }
  if (options.json) {
    print_json(std::cout, {{"sound", exit_code == kGood}, {"files", files}});
  }
  return exit_code;
}

}  // namespace

void add(CLI::App& app, int& exit_code) {
  add_command<Options>(app, exit_code, "verify", "Verify every checksum and name what is damaged", kFooter, define,
                       run);
}

}  // namespace reprieve::tool::verify_command
