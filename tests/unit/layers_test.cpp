/// @file
/// The rules of the house that a compiler does not check: who may include whom, and how long a file may be.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kSource = REPRIEVE_SOURCE_DIR;
constexpr std::size_t kLongestFile = 500;

/// The layers that each layer may use besides itself.
const std::map<std::string, std::set<std::string>> kMayUse{
    {"core", {}},
    {"termination", {"core"}},
    {"state", {"core"}},
    {"cluster", {"core"}},
    {"storage", {"core", "state", "cluster"}},
    {"manager", {"core", "state", "cluster", "storage"}},
    {"handler", {"core", "termination", "state", "cluster", "storage", "manager"}},
    {"supervisor", {"core", "termination"}},
    {"bindings", {"core", "termination", "state", "cluster", "storage", "manager", "handler"}},
};

/// Libraries that only some layers may see.
const std::map<std::string, std::set<std::string>> kLibraryUsers{
    {"mpi.h", {"cluster", "storage", "manager", "handler", "bindings"}},
    {"hdf5.h", {"storage"}},
    {"xxhash.h", {"storage"}},
    {"curl/curl.h", {"termination"}},
};

/// The public headers whose signatures need MPI.
const std::set<std::string> kHeadersWithMpi{"checkpoint_manager.hpp", "preemption_checkpoint_handler.hpp",
                                            "termination_config.hpp", "reprieve.h"};

/// What a C header may include of the standard library.
const std::set<std::string> kStandardHeadersOfC{"stddef.h", "stdint.h"};

/// Those that are of use only with another library.
const std::set<std::string> kAdapters{"eigen.hpp", "kokkos.hpp"};

struct Include {
  bool is_own = false;  ///< in quotes
  std::string path;
};

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::vector<Include> includes_of(const fs::path& file) {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> includes;
  for (const auto& line : lines_of(file)) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) {
      includes.push_back({match[1] == "\"", match[2]});
    }
  }
  return includes;
}

bool is_code(const fs::path& file) {
  static const std::set<std::string> extensions{".cpp", ".hpp", ".c", ".h", ".f90", ".F90", ".sh"};
  return extensions.contains(file.extension().string());
}

std::vector<fs::path> code_below(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kSource / folder)) {
    if (entry.is_regular_file() && is_code(entry.path())) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// What is wrong with an include in a file of @p layer; empty if nothing is.
std::string problem_with(const std::string& layer, const Include& include) {
  if (const auto library = kLibraryUsers.find(include.path); library != kLibraryUsers.end()) {
    return library->second.contains(layer) ? "" : layer + " must not see <" + include.path + ">";
  }
  if (!include.is_own) {
    return "";
  }
  const std::string target = include.path.substr(0, include.path.find('/'));
  if (target == "reprieve" || target == layer) {
    return "";
  }
  if (!kMayUse.contains(target)) {
    return "\"" + include.path + "\" does not name a layer: write paths from src";
  }
  return kMayUse.at(layer).contains(target) ? "" : layer + " must not use " + target;
}

TEST(Layers, EachUsesOnlyThoseBelow) {
  const auto files = code_below("src");
  ASSERT_GT(files.size(), 10U);
  for (const auto& file : files) {
    const std::string layer = fs::relative(file, kSource / "src").begin()->string();
    ASSERT_TRUE(kMayUse.contains(layer)) << file << " is in no known layer";
    for (const auto& include : includes_of(file)) {
      EXPECT_EQ(problem_with(layer, include), "") << file;
    }
  }
}

TEST(Layers, TheRuleCanFail) {
  EXPECT_NE(problem_with("core", {true, "state/registry.hpp"}), "");
  EXPECT_NE(problem_with("state", {false, "mpi.h"}), "");
  EXPECT_NE(problem_with("manager", {false, "hdf5.h"}), "");
  EXPECT_NE(problem_with("storage", {true, "registry.hpp"}), "");
  EXPECT_EQ(problem_with("storage", {true, "state/registry.hpp"}), "");
  EXPECT_EQ(problem_with("handler", {true, "reprieve/error.hpp"}), "");
}

TEST(Layers, PublicHeadersShowNoLibraryButMpi) {
  const auto headers = code_below("include");
  ASSERT_GT(headers.size(), 5U);
  for (const auto& header : headers) {
    if (kAdapters.contains(header.filename().string())) {
      continue;
    }
    for (const auto& include : includes_of(header)) {
      EXPECT_FALSE(kAdapters.contains(fs::path(include.path).filename().string())) << header;
      EXPECT_FALSE(include.is_own && !include.path.starts_with("reprieve/")) << header << ": " << include.path;
      EXPECT_TRUE(include.is_own || include.path == "mpi.h" || kStandardHeadersOfC.contains(include.path) ||
                  include.path.find_first_of("./") == std::string::npos)  // a header of the standard library
          << header << " includes <" << include.path << ">";
      EXPECT_TRUE(include.path != "mpi.h" || kHeadersWithMpi.contains(header.filename().string())) << header;
    }
  }
}

TEST(House, FilesAreShortEnoughToRead) {
  for (const auto* folder : {"src", "include", "apps", "tests"}) {
    for (const auto& file : code_below(folder)) {
      EXPECT_LE(lines_of(file).size(), kLongestFile) << file;
    }
  }
}

TEST(House, EveryRoomSaysWhatItIs) {
  std::vector<fs::path> rooms;
  for (const auto* folder : {"src", "apps"}) {
    for (const auto& entry : fs::directory_iterator(kSource / folder)) {
      if (entry.is_directory() && !fs::is_empty(entry.path())) {
        rooms.push_back(entry.path());
      }
    }
  }
  rooms.insert(rooms.end(), {kSource, kSource / "tests", kSource / "configs", kSource / "slurm"});
  for (const auto& room : rooms) {
    EXPECT_TRUE(!fs::exists(room) || fs::exists(room / "README.md")) << room;
  }
}

}  // namespace
