// SPDX-License-Identifier: BSD-3-Clause
// What C has, Fortran has: every function of reprieve.h is called by the module, and every member of what C fills in is
// read. That the declarations are those of C needs no test: src/bindings/fortran/c_interface.cmake makes them from the
// headers.

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "support/tree.hpp"

namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

using reprieve::test::found_in;
using reprieve::test::kTree;

std::string code_of(const fs::path& file) {
  const std::regex comment(file.extension() == ".F90" ? "![^\n]*" : R"(/\*[^*]*\*+([^/*][^*]*\*+)*/)");
  return std::regex_replace(reprieve::test::read_text(file), comment, "");
}

Names found(const std::string& text, const std::string& pattern) { return found_in(text, std::regex(pattern)); }

bool has(const std::string& text, const std::string& pattern) { return std::regex_search(text, std::regex(pattern)); }

/// Functions and members of a header that neither the module nor its part in C uses.
/// @param module  its procedures, and the names of the functions for which procedures are made
Names missing(const std::string& header, const std::string& module, const std::string& descriptors) {
  Names result;
  for (const std::string& function : found(header, R"(REPRIEVE_EXPORT[^;(]*\breprieve_(\w+)\()")) {
    if (function.ends_with("_at") || function == "walk_list") {
      continue;  // the address of a pointer is for C alone: a pointer of Fortran is more than an address
    }
    if (!has(module, R"(\bc_)" + function + R"(\b)") && !has(descriptors, R"(\breprieve_)" + function + R"(\()")) {
      result.push_back(function);
    }
  }
  for (const std::string& members : found(header, R"(struct reprieve_\w+ \{([^}]*)\})")) {
    for (const std::string& member : found(members, R"((\w+);)")) {
      if (!has(module, "\\bc%" + member + "\\b")) {
        result.push_back(member);
      }
    }
  }
  return result;
}

TEST(FortranInterface, HasAllOfC) {
  const fs::path headers = kTree / "include" / "reprieve";
  const std::string header = code_of(headers / "reprieve.h") + code_of(headers / "reprieve_manager.h");
  const fs::path bindings = kTree / "src" / "bindings" / "fortran";
  std::string module;
  for (const auto& entry : fs::directory_iterator(bindings)) {
    module += entry.path().extension() == ".F90" ? code_of(entry.path()) : "";
  }
  const Names calls = found(code_of(bindings / "c_interface.cmake"), R"(set\(calls([^)]*)\))");
  ASSERT_EQ(calls.size(), 1U);
  module += std::regex_replace(calls.front(), std::regex("\\s+"), " c_");
  ASSERT_GT(found(header, "(REPRIEVE_EXPORT)").size(), 60U);
  ASSERT_GE(found(header, R"((struct reprieve_\w+ \{))").size(), 3U);
  EXPECT_EQ(missing(header, module, code_of(bindings / "descriptors.c")), Names{});
}

TEST(FortranInterface, WhatIsMissingIsNoticed) {
  const std::string header =
      "REPRIEVE_EXPORT int reprieve_one(int a);\nREPRIEVE_EXPORT void reprieve_two(void);\n"
      "REPRIEVE_EXPORT const char* reprieve_three(void);REPRIEVE_EXPORT int reprieve_four(void);"
      "REPRIEVE_EXPORT int reprieve_five_at(const void* pointer);"
      "typedef struct reprieve_pair { const char* a; int b; } reprieve_pair;";
  EXPECT_EQ(
      missing(header, "call reprieve_finish(c_one(1))\n x = c_twofold() + c_three() + c%a + c%bb", "reprieve_four(x);"),
      (Names{"two", "b"}));
}

}  // namespace
