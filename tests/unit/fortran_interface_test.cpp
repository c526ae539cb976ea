// What C has, Fortran has: every function of reprieve.h, every code, and the same members of what C fills in.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kFortranSource = REPRIEVE_SOURCE_DIR;
const fs::path kModule = kFortranSource / "src" / "bindings" / "fortran";

/// Functions of C that Fortran does without, and why.
const std::map<std::string, std::string> kWithout{};

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string header_of_c() {
  const fs::path headers = kSource / "include" / "reprieve";
  return text_of(headers / "reprieve.h") + text_of(headers / "reprieve_manager.h");
}

std::string without_comments_of_c(const std::string& text) {
  static const std::regex comment(R"(/\*[^*]*\*+([^/*][^*]*\*+)*/)");
  return std::regex_replace(text, comment, "");
}

std::string without_comments_of_fortran(const std::string& text) {
  static const std::regex comment("![^\n]*");
  return std::regex_replace(text, comment, "");
}

/// All that a pattern finds, by what its groups hold.
std::vector<std::smatch> found(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return {std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()};
}

bool has_word(const std::string& text, const std::string& word) {
  const auto is_part = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !is_part(at - 1)) && !is_part(at + word.size())) {
      return true;
    }
  }
  return false;
}

/// The module in its parts.
struct Module {
  std::string declarations;  ///< of the functions of C
  std::string procedures;    ///< what programs call, and what these are made of
  std::string descriptors;   ///< the part in C
};

Module module() {
  Module parts;
  for (const auto& entry : fs::directory_iterator(kModule)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".F90") {
      (name.ends_with("_c.F90") ? parts.declarations : parts.procedures) +=
          without_comments_of_fortran(text_of(entry.path()));
    } else if (name == "descriptors.c") {
      parts.descriptors = without_comments_of_c(text_of(entry.path()));
    }
  }
  return parts;
}

/// The functions of C that the module declares: by their names in C, what the module calls them.
std::map<std::string, std::string> declared(const Module& module) {
  std::map<std::string, std::string> names;
  for (const auto& match :
       found(module.declarations,
             R"((?:function|subroutine)\s+(\w+)\s*\([^)]*\)(?:\s|&)*bind\(c(?:,\s*name='(\w+)')?\))")) {
    names[match[2].matched ? match[2] : match[1]] = match[1];
  }
  return names;
}

/// Functions of the header that the module does not reach.
std::vector<std::string> missing(const std::string& header, const Module& module) {
  const auto names = declared(module);
  std::vector<std::string> result;
  for (const auto& match : found(header, R"(REPRIEVE_EXPORT[^;(]*\b(reprieve_\w+)\()")) {
    const std::string name = match[1];
    const bool is_called = names.contains(name) && has_word(module.procedures, names.at(name));
    if (!is_called && !has_word(module.descriptors, name)) {
      result.push_back(name);
    }
  }
  return result;
}

/// Codes and ways to leave that have another number in Fortran, or none.
std::vector<std::string> other_numbers(const std::string& header, const Module& module) {
  std::vector<std::string> result;
  for (const auto& match : found(header, R"(\b(REPRIEVE_(?:OK|PREEMPTED|ERROR_\w+|EXIT_\w+)) = (\d+))")) {
    std::string name = match[1];
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (!has_word(module.procedures, name + " = " + match[2].str())) {
      result.push_back(name);
    }
  }
  return result;
}

using Names = std::vector<std::string>;

Names members_in_c(const std::string& header, const std::string& type) {
  Names names;
  for (const auto& body : found(header, R"(typedef struct )" + type + R"( \{([^}]*)\})")) {
    const std::string members = body[1];
    for (const auto& member : found(members, R"((\w+);)")) {
      names.push_back(member[1]);
    }
  }
  return names;
}

Names members_in_fortran(const Module& module, const std::string& type) {
  Names names;
  const std::string& text = module.declarations;
  const std::size_t begin = text.find(":: " + type + "\n");
  const std::size_t end = text.find("end type", begin);
  if (begin == std::string::npos || end == std::string::npos) {
    return names;
  }
  const std::string body = text.substr(begin + 2, end - begin - 2);
  for (const auto& member : found(body, R"((\w+) = )")) {
    names.push_back(member[1]);
  }
  return names;
}

TEST(FortranInterface, HasEveryFunctionOfC) {
  const std::string header = without_comments_of_c(header_of_c());
  ASSERT_GT(found(header, "REPRIEVE_EXPORT").size(), 60U);
  for (const std::string& name : missing(header, module())) {
    EXPECT_TRUE(kWithout.contains(name)) << name << " has no counterpart in the Fortran module";
  }
}

TEST(FortranInterface, UsesAllThatItDeclares) {
  const Module parts = module();
  const auto names = declared(parts);
  EXPECT_GT(names.size(), 60U);
  for (const auto& [name, local] : names) {
    EXPECT_TRUE(!name.starts_with("reprieve_") || has_word(parts.procedures, local))
        << name << " is declared, but no procedure calls it";
  }
}

TEST(FortranInterface, HasTheNumbersOfC) {
  const std::string header = header_of_c();
  ASSERT_GT(found(header, "REPRIEVE_(ERROR|EXIT)_\\w+ = ").size(), 15U);
  EXPECT_EQ(other_numbers(header, module()), Names{});
}

TEST(FortranInterface, HasTheMembersOfC) {
  const std::string header = without_comments_of_c(header_of_c());
  const Module parts = module();
  for (const std::string type : {"checkpoint_info", "save_report", "notice"}) {
    const Names in_c = members_in_c(header, "reprieve_" + type);
    EXPECT_GE(in_c.size(), 5U) << type;
    EXPECT_EQ(members_in_fortran(parts, "c_" + type), in_c);
  }
}

TEST(FortranInterface, WhatIsMissingIsNoticed) {
  const Module parts{
      "integer(c_int) function c_one(a, &\n b) &\n bind(c, name='reprieve_one')\n"
      "subroutine reprieve_two(a) bind(c)\nsubroutine reprieve_three(a) bind(c)\n"
      "type, bind(c) :: c_pair\n integer :: b = 0, a = 0\n end type\n",
      "call c_one(1)\n call reprieve_twofold()\n call reprieve_three()\n reprieve_error_io = 4",
      "return reprieve_four(x);"};
  EXPECT_EQ(missing("REPRIEVE_EXPORT int reprieve_one(int a);\nREPRIEVE_EXPORT void reprieve_two(void);\n"
                    "REPRIEVE_EXPORT const char* reprieve_three(void);REPRIEVE_EXPORT int reprieve_four(void);"
                    "REPRIEVE_EXPORT int reprieve_five(void);",
                    parts),
            (Names{"reprieve_two", "reprieve_five"}));
  EXPECT_EQ(other_numbers("REPRIEVE_OK = 0, REPRIEVE_ERROR_IO = 4", parts), Names{"reprieve_ok"});
  EXPECT_EQ(members_in_fortran(parts, "c_pair"), (Names{"b", "a"}));
  EXPECT_EQ(members_in_c("typedef struct pair { const char* a; int b; } pair;", "pair"), (Names{"a", "b"}));
}

}  // namespace
