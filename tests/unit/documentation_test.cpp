// SPDX-License-Identifier: BSD-3-Clause
// Code on the pages of the documentation is code that is compiled and run: every block in C++, C, Fortran or Python of
// a page stands in a program that the tests start.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kSource = REPRIEVE_SOURCE_DIR;

using Lines = std::vector<std::string>;

/// Without indentation. Of a folder: those of all its files.
Lines lines_of_page(const fs::path& file) {
  Lines lines;
  for (const auto& entry : fs::is_directory(file) ? fs::directory_iterator(file) : fs::directory_iterator()) {
    const Lines more = lines_of_page(entry);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    lines.push_back(begin == std::string::npos ? "" : line.substr(begin));
  }
  return lines;
}

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

class CodeOnPages : public testing::TestWithParam<Page> {};
INSTANTIATE_TEST_SUITE_P(
    Documentation, CodeOnPages,
    testing::Values(Page{"apps/guide/loops.md", "tests/e2e/programs/loops.cpp", 8, "cpp"},
                    Page{"apps/guide/loops.md", "tests/bindings/fortran/page_test.f90", 1, "fortran"},
                    Page{"apps/guide/resilient.md", "tests/e2e/programs/loops.cpp", 1, "cpp"},
                    Page{"apps/guide/coming_from.md", "tests/scenarios/programs/tensorflow.cpp", 1, "cpp"},
                    Page{"apps/guide/python.md", "tests/python/page_test.py", 4, "python"},
                    Page{"apps/guide/pytorch/README.md", "apps/guide/pytorch/train.py", 1, "python"},
                    Page{"apps/guide/real_codes.md", "tests/e2e/codes", 2, "fortran"},
                    Page{"apps/guide/real_codes.md", "tests/e2e/codes", 2, "cpp"},
                    Page{"apps/guide/state.md", "tests/mpi/state_page_test.cpp", 7, "cpp"},
                    Page{"apps/guide/state.md", "tests/bindings/fortran", 3, "fortran"}),
    [](const auto& page) { return fs::path(page.param.page).stem().string() + "_" + page.param.language; });

TEST_P(CodeOnPages, IsRunByTheTests) {
  const auto& [page, source, least_blocks, language] = GetParam();
  const Lines program = lines_of_page(kSource / source);
  const auto blocks = blocks_of(lines_of_page(kSource / page), language);
  EXPECT_GE(blocks.size(), least_blocks);
  for (const Lines& block : blocks) {
    EXPECT_TRUE(contains(program, block)) << "not in " << source << ": the block that begins with\n" << block.front();
  }
}

TEST(Documentation, ABlockThatDiffersIsNoticed) {
  const Lines program{"a", "b", "c", "d"};
  EXPECT_TRUE(contains(program, {"b", "c"}));
  EXPECT_FALSE(contains(program, {"b", "d"}));
  EXPECT_EQ(blocks_of({"text", "```cpp", "x", "```", "```bash", "y", "```"}, "cpp"), (std::vector<Lines>{{"x"}}));
}

}  // namespace
