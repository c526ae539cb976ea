// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Each file of code names its licence in the form of the SPDX project, so that tools which list licences find it even
/// in a file that was copied out of this tree.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const std::string kLicence = "SPDX-License-Identifier: BSD-3-Clause";
const std::set<std::string> kCode{".cpp",   ".hpp", ".c",    ".h",    ".f90",    ".F90", ".py",
                                  ".cmake", ".sh",  ".bash", ".fish", ".sbatch", ".zsh", ".awk"};

/// In the first line, or in the second where the first one names the interpreter.
bool names_its_licence(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  for (int number = 0; number < 2 && std::getline(stream, line); ++number) {
    if (line.find(kLicence) != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST(Licence, StandsInEachFileOfCode) {
  std::size_t files = 0;
  for (const char* folder : {"src", "include", "apps", "tests", "slurm"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(REPRIEVE_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file() || !kCode.contains(entry.path().extension().string())) {
        continue;
      }
      ++files;
      EXPECT_TRUE(names_its_licence(entry.path())) << entry.path() << " must begin with " << kLicence;
    }
  }
  EXPECT_GT(files, 500U);
}

}  // namespace
