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

#include "core/error.hpp"
#include "support/temporary_directory.hpp"
#include "support/tree.hpp"

namespace {

namespace fs = std::filesystem;
using reprieve::test::files_below;
using reprieve::test::found_in;
using reprieve::test::kTree;
using reprieve::test::lines_of;
using reprieve::test::read_text;
using reprieve::test::tests_below;
using Lines = std::vector<std::string>;

/// Those in the root of the tree, and below its folders.
std::vector<fs::path> files_with_ending(const std::set<std::string>& endings) {
  std::vector<fs::path> files = files_below({"src", "apps", "tests", "configs", "slurm", "include"}, endings);
  std::copy_if(fs::directory_iterator(kTree), {}, std::back_inserter(files),
               [&](const fs::path& path) { return endings.contains(path.extension().string()); });
  return files;
}

/// Without blocks of code: what looks like a link or a heading there is none.
Lines prose_lines(const fs::path& page) {
  Lines lines;
  bool is_code_block = false;
  for (const std::string& line : lines_of(page)) {
    if (line.find("```") < 4) {  // may be indented, in a list
      is_code_block = !is_code_block;
    } else if (!is_code_block) {
      lines.push_back(line);
    }
  }
  return lines;
}

/// The targets of all links, as they are written.
Lines links_on(const fs::path& page) {
  static const std::regex code_with_brackets("`[^`]*\\]\\([^`]*`");  // `a[i](x)` is no link
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  Lines links;
  for (const std::string& line : prose_lines(page)) {
    std::ranges::move(found_in(std::regex_replace(line, code_with_brackets, ""), link), std::back_inserter(links));
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
  std::ofstream(directory / "code.cpp") << "int x;\n";
  std::ofstream(page) << "# Title\n\n## Two `words`, twice\n## Two words twice\n[a](other.md) and `b[i](none.md)`\n"
                         "```cpp\n# No heading\n[c](none.md)\n```\n[d](https://example.org/none.md)\n";
  EXPECT_EQ(links_on(page), (Lines{"other.md", "https://example.org/none.md"}));
  for (const char* const broken : {"other.md", "page.md#three", "#no-heading", "code.cpp#x"}) {
    EXPECT_NE(fault_of_link(page, broken), "") << broken;
  }
  for (const char* const good : {"page.md", "#title", "page.md#two-words-twice", "page.md#two-words-twice-1",
                                 "https://example.org/none.md", "code.cpp"}) {
    EXPECT_EQ(fault_of_link(page, good), "");
  }
}

/// Pages as comments name them: by their path from the root.
Lines pages_named_in(const std::string& text) {
  static const std::regex path(R"((?:^|[^\w./-])((?:src|apps|tests|configs|slurm)/[\w./-]*\.md))");
  return found_in(text, path);
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
  const auto pages = files_below({"apps/guide"}, {".md"});
  for (const fs::path& page : pages) {
    EXPECT_TRUE(has_short_sentences(page)) << page;
  }
  EXPECT_GT(pages.size(), 20U);
}

/// The navigation of the site is read from there.
TEST(Pages, TheGuideListsAllItsPages) {
  const fs::path guide = kTree / "apps/guide";
  std::set<fs::path> listed{guide / "README.md"};
  for (const std::string& link : links_on(guide / "README.md")) {
    listed.insert((guide / link).lexically_normal());
  }
  for (const fs::path& page : files_below({"apps/guide"}, {".md"})) {
    EXPECT_TRUE(listed.contains(page)) << page;
  }
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

TEST(Pages, ThoseThatCodeNamesAreThere) {
  std::size_t count = 0;
  for (const fs::path& file : files_with_ending({".cpp", ".hpp", ".h", ".c", ".f90", ".F90", ".cmake", ".sh", ".md"})) {
    for (const std::string& page : pages_named_in(read_text(file))) {
      EXPECT_TRUE(fs::exists(kTree / page)) << file << " names " << page;
      ++count;
    }
  }
  EXPECT_GT(count, 20U);
  EXPECT_EQ(pages_named_in("// See src/core/README.md, \"x\"."), Lines{"src/core/README.md"});
  EXPECT_EQ(pages_named_in("(../src/core/README.md) and core/README.md"), Lines{});
}

TEST(Pages, CitationNamesTheVersionOfTheHeader) {
  static const std::regex in_header("define REPRIEVE_VERSION \"([0-9.]+)\"");
  static const std::regex in_citation("\nversion: ([0-9.]+)\n");
  const Lines version = found_in(read_text(kTree / "include/reprieve/version.hpp"), in_header);
  EXPECT_EQ(version.size(), 1U);
  EXPECT_EQ(found_in(read_text(kTree / "CITATION.cff"), in_citation), version);
}

/// What the Citation File Format 1.2.0 asks for, and how it writes a version and an author.
TEST(Pages, CitationHasWhatItsFormatRequires) {
  const std::string citation = read_text(kTree / "CITATION.cff");
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
      std::ranges::move(found_in(line, name), std::back_inserter(hops.back().names));
    }
  }
  return hops;
}

/// Of `Class::function`, both must occur as words.
bool names_all_of(const std::string& code, const std::string& qualified_name) {
  static const std::regex part(R"(\w+)");
  return std::ranges::all_of(found_in(qualified_name, part, 0), [&](const std::string& word) {
    return std::regex_search(code, std::regex("\\b" + word + "\\b"));
  });
}

TEST(Tour, NamesFunctionsThatAreInTheFiles) {
  const fs::path tour = kTree / "apps/guide/architecture.md";
  const auto hops = hops_of(tour);
  EXPECT_GE(hops.size(), 40U);
  for (const Hop& hop : hops) {
    EXPECT_FALSE(hop.names.empty()) << "the hop to " << hop.link << " names no function";
    const std::string code = read_text(tour.parent_path() / hop.link);
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
  EXPECT_EQ(hops[0].names, (Lines{"begin", "Save::end"}));
  EXPECT_TRUE(hops[1].names.empty());
  EXPECT_TRUE(names_all_of("void Save::end() {}", "Save::end"));
  EXPECT_FALSE(names_all_of("void Save::ending() {}", "Save::end"));
}

/// @file
/// A rule of this project that a compiler does not check: directories are opened once, and files are reached below
/// them. Nothing in src/ and in the supervisor but core/directory.cpp names a path to a call that changes files, since
/// a path may be pointed elsewhere between two calls by whoever can write in one of its directories.

/// The calls that each of these files may make all the same.
const std::map<std::string, std::set<std::string>> kExceptions{
    // What a test asks for by a variable; compiled with REPRIEVE_FAILPOINTS alone.
    {"src/core/failpoint.cpp", {"ofstream"}},
    // /proc/<process>/fd/<number>: memory that another process shares.
    {"src/core/memory.cpp", {"::open("}},
    // /proc/self/mem, and the files that this process runs. They are read alone.
    {"src/handler/memory_watch.cpp", {"::open("}},
    // /proc/self/fd/<number>: a file that this process has open.
    {"src/storage/bytes/posix_file.cpp", {"::open("}},
    // A file in memory, by /proc/self/fd/<number>.
    {"src/storage/hdf5/hdf5_layout.cpp", {"H5Fcreate(", "H5Fopen("}},
    // MPI-IO takes paths alone; what it wrote is read back below the open directory.
    {"src/storage/write/mpio_writer.cpp", {"H5Fopen("}},
    // A copy of a checkpoint, inside of the directory that the drill has made for itself; and the outputs of the
    // program, which it makes by the same paths.
    {"apps/reprieve/supervisor/drill.cpp", {"fs::create_hard_link(", "fs::copy_file(", "fs::remove(", "fs::rename("}},
};

/// Global functions of the system (`::rename(`, but not `Directory::rename(`), the writing functions and streams of the
/// standard library, and those of HDF5 and MPI that open files.
const std::regex& forbidden() {
  static const std::regex pattern(
      R"((?:^|[^\w>])(::(?:open|openat|creat|rename|renameat|renameat2|unlink|unlinkat|rmdir|mkdir|mkdirat|mkdtemp|mkstemp)"
      R"(|chmod|fchmodat|chown|lchown|fchownat|truncate|symlink|symlinkat|link|linkat|mkfifo|mknod|opendir|utimes|utimensat|remove)\()"
      R"(|(?:fs|filesystem)::(?:create_\w+|remove\w*|rename|copy\w*|resize_file|permissions|last_write_time)\()"
      R"(|ofstream\b|fopen\(|H5Fcreate\(|H5Fopen\(|MPI_File_open\())");
  return pattern;
}

/// Without comments.
Lines calls_in(const std::string& line) {
  Lines calls = found_in(line.substr(0, line.find("//")), forbidden());
  for (std::string& call : calls) {
    if (const auto scope = call.find("filesystem::"); scope != std::string::npos) {
      call = "fs::" + call.substr(scope + 12);
    }
  }
  return calls;
}

TEST(Paths, ChangeFilesThroughOpenDirectoriesAlone) {
  std::map<std::string, std::set<std::string>> used;
  std::size_t files = 0;
  for (const auto& file : files_below({"src", "apps/reprieve/supervisor"}, {".cpp", ".hpp"})) {
    const std::string name = fs::relative(file, kTree).string();
    if (name == "src/core/directory.cpp") {
      continue;
    }
    ++files;
    const auto allowed = kExceptions.find(name);
    int number = 0;
    for (const std::string& line : lines_of(file)) {
      ++number;
      for (const std::string& call : calls_in(line)) {
        used[name].insert(call);
        EXPECT_TRUE(allowed != kExceptions.end() && allowed->second.contains(call))
            << name << ":" << number << ": " << call << " by a path; core::Directory does it below an open one";
      }
    }
  }
  EXPECT_GT(files, 100U);
  EXPECT_EQ(used, kExceptions) << "an exception that nobody needs";
}

TEST(Paths, TheRuleCanFail) {
  for (const char* line :
       {"  ::open(path.c_str(), O_RDONLY)", "if (::rename(a, b) != 0) {", "std::filesystem::remove_all(path, error);",
        "fs::remove(file);", "std::ofstream file(path);", "return ::unlink(name);", "fs::create_directories(path)"}) {
    EXPECT_EQ(calls_in(line).size(), 1U) << line;
  }
  for (const char* line : {"  Directory::open(path)", "place.rename(a, place, b);", "// ::open(path)", "reopen(x)",
                           "fs::exists(path)", "std::remove(v.begin(), v.end(), 3)"}) {
    EXPECT_TRUE(calls_in(line).empty()) << line;
  }
}

/// @file
/// apps/guide/security.md promises nothing without a test: every claim names one, and the tests that it names are
/// there.

TEST(SecurityPage, NamesTestsThatAreThere) {
  const auto tests = tests_below({"tests/unit", "tests/faults"});
  const auto named = found_in(read_text(kTree / "apps/guide/security.md"), std::regex("`(\\w+\\.[A-Z]\\w+)`"));
  EXPECT_GT(named.size(), 30U);
  for (const std::string& test : named) {
    EXPECT_TRUE(tests.contains(test)) << test;
  }
}

/// @file
/// apps/guide/troubleshooting.md has an entry for every error that the library throws: of each message, the longest
/// part that is always the same must stand there. The message gets the code of that entry.

/// So much of a part identifies a message.
constexpr std::size_t kEnough = 28;
/// Shorter parts could be part of anything; messages without a longer one have only what the program said.
constexpr std::size_t kLeast = 12;

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

struct Message {
  std::string part;  ///< the longest that is always the same
  std::string text;  ///< with {} in place of values
};

/// Of each error that a source file makes.
std::vector<Message> messages_in(const std::string& source) {
  static const std::regex made(R"(\b(Usage|Config|Storage|Corrupt|Mismatch|Mpi|Cluster|Unresponsive)Error\()");
  std::vector<Message> messages;
  for (auto match = std::sregex_iterator(source.begin(), source.end(), made); match != std::sregex_iterator();
       ++match) {
    std::string longest;
    std::string text;
    for (const std::string& literal :
         literals_of_call(source, static_cast<std::size_t>(match->position() + match->length()))) {
      text += literal + "{}";
      for (const std::string& part : fixed_parts(literal)) {
        longest = part.size() > longest.size() ? part : longest;
      }
    }
    if (longest.size() >= kLeast) {
      messages.push_back({longest, text});
    }
  }
  return messages;
}

TEST(TroubleshootingPage, FindsThePartsOfAMessage) {
  const std::string source =
      "throw UsageError(fmt::format(\"the ranks make \"\n  \"different calls: {} and {}\", f(1), 2));";
  const auto messages = messages_in(source);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].part, "the ranks make different calls");
  EXPECT_EQ(messages[0].text, "the ranks make different calls: {} and {}{}");
  EXPECT_TRUE(messages_in("throw StorageError(code, what + \" failed\");").empty());
}

