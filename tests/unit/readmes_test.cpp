// SPDX-License-Identifier: BSD-3-Clause
// The README of each layer, or of each room of a large one, lists the concepts of its folder with the file of each:
// every file that it names is there, and every file that is there is named.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/tree.hpp"

namespace {

namespace fs = std::filesystem;
using reprieve::test::found_in;
using reprieve::test::kTree;
using reprieve::test::lines_of;
using reprieve::test::read_text;
using Words = std::set<std::string>;

/// What stands in backticks.
Words quoted_in(const std::string& text) {
  static const std::regex quoted("`([^`\n]+)`");
  const auto words = found_in(text, quoted);
  return {words.begin(), words.end()};
}

/// What stands in backticks in the first column of the tables that begin with @p heading.
Words first_column(const std::vector<std::string>& lines, const std::string& heading) {
  Words words;
  bool inside = false;
  for (const std::string& line : lines) {
    if (!line.starts_with("|")) {
      inside = false;
    } else if (line.starts_with("| " + heading + " |")) {
      inside = true;
    } else if (inside) {
      words.merge(quoted_in(line.substr(0, line.find('|', 1))));
    }
  }
  return words;
}

/// Of `save.cpp`, `save.*`, `save` and `core/save.hpp`: save.
std::string unit_of(const std::string& name) {
  return fs::path(name.substr(0, name.find('.', name.rfind('/') + 1))).filename();
}

/// The files of a folder by their names without endings; headers and sources of one name are one.
Words units_in(const fs::path& folder) {
  static const Words endings{".cpp", ".hpp", ".c", ".h", ".F90", ".cmake", ".in", ".py"};
  Words units;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && endings.contains(entry.path().extension().string())) {
      units.insert(unit_of(entry.path().filename().string()));
    }
  }
  return units;
}

/// Whether a word in backticks looks like the name of a file of this project.
bool is_file_name(const std::string& word) {
  static const std::regex name(R"([\w./-]+\.(cpp|hpp|c|h|F90|cmake|map|in|md|py|\*))");
  return std::regex_match(word, name);
}

bool is_there(const fs::path& folder, const std::string& word) {
  const std::vector<fs::path> places{folder,        folder / "fortran", kTree,
                                     kTree / "src", kTree / "include",  kTree / "include/reprieve"};
  return std::ranges::any_of(places, [&](const fs::path& place) {
    if (word.ends_with(".*")) {
      const std::string stem = (place / word.substr(0, word.size() - 2)).string();
      return fs::exists(stem + ".cpp") || fs::exists(stem + ".hpp");
    }
    return fs::exists(place / word);
  });
}

std::vector<fs::path> folders_of_src() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::recursive_directory_iterator(kTree / "src")) {
    if (entry.is_directory()) {
      folders.push_back(entry.path());
    }
  }
  return folders;
}

/// That of the layer, for a folder in it too.
fs::path readme_of(const fs::path& folder) {
  return fs::exists(folder / "README.md") ? folder / "README.md" : folder.parent_path() / "README.md";
}

TEST(Readmes, NameFilesThatAreThere) {
  std::size_t count = 0;
  for (const fs::path& folder : folders_of_src()) {
    for (const std::string& word : quoted_in(read_text(readme_of(folder)))) {
      if (is_file_name(word)) {
        EXPECT_TRUE(is_there(folder, word) || is_there(folder.parent_path(), word)) << folder << ": " << word;
        ++count;
      }
    }
    Words units = units_in(folder);
    for (const fs::path& other : {folder / "fortran", readme_of(folder).parent_path()}) {
      units.merge(fs::exists(other) ? units_in(other) : Words());
    }
    for (const std::string& word : first_column(lines_of(readme_of(folder)), "file")) {
      EXPECT_TRUE(units.contains(unit_of(word))) << folder << ": " << word;
      ++count;
    }
  }
  EXPECT_GT(count, 100U);
}

TEST(Readmes, NameEveryFile) {
  for (const fs::path& folder : folders_of_src()) {
    Words named;
    for (const std::string& word : quoted_in(read_text(readme_of(folder)))) {
      named.insert(unit_of(word));
    }
    for (const std::string& unit : units_in(folder)) {
      EXPECT_TRUE(named.contains(unit)) << readme_of(folder) << " does not name " << unit;
    }
  }
}

/// Headers of @p layer that files in @p folder include.
Words headers_used_in(const fs::path& folder, const std::string& layer) {
  const std::regex include("#include \"" + layer + "/([^\"]+)\"");
  Words headers;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    for (const std::string& header : found_in(entry.is_regular_file() ? read_text(entry.path()) : "", include)) {
      headers.insert(header);
    }
  }
  return headers;
}

TEST(Readmes, StorageNamesWhatOthersUseOfIt) {
  Words used = headers_used_in(kTree / "apps/reprieve", "storage");
  for (const auto& entry : fs::directory_iterator(kTree / "src")) {
    if (entry.is_directory() && entry.path().filename() != "storage") {
      used.merge(headers_used_in(entry.path(), "storage"));
    }
  }
  EXPECT_EQ(first_column(lines_of(kTree / "src/storage/README.md"), "header"), used);
}

TEST(Readmes, AnUntruthIsNoticed) {
  const fs::path core = kTree / "src/core";
  EXPECT_TRUE(is_there(core, "error.cpp"));
  EXPECT_TRUE(is_there(core, "error.*"));
  EXPECT_TRUE(is_there(core, "src/core/error.hpp"));
  EXPECT_TRUE(is_there(core, "reprieve/error.hpp"));
  EXPECT_FALSE(is_there(core, "no_such_file.cpp"));
  EXPECT_FALSE(is_there(core, "no_such_file.*"));
  EXPECT_TRUE(is_file_name("a/b.cpp"));
  EXPECT_FALSE(is_file_name("points%x"));
  EXPECT_EQ(unit_of("core/error.hpp"), "error");
  EXPECT_EQ(unit_of("error"), "error");
  EXPECT_TRUE(units_in(core).contains("error"));
  EXPECT_EQ(first_column({"| file | holds |", "| `a`, `b.cpp` | `c` |", "", "| other | x |", "| `d` | |"}, "file"),
            (Words{"a", "b.cpp"}));
}

}  // namespace
