// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The tree of this project, as tests of its rules look at it.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace reprieve::test {

inline const std::filesystem::path kTree = REPRIEVE_SOURCE_DIR;

/// The files below some folders of the tree that have one of these endings, in order.
inline std::vector<std::filesystem::path> files_below(const std::vector<std::string>& folders,
                                                      const std::set<std::string>& endings) {
  std::vector<std::filesystem::path> files;
  for (const std::string& folder : folders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kTree / folder)) {
      if (entry.is_regular_file() && endings.contains(entry.path().extension().string())) {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

inline std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// What a group of a pattern matches, everywhere in a text.
inline std::vector<std::string> found_in(const std::string& text, const std::regex& pattern, int group = 1) {
  return {std::sregex_token_iterator(text.begin(), text.end(), pattern, group), std::sregex_token_iterator()};
}

/// "Suite.Name" of every test in C++ below some folders.
inline std::set<std::string> tests_below(const std::vector<std::string>& folders) {
  static const std::regex test(R"(\nTEST(?:_F|_P)?\((\w+, \w+)\))");
  std::set<std::string> names;
  for (const auto& file : files_below(folders, {".cpp"})) {
    for (const std::string& name : found_in(read_text(file), test)) {
      names.insert(std::regex_replace(name, std::regex(", "), "."));
    }
  }
  return names;
}

}  // namespace reprieve::test