/// "- RPV-0101 `a part of a message`, `another`: what to do."
struct Entry {
  std::string code;
  Lines parts;
};

std::vector<Entry> entries_of_messages() {
  static const std::regex entry(R"(\n- (\S+) ((?:`[^`]+`,?\s*)+):)");
  static const std::regex part("`([^`]+)`");
  const std::string page = read_text(kTree / "apps/guide/troubleshooting.md");
  const std::string chapter = page.substr(page.find("\n## By the message\n"));
  std::vector<Entry> entries;
  for (auto found = std::sregex_iterator(chapter.begin(), chapter.end(), entry); found != std::sregex_iterator();
       ++found) {
    entries.push_back({(*found)[1], found_in((*found)[2], part)});
  }
  EXPECT_EQ(entries.size(), found_in(chapter, std::regex("\n(- )")).size()) << "an entry of another form";
  return entries;
}

std::string code_of_message(const std::string& text) {
  return reprieve::core::message_code_in(reprieve::UsageError(text).what());
}

TEST(TroubleshootingPage, HasAnEntryForEveryError) {
  const auto entries = entries_of_messages();
  std::size_t errors = 0;
  for (const fs::path& file : files_below({"src"}, {".cpp", ".hpp"})) {
    for (const Message& message : messages_in(read_text(file))) {
      ++errors;
      const std::string code = code_of_message(message.text);
      const bool is_told = std::ranges::any_of(entries, [&](const Entry& each) {
        return each.code == code && std::ranges::any_of(each.parts, [&](const std::string& part) {
                 return part.find(message.part.substr(0, kEnough)) != std::string::npos ||
                        message.part.find(part) != std::string::npos;
               });
      });
      EXPECT_TRUE(is_told) << "no entry in apps/guide/troubleshooting.md for \"" << message.part << "\" of " << file;
    }
  }
  EXPECT_GT(errors, 150U);
}

