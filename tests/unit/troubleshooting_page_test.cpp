// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// apps/guide/troubleshooting.md has an entry for every error that the library throws: of each message, the longest
/// part that is always the same must stand there.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// So much of a part identifies a message.
constexpr std::size_t kEnough = 28;
/// Shorter parts could be part of anything; messages without a longer one have only what the program said.
constexpr std::size_t kLeast = 12;

std::string content(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The string literals from @p at on, up to the parenthesis that ends the call; literals side by side are one.
std::vector<std::string> literals_of_call(const std::string& source, std::size_t at) {
  std::vector<std::string> literals;
  bool keeps_running = false;
  for (int depth = 1; at < source.size() && depth > 0; ++at) {
    const char c = source[at];
    if (c == '"') {
      std::string text;
      for (++at; source[at] != '"'; ++at) {
        if (source[at] != '\\') {
          text += source[at];
        } else if (source[++at] != 'n') {
          text += source[at];
        }
      }
      keeps_running ? literals.back() += text : literals.emplace_back(text);
      keeps_running = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      keeps_running = false;
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
  }
  return literals;
}

/// Without what stands in place of values, and without marks at its ends.
std::vector<std::string> fixed_parts(const std::string& literal) {
  static const std::regex placeholder(R"(\{[^{}]*\}|`)");
  std::vector<std::string> parts;
  std::copy_if(std::sregex_token_iterator(literal.begin(), literal.end(), placeholder, -1), {},
               std::back_inserter(parts), [](const std::string& part) { return part.size() >= kLeast; });
  for (std::string& part : parts) {
    part.erase(0, part.find_first_not_of(" :;,.'\""));
    part.erase(part.find_last_not_of(" :;,.'\"") + 1);
  }
  return parts;
}

/// What identifies each error that a source file makes.
std::vector<std::string> messages_in(const std::string& source) {
  static const std::regex made(R"(\b(Usage|Config|Storage|Corrupt|Mismatch|Mpi|Cluster|Unresponsive)Error\()");
  std::vector<std::string> messages;
  for (auto match = std::sregex_iterator(source.begin(), source.end(), made); match != std::sregex_iterator();
       ++match) {
    std::string longest;
    for (const std::string& literal :
         literals_of_call(source, static_cast<std::size_t>(match->position() + match->length()))) {
      for (const std::string& part : fixed_parts(literal)) {
        longest = part.size() > longest.size() ? part : longest;
      }
    }
    if (longest.size() >= kLeast) {
      messages.push_back(longest.substr(0, kEnough));
    }
  }
  return messages;
}

TEST(TroubleshootingPage, FindsThePartsOfAMessage) {
  const std::string source =
      "throw UsageError(fmt::format(\"the ranks make \"\n  \"different calls: {} and {}\", f(1), 2));";
  EXPECT_EQ(messages_in(source),
            std::vector<std::string>{std::string("the ranks make different calls").substr(0, kEnough)});
  EXPECT_TRUE(messages_in("throw StorageError(code, what + \" failed\");").empty());
}

TEST(TroubleshootingPage, HasAnEntryForEveryError) {
  const fs::path tree = REPRIEVE_SOURCE_DIR;
  std::string page = content(tree / "apps/guide/troubleshooting.md");
  std::erase(page, '`');
  std::size_t errors = 0;
  for (const auto& entry : fs::recursive_directory_iterator(tree / "src")) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") {
      continue;
    }
    for (const std::string& message : messages_in(content(entry.path()))) {
      ++errors;
      EXPECT_NE(page.find(message), std::string::npos)
          << "no entry in apps/guide/troubleshooting.md for \"" << message << "\" of " << entry.path();
    }
  }
  EXPECT_GT(errors, 150U);
}

}  // namespace
