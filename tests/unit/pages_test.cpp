// SPDX-License-Identifier: BSD-3-Clause
// Every link on a page of the tree leads somewhere, every page that is named in code or in text is there, and the tour
// (apps/guide/architecture.md) names functions that are in the files to which it links. Sentences of the guide are
// short.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/temporary_directory.hpp"

namespace {

namespace fs = std::filesystem;

const fs::path kRootOfPages = REPRIEVE_SOURCE_DIR;
const std::vector<std::string> kFoldersWithPages{"src", "apps", "tests", "configs", "slurm", "include"};

std::vector<fs::path> files_with_ending(const std::set<std::string>& endings) {
  std::vector<fs::path> files;
  const auto take = [&](const fs::directory_entry& entry) {
    if (entry.is_regular_file() && endings.contains(entry.path().extension().string())) {
      files.push_back(entry.path());
    }
  };
  for (const auto& entry : fs::directory_iterator(kRootOfPages)) {
    take(entry);
  }
  for (const std::string& folder : kFoldersWithPages) {
    for (const auto& entry : fs::recursive_directory_iterator(kRootOfPages / folder)) {
      take(entry);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Without blocks of code: what looks like a link or a heading there is none.
std::vector<std::string> prose_lines(const fs::path& page) {
  std::ifstream stream(page);
  std::vector<std::string> lines;
  bool is_code_block = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.find("```") < 4) {  // may be indented, in a list
      is_code_block = !is_code_block;
    } else if (!is_code_block) {
      lines.push_back(line);
    }
  }
  return lines;
}

/// The targets of all links, as they are written.
std::vector<std::string> links_on(const fs::path& page) {
  static const std::regex code_with_brackets("`[^`]*\\]\\([^`]*`");  // `a[i](x)` is no link
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  std::vector<std::string> links;
  for (const std::string& line : prose_lines(page)) {
    const std::string text = std::regex_replace(line, code_with_brackets, "");
    for (std::sregex_iterator found(text.begin(), text.end(), link); found != std::sregex_iterator(); ++found) {
      links.push_back((*found)[1]);
    }
  }
  return links;
}

/// What stands behind the # in a link to a heading: in lower case, with hyphens for spaces, without punctuation.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_') {
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (c == ' ') {
      anchor += '-';
    }
  }
  return anchor;
}

/// The second heading of the same words gets a number.
std::set<std::string> anchors_on(const fs::path& page) {
  static const std::regex heading("^#+ +(.*)$");
  std::set<std::string> anchors;
  std::map<std::string, int> seen;
  for (const std::string& line : prose_lines(page)) {
    if (std::smatch found; std::regex_match(line, found, heading)) {
      const std::string anchor = anchor_of(found[1]);
      const int before = seen[anchor]++;
      anchors.insert(before == 0 ? anchor : anchor + "-" + std::to_string(before));
    }
  }
  return anchors;
}

/// What is wrong with a link on a page; empty if nothing is. Links to other sites are not followed.
std::string fault_of_link(const fs::path& page, const std::string& link) {
  static const std::regex elsewhere("^[a-z]+:.*");
  if (std::regex_match(link, elsewhere)) {
    return "";
  }
  const std::size_t mark = link.find('#');
  const std::string path = link.substr(0, mark);
  const fs::path target = path.empty() ? page : page.parent_path() / path;
  if (!fs::exists(target)) {
    return "there is no " + path;
  }
  if (mark == std::string::npos) {
    return "";
  }
  if (target.extension() != ".md") {
    return path + " is no page, so it has no headings";
  }
  return anchors_on(target).contains(link.substr(mark + 1)) ? "" : "there is no heading for " + link;
}

TEST(Pages, EveryLinkLeadsSomewhere) {
  std::size_t count = 0;
  for (const fs::path& page : files_with_ending({".md"})) {
    for (const std::string& link : links_on(page)) {
      EXPECT_EQ(fault_of_link(page, link), "") << page;
      ++count;
    }
  }
  EXPECT_GT(count, 150U);
}