/// In order, so that no code stands twice.
TEST(TroubleshootingPage, EachEntryHasACodeOfItsOwn) {
  std::string last;
  for (const Entry& entry : entries_of_messages()) {
    EXPECT_TRUE(std::regex_match(entry.code, std::regex("RPV-\\d{4}"))) << entry.code;
    EXPECT_LT(last, entry.code);
    last = entry.code;
    for (const std::string& part : entry.parts) {
      EXPECT_EQ(code_of_message(part), entry.code) << part;
    }
  }
}

/// A code that was in a release means the same in all later ones. A new one is added to the file, with the first part
/// of its entry.
TEST(TroubleshootingPage, KeepsTheCodes) {
  const auto entries = entries_of_messages();
  const Lines recorded = lines_of(kTree / "tests/unit/recorded/message_codes.txt");
  EXPECT_EQ(recorded.size(), entries.size());
  for (const std::string& line : recorded) {
    const std::string code = line.substr(0, line.find(' '));
    const std::string part = line.substr(line.find(' ') + 1);
    EXPECT_TRUE(std::ranges::any_of(entries, [&](const Entry& entry) { return entry.code == code; })) << code;
    for (const Entry& entry : entries) {
      EXPECT_TRUE(entry.code == code || std::ranges::find(entry.parts, part) == entry.parts.end()) << part;
    }
  }
}

