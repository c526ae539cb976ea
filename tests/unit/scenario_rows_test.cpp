// SPDX-License-Identifier: BSD-3-Clause
// The table of tests/scenarios/README.md: every row of the specification has a test that exists; a row that differs on
// purpose is told on coming_from.md, in the words of the table.

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace {

namespace fs = std::filesystem;
using reprieve::test::read_text;

const fs::path kSource = REPRIEVE_SOURCE_DIR;
constexpr int kRows = 47;

/// With one space between words, wherever lines end.
std::string in_one_line(const std::string& text) { return std::regex_replace(text, std::regex(R"(\s+)"), " "); }

struct Row {
  int number = 0;
  std::string here;
  std::string test;
};

std::string trimmed(const std::string& text) { return std::regex_replace(text, std::regex("^ +| +$"), ""); }

std::vector<Row> rows_of(const std::string& page) {
  std::vector<Row> rows;
  std::istringstream stream(page);
  static const std::regex row(R"(^\| (\d+) \|([^|]*)\|([^|]*)\|([^|]*)\|$)");
  for (std::string line; std::getline(stream, line);) {
    if (std::smatch found; std::regex_match(line, found, row)) {
      rows.push_back({std::stoi(found[1]), trimmed(found[3]), trimmed(found[4])});
    }
  }
  return rows;
}

/// "Suite.Name" of every test in C++.
std::set<std::string> all_tests() {
  std::set<std::string> names;
  static const std::regex test(R"(\nTEST(?:_F|_P)?\((\w+), (\w+)\))");
  for (const auto& entry : fs::recursive_directory_iterator(kSource / "tests")) {
    if (entry.path().extension() == ".cpp") {
      const std::string text = read_text(entry.path());
      for (std::sregex_iterator found(text.begin(), text.end(), test); found != std::sregex_iterator(); ++found) {
        names.insert((*found)[1].str() + "." + (*found)[2].str());
      }
    }
  }
  return names;
}

/// What is wrong with a row; empty if nothing is.
std::string fault_of(const Row& row, const std::set<std::string>& tests, const std::string& page) {
  static const std::regex differs(R"(^differs: (.+)$)");
  if (!tests.contains(row.test)) {
    return "there is no test " + row.test;
  }
  if (row.here == "holds") {
    return "";
  }
  std::smatch found;
  if (!std::regex_match(row.here, found, differs)) {
    return "says neither \"holds\" nor \"differs: ...\"";
  }
  return page.find(found[1]) == std::string::npos ? "coming_from.md does not say: " + found[1].str() : "";
}

TEST(ScenarioRows, EachHoldsOrDiffersWithAWord) {
  const auto rows = rows_of(read_text(kSource / "tests/scenarios/README.md"));
  const auto tests = all_tests();
  const std::string page = in_one_line(read_text(kSource / "apps/guide/coming_from.md"));
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kRows));
  for (int i = 0; i < kRows; ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    EXPECT_EQ(row.number, i + 1);
    EXPECT_EQ(fault_of(row, tests, page), "") << "row " << row.number;
  }
}

TEST(ScenarioRows, AFaultIsNoticed) {
  const std::set<std::string> tests{"Suite.Test"};
  EXPECT_EQ(fault_of({1, "holds", "Suite.Test"}, tests, ""), "");
  EXPECT_NE(fault_of({1, "holds", "Suite.Other"}, tests, ""), "");
  EXPECT_NE(fault_of({1, "differs: never told", "Suite.Test"}, tests, "a page"), "");
  EXPECT_NE(fault_of({1, "perhaps", "Suite.Test"}, tests, "a page"), "");
  EXPECT_EQ(rows_of("| 3 | a | holds | Suite.Test |\n").front().test, "Suite.Test");
}

}  // namespace