TEST(Pages, ABrokenLinkIsNoticed) {
  const reprieve::test::TemporaryDirectory directory;
  const fs::path page = directory / "page.md";
  std::ofstream(page) << "# Title\n\n## Two `words`, twice\n## Two words twice\n[a](other.md) and `b[i](none.md)`\n"
                         "```cpp\n# No heading\n[c](none.md)\n```\n[d](https://example.org/none.md)\n";
  EXPECT_EQ(links_on(page), (std::vector<std::string>{"other.md", "https://example.org/none.md"}));
  EXPECT_NE(fault_of_link(page, "other.md"), "");
  EXPECT_NE(fault_of_link(page, "page.md#three"), "");
  EXPECT_NE(fault_of_link(page, "#no-heading"), "");
  EXPECT_EQ(fault_of_link(page, "page.md"), "");
  EXPECT_EQ(fault_of_link(page, "#title"), "");
  EXPECT_EQ(fault_of_link(page, "page.md#two-words-twice"), "");
  EXPECT_EQ(fault_of_link(page, "page.md#two-words-twice-1"), "");
  EXPECT_EQ(fault_of_link(page, "https://example.org/none.md"), "");
  std::ofstream(directory / "code.cpp") << "int x;\n";
  EXPECT_EQ(fault_of_link(page, "code.cpp"), "");
  EXPECT_NE(fault_of_link(page, "code.cpp#x"), "");
}

/// Pages as comments name them: by their path from the root.
std::vector<std::string> pages_named_in(const std::string& text) {
  static const std::regex path(R"((?:^|[^\w./-])((?:src|apps|tests|configs|slurm)/[\w./-]*\.md))");
  std::vector<std::string> pages;
  for (std::sregex_iterator found(text.begin(), text.end(), path); found != std::sregex_iterator(); ++found) {
    pages.push_back((*found)[1]);
  }
  return pages;
}

/// How many words each sentence has, without tables and headings. Code in backticks is one word.
std::vector<std::size_t> sentence_lengths(const fs::path& page) {
  static const std::regex break_in_text(R"(^ *(\|.*|#.*|)$)");
  static const std::regex item(R"(^ *(-|\d+\.) )");
  static const std::regex code("`[^`]*`");
  static const std::regex target(R"(\]\([^)]*\))");
  static const std::regex end(R"re([.!?][)"*]*$)re");
  std::string text;
  for (const std::string& line : prose_lines(page)) {
    text += std::regex_replace(std::regex_replace(line, break_in_text, " . "), item, " . ") + " ";
  }
  std::istringstream words(std::regex_replace(std::regex_replace(text, code, "x"), target, "") + " . ");
  std::vector<std::size_t> lengths;
  std::size_t length = 0;
  for (std::string word; words >> word;) {
    length += std::ranges::any_of(word, [](unsigned char c) { return std::isalnum(c) != 0; }) ? 1U : 0U;
    if (length > 0 && std::regex_search(word, end)) {
      lengths.push_back(std::exchange(length, 0));
    }
  }
  return lengths;
}

/// At most one sentence of twenty has more than 25 words.
bool has_short_sentences(const fs::path& page) {
  const auto lengths = sentence_lengths(page);
  return 20 * std::ranges::count_if(lengths, [](std::size_t length) { return length > 25; }) <= std::ssize(lengths);
}

TEST(Pages, SentencesOfTheGuideAreShort) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRootOfPages / "apps/guide")) {
    if (entry.path().extension() == ".md") {
      EXPECT_TRUE(has_short_sentences(entry.path())) << entry.path();
      ++count;
    }
  }
  EXPECT_GT(count, 20U);
}

TEST(Pages, ALongSentenceIsNoticed) {
  const reprieve::test::TemporaryDirectory directory;
  std::string five = "one two three four five ";
  std::ofstream(directory / "short.md") << "# A heading\n"
                                        << five << five << five << five << "`f(a, b)` [a\nb](c d.md) c d.\n"
                                        << "- Two words\n- (One `more`.)\n\n| " << five << "|\n```\n"
                                        << five << "\n```\n";
  EXPECT_EQ(sentence_lengths(directory / "short.md"), (std::vector<std::size_t>{25, 2, 2}));
  EXPECT_TRUE(has_short_sentences(directory / "short.md"));
  std::ofstream(directory / "long.md") << five << five << five << five << five << "six. Short.\n";
  EXPECT_FALSE(has_short_sentences(directory / "long.md"));
}

