// SPDX-License-Identifier: BSD-3-Clause
// reprieve verify FILE|DIR

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
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
directory, all checkpoints are verified, except those that a living run retires before their turn comes. A restart
does the same by itself and passes over damaged checkpoints.

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

/// All that is asked for. @param take  is given each verdict
void verify_all(const std::filesystem::path& path, const std::function<void(const Verdict&)>& take) {
  if (!std::filesystem::is_directory(path)) {
    require_file(path);
    take(verify(path));
    return;
  }
  bool has_any = false;
  look_at_each(path, [&](const CheckpointFile& checkpoint) {
    const Verdict verdict = verify(checkpoint.path);
    if (!verdict.error.empty() && is_gone(checkpoint.path)) {
      return false;  // it was not damaged: its run has retired it
    }
    has_any = true;
    take(verdict);
    return true;
  });
  if (!has_any) {
    throw UsageError("there is no checkpoint in " + path.string() + "; their names are <prefix>-<number>.h5");
  }
}

int run(const Options& options) {
  int exit_code = kGood;
  Json files = Json::array();
  verify_all(options.path, [&](const Verdict& verdict) {
    exit_code = std::max(exit_code, verdict.exit_code());
    if (options.json) {
      files.push_back(to_json(verdict));
    } else {
      print_text(verdict);
    }
  });
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
