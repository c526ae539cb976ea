// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/rank_option.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <regex>
#include <string_view>

#include "supervisor/launcher.hpp"

namespace reprieve::supervisor {

namespace {

template <std::size_t size>
bool is_among(const std::array<std::string_view, size>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// How many words belong to an option besides its name, as far as that can be told: most take one, or none, and then
/// the next word begins with a dash or is the program.
std::size_t most_values_of(const std::string& option) {
  static constexpr std::array<std::string_view, 7> kTwo{"--mca",     "-mca", "--gmca", "--prtemca",
                                                        "--pmixmca", "-env", "-genv"};
  static constexpr std::array<std::string_view, 12> kNone{
      "--oversubscribe", "-oversubscribe",    "--allow-run-as-root", "-q",          "--quiet",  "-v", "--verbose",
      "--tag-output",    "--report-bindings", "--timestamp-output",  "--exclusive", "--overlap"};
  return is_among(kTwo, option) ? 2 : is_among(kNone, option) || option.find('=') != std::string::npos ? 0 : 1;
}

bool is_number(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char each) { return each >= '0' && each <= '9'; });
}

}  // namespace

std::optional<std::vector<std::string>> with_ranks(std::vector<std::string> command, int ranks) {
  static constexpr std::array<std::string_view, 6> kOptions{"-n", "--n", "-np", "--np", "--ntasks", "-ntasks"};
  static const std::regex kInOneWord("(-n|--n=|--np=|--ntasks=)([0-9]+)");
  auto word = std::find_if(command.begin(), command.end(),
                           [](const std::string& each) { return is_launcher(std::filesystem::path(each).filename()); });
  std::size_t values = 0;  // that may still belong to the option before
  for (word += word == command.end() ? 0 : 1; word != command.end(); ++word) {
    std::smatch found;
    if (is_among(kOptions, *word) && word + 1 != command.end() && is_number(*(word + 1))) {
      *(word + 1) = std::to_string(ranks);
      return command;
    }
    if (std::regex_match(*word, found, kInOneWord)) {
      *word = found[1].str() + std::to_string(ranks);
      return command;
    }
    if (word->starts_with('-')) {
      values = most_values_of(*word);
    } else if (values == 0) {
      return std::nullopt;  // the program: what follows is its own
    } else {
      --values;
    }
  }
  return std::nullopt;
}

}  // namespace reprieve::supervisor