// Code on the pages is code that is compiled and run: every block in C++, C, Fortran or Python of a page stands in a
// program that the tests start.

std::vector<Lines> blocks_of(const Lines& page, const std::string& language) {
  std::vector<Lines> blocks;
  bool inside = false;
  for (const std::string& line : page) {
    if (!inside && line == "```" + language) {
      inside = true;
      blocks.emplace_back();
    } else if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back().push_back(line);
    }
  }
  return blocks;
}

Lines without_indentation(Lines lines) {
  for (std::string& line : lines) {
    line.erase(0, line.find_first_not_of(' '));
  }
  return lines;
}

/// Of a file, or of all files of a folder.
Lines lines_of_all(const fs::path& place) {
  if (!fs::is_directory(place)) {
    return lines_of(place);
  }
  Lines lines;
  for (const auto& entry : fs::directory_iterator(place)) {
    const Lines more = lines_of(entry.path());
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

bool contains(const Lines& source, const Lines& block) {
  return std::search(source.begin(), source.end(), block.begin(), block.end()) != source.end();
}

/// A page, and the source that runs its code, or a folder of sources.
struct Page {
  const char* page;
  const char* source;
  std::size_t least_blocks;
  const char* language;
};

TEST(CodeOnPages, IsRunByTheTests) {
  for (const auto& [page, source, least_blocks, language] :
       {Page{"apps/guide/loops.md", "tests/e2e/programs/loops.cpp", 8, "cpp"},
        {"apps/guide/loops.md", "tests/bindings/fortran/page_test.f90", 1, "fortran"},
        {"apps/guide/resilient.md", "tests/e2e/programs/loops.cpp", 1, "cpp"},
        {"apps/guide/coming_from.md", "tests/scenarios/programs/tensorflow.cpp", 1, "cpp"},
        {"apps/guide/python.md", "tests/python", 6, "python"},
        {"apps/guide/pytorch/README.md", "apps/guide/pytorch/train.py", 1, "python"},
        {"apps/guide/real_codes.md", "tests/e2e/codes", 2, "fortran"},
        {"apps/guide/real_codes.md", "tests/e2e/codes", 2, "cpp"},
        {"apps/guide/state.md", "tests/mpi", 7, "cpp"},
        {"apps/guide/state.md", "tests/bindings/fortran", 3, "fortran"}}) {
    const Lines program = without_indentation(lines_of_all(kTree / source));
    const auto blocks = blocks_of(without_indentation(lines_of(kTree / page)), language);
    EXPECT_GE(blocks.size(), least_blocks) << page << " in " << language;
    for (const Lines& block : blocks) {
      EXPECT_TRUE(contains(program, block)) << page << ": not in " << source << ": the block that begins with\n"
                                            << block.front();
    }
  }
}

TEST(CodeOnPages, ABlockThatDiffersIsNoticed) {
  const Lines program{"a", "b", "c", "d"};
  EXPECT_TRUE(contains(program, {"b", "c"}));
  EXPECT_FALSE(contains(program, {"b", "d"}));
  EXPECT_EQ(blocks_of({"text", "```cpp", "x", "```", "```bash", "y", "```"}, "cpp"), (std::vector<Lines>{{"x"}}));
}

/// Without comments and white space, which are set otherwise on the page of the tutorial.
std::string squeezed(const std::string& line) {
  static const std::regex rest(R"((//.*$)|(/\*.*\*/)|(!.*$)|\s)");
  return std::regex_replace(line, rest, "");
}

/// Its lines stand in the programs, not side by side.
TEST(TutorialText, ShowsTheCodeOfThePrograms) {
  const fs::path tutorial = kTree / "apps/guide/tutorial";
  for (const auto& [language, file] : {std::pair{"cpp", "heat.cpp"}, {"c", "heat.c"}, {"fortran", "heat.f90"}}) {
    std::string program;
    for (const std::string& line : lines_of(tutorial / file)) {
      program += squeezed(line);
    }
    std::size_t lines = 0;
    for (const Lines& block : blocks_of(lines_of(tutorial / "README.md"), language)) {
      for (const std::string& line : block) {
        EXPECT_NE(program.find(squeezed(line)), std::string::npos) << "not in " << file << ": " << line;
        lines += squeezed(line).empty() ? 0U : 1U;
      }
    }
    EXPECT_GE(lines, 6U);
    EXPECT_EQ(program.find("reprieve_no_such_call"), std::string::npos);
  }
  EXPECT_EQ(squeezed("  call f( x )  ! + comment"), "callf(x)");
  EXPECT_EQ(squeezed("f(x); /* + */"), "f(x);");
}

// The table of tests/scenarios/README.md: every row of the specification has a test that exists; a row that differs on
// purpose is told on coming_from.md, in the words of the table.

struct Row {
  int number = 0;
  std::string here;
  std::string test;
};

std::vector<Row> rows_of(const Lines& page) {
  std::vector<Row> rows;
  static const std::regex row(R"(^\| (\d+) \|[^|]*\| *([^|]*[^| ]) *\| *([^|]*[^| ]) *\|$)");
  for (const std::string& line : page) {
    if (std::smatch found; std::regex_match(line, found, row)) {
      rows.push_back({std::stoi(found[1]), found[2], found[3]});
    }
  }
  return rows;
}

/// What is wrong with a row; empty if nothing is.
std::string fault_of(const Row& row, const std::set<std::string>& tests, const std::string& page) {
  const std::string differs = "differs: ";
  if (!tests.contains(row.test)) {
    return "there is no test " + row.test;
  }
  if (row.here == "holds") {
    return "";
  }
  if (!row.here.starts_with(differs)) {
    return "says neither \"holds\" nor \"differs: ...\"";
  }
  const std::string how = row.here.substr(differs.size());
  return page.find(how) == std::string::npos ? "coming_from.md does not say: " + how : "";
}

TEST(ScenarioRows, EachHoldsOrDiffersWithAWord) {
  const auto rows = rows_of(lines_of(kTree / "tests/scenarios/README.md"));
  const auto tests = tests_below({"tests"});
  const std::string page =  // with one space between words, wherever lines end
      std::regex_replace(read_text(kTree / "apps/guide/coming_from.md"), std::regex(R"(\s+)"), " ");
  ASSERT_EQ(rows.size(), 47U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].number, static_cast<int>(i) + 1);
    EXPECT_EQ(fault_of(rows[i], tests, page), "") << "row " << rows[i].number;
  }
}

TEST(ScenarioRows, AFaultIsNoticed) {
  const std::set<std::string> tests{"Suite.Test"};
  EXPECT_EQ(fault_of({1, "holds", "Suite.Test"}, tests, ""), "");
  EXPECT_NE(fault_of({1, "holds", "Suite.Other"}, tests, ""), "");
  EXPECT_NE(fault_of({1, "differs: never told", "Suite.Test"}, tests, "a page"), "");
  EXPECT_NE(fault_of({1, "perhaps", "Suite.Test"}, tests, "a page"), "");
  EXPECT_EQ(rows_of({"| 3 | a | holds | Suite.Test |"}).front().test, "Suite.Test");
}

}  // namespace
