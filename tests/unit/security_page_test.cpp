// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// apps/guide/security.md promises nothing without a test: every claim names one, and the tests that it names are
/// there.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const fs::path kTree = REPRIEVE_SOURCE_DIR;

std::string text_in(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::set<std::string> found_in(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (auto match = std::sregex_iterator(text.begin(), text.end(), pattern); match != std::sregex_iterator(); ++match) {
    found.insert((*match)[1].str() + "." + (*match)[2].str());
  }
  return found;
}

TEST(SecurityPage, NamesTestsThatAreThere) {
  std::set<std::string> tests;
  for (const char* folder : {"tests/unit", "tests/faults"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kTree / folder)) {
      if (entry.path().extension() == ".cpp") {
        tests.merge(found_in(text_in(entry.path()), std::regex(R"(TEST(?:_F|_P)?\((\w+), (\w+)\))")));
      }
    }
  }
  const auto named = found_in(text_in(kTree / "apps/guide/security.md"), std::regex("`(\\w+)\\.([A-Z]\\w+)`"));
  EXPECT_GT(named.size(), 30U);
  for (const std::string& test : named) {
    EXPECT_TRUE(tests.contains(test)) << test;
  }
}

}  // namespace