std::string whole_text(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(Pages, ThoseThatCodeNamesAreThere) {
  std::size_t count = 0;
  for (const fs::path& file : files_with_ending({".cpp", ".hpp", ".h", ".c", ".f90", ".F90", ".cmake", ".sh", ".md"})) {
    for (const std::string& page : pages_named_in(whole_text(file))) {
      EXPECT_TRUE(fs::exists(kRootOfPages / page)) << file << " names " << page;
      ++count;
    }
  }
  EXPECT_GT(count, 20U);
}

TEST(Pages, ANameIsFound) {
  EXPECT_EQ(pages_named_in("// See src/core/README.md, \"x\"."), (std::vector<std::string>{"src/core/README.md"}));
  EXPECT_EQ(pages_named_in("(../src/core/README.md) and core/README.md"), (std::vector<std::string>{}));
}

TEST(Pages, CitationNamesTheVersionOfTheHeader) {
  static const std::regex in_header("define REPRIEVE_VERSION \"([0-9.]+)\"");
  static const std::regex in_citation("\nversion: ([0-9.]+)\n");
  const std::string header = whole_text(kRootOfPages / "include/reprieve/version.hpp");
  const std::string citation = whole_text(kRootOfPages / "CITATION.cff");
  std::smatch version;
  std::smatch cited;
  ASSERT_TRUE(std::regex_search(header, version, in_header));
  ASSERT_TRUE(std::regex_search(citation, cited, in_citation));
  EXPECT_EQ(cited[1], version[1]);
}

/// What the Citation File Format 1.2.0 asks for, and how it writes a version and an author.
TEST(Pages, CitationHasWhatItsFormatRequires) {
  const std::string citation = whole_text(kRootOfPages / "CITATION.cff");
  for (const char* const needed : {"cff-version: 1\\.2\\.0\n", "\nmessage: \\S", "\ntitle: \\S",
                                   "\nauthors:\n  - name: \\S", "\ntype: software\n"}) {
    EXPECT_TRUE(std::regex_search(citation, std::regex(needed))) << needed;
  }
  EXPECT_EQ(citation.find('\t'), std::string::npos) << "YAML indents by spaces";
}

/// One numbered item of the tour.
struct Hop {
  std::string link;
  std::vector<std::string> names;  ///< in backticks
};

std::vector<Hop> hops_of(const fs::path& page) {
  static const std::regex begin(R"(^\d+\. \[[^\]]*\]\(([^)]*)\).*)");
  static const std::regex name("`([^`]+)`");
  std::vector<Hop> hops;
  bool inside = false;
  for (const std::string& line : prose_lines(page)) {
    std::smatch found;
    if (std::regex_match(line, found, begin)) {
      inside = true;
      hops.push_back({found[1], {}});
    } else if (line.empty() || line.front() != ' ') {
      inside = false;
    }
    if (inside) {
      for (std::sregex_iterator word(line.begin(), line.end(), name); word != std::sregex_iterator(); ++word) {
        hops.back().names.push_back((*word)[1]);
      }
    }
  }
  return hops;
}

/// Of `Class::function`, both must occur as words.
bool names_all_of(const std::string& code, const std::string& qualified_name) {
  static const std::regex part(R"(\w+)");
  for (std::sregex_iterator word(qualified_name.begin(), qualified_name.end(), part); word != std::sregex_iterator();
       ++word) {
    if (!std::regex_search(code, std::regex("\\b" + word->str() + "\\b"))) {
      return false;
    }
  }
  return true;
}

TEST(Tour, NamesFunctionsThatAreInTheFiles) {
  const fs::path tour = kRootOfPages / "apps/guide/architecture.md";
  const auto hops = hops_of(tour);
  EXPECT_GE(hops.size(), 40U);
  for (const Hop& hop : hops) {
    EXPECT_FALSE(hop.names.empty()) << "the hop to " << hop.link << " names no function";
    const std::string code = whole_text(tour.parent_path() / hop.link);
    for (const std::string& name : hop.names) {
      EXPECT_TRUE(names_all_of(code, name)) << hop.link << " has no " << name;
    }
  }
}

TEST(Tour, ANameThatIsNotThereIsNoticed) {
  const reprieve::test::TemporaryDirectory directory;
  std::ofstream(directory / "tour.md")
      << "1. [a](a.cpp): `begin` and\n   `Save::end`.\n2. [b](b.cpp): nothing.\n\n`other`\n";
  const auto hops = hops_of(directory / "tour.md");
  ASSERT_EQ(hops.size(), 2U);
  EXPECT_EQ(hops[0].link, "a.cpp");
  EXPECT_EQ(hops[0].names, (std::vector<std::string>{"begin", "Save::end"}));
  EXPECT_TRUE(hops[1].names.empty());
  EXPECT_TRUE(names_all_of("void Save::end() {}", "Save::end"));
  EXPECT_FALSE(names_all_of("void Save::ending() {}", "Save::end"));
}

}  // namespace
