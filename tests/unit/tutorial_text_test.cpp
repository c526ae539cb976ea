// SPDX-License-Identifier: BSD-3-Clause
// The code on the page of the tutorial is that of its programs.

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kTutorial = fs::path(REPRIEVE_SOURCE_DIR) / "apps" / "guide" / "tutorial";

/// Without comments and white space, which are set otherwise on the page.
std::string squeezed(const std::string& line) {
  static const std::regex comment(R"((//.*$)|(/\*.*\*/)|(!.*$))");
  std::string result;
  for (const char c : std::regex_replace(line, comment, "")) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      result += c;
    }
  }
  return result;
}

std::string squeezed_file(const fs::path& file) {
  std::ifstream stream(file);
  std::string text;
  for (std::string line; std::getline(stream, line);) {
    text += squeezed(line);
  }
  return text;
}

/// The lines of the code on the page, by language.
std::map<std::string, std::vector<std::string>> code_on(const fs::path& page) {
  std::ifstream stream(page);
  std::map<std::string, std::vector<std::string>> code;
  std::string language;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("```")) {
      language = line.substr(3);
    } else if (!language.empty() && !squeezed(line).empty()) {
      code[language].push_back(squeezed(line));
    }
  }
  return code;
}

TEST(TutorialText, ShowsTheCodeOfThePrograms) {
  const auto code = code_on(kTutorial / "README.md");
  for (const auto& [language, file] :
       std::map<std::string, std::string>{{"cpp", "heat.cpp"}, {"c", "heat.c"}, {"fortran", "heat.f90"}}) {
    const std::string program = squeezed_file(kTutorial / file);
    ASSERT_TRUE(code.contains(language));
    EXPECT_GE(code.at(language).size(), 6U);
    for (const std::string& line : code.at(language)) {
      EXPECT_NE(program.find(line), std::string::npos) << "not in " << file << ": " << line;
    }
  }
}

TEST(TutorialText, ALineThatDiffersIsNoticed) {
  EXPECT_EQ(squeezed("  call f( x )  ! + comment"), "callf(x)");
  EXPECT_EQ(squeezed("f(x); /* + */"), "f(x);");
  EXPECT_EQ(squeezed_file(kTutorial / "heat.c").find("reprieve_no_such_call"), std::string::npos);
}

}  // namespace
