// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The rules of this project that a compiler does not check: which layer may see which, and how long a file may be.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.hpp"
#include "support/tree.hpp"

namespace {

namespace fs = std::filesystem;

using reprieve::test::files_below;
using reprieve::test::found_in;
using reprieve::test::kTree;
using reprieve::test::lines_of;

using Names = std::set<std::string>;

/// The layers that each layer may use besides itself, as src/CMakeLists.txt has them:
/// "core:|state:core|storage/format:core,state". The folders of storage are layers of their own.
std::map<std::string, Names> read_layers(const std::string& table) {
  std::map<std::string, Names> layers;
  std::istringstream rows(table);
  for (std::string row; std::getline(rows, row, '|');) {
    const std::size_t colon = row.find(':');
    Names& uses = layers[row.substr(0, colon)];
    std::istringstream names(row.substr(colon + 1));
    for (std::string name; std::getline(names, name, ',');) {
      uses.insert(name);
    }
  }
  return layers;
}

const std::map<std::string, Names> kMayUse = read_layers(REPRIEVE_LAYERS);

/// Of "state/registry.hpp" state, of "storage/format/commit_record.hpp" storage/format; empty if it is in no layer.
std::string layer_of(const std::string& path) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (const std::string folder = path.substr(0, slash); kMayUse.contains(folder)) {
      return folder;
    }
  }
  return "";
}

/// The layer whose target is reprieve_<name>, or reprieve_<name>_offline.
std::string layer_of_target(const std::string& name) {
  for (const auto& [layer, uses] : kMayUse) {
    std::string target = layer;
    std::replace(target.begin(), target.end(), '/', '_');
    if (target == name || target + "_offline" == name) {
      return layer;
    }
  }
  return "";
}

/// Public headers that are words alone: any layer may use them, whichever makes good what they say.
const Names kVocabulary{"error.hpp", "export.h", "notice.hpp", "platform.hpp", "save.hpp", "version.hpp"};

/// The other public headers, by the layer that makes good what they say. The layers above may use them.
const std::map<std::string, Names> kPublicHeaders{
    {"devices", {"memory_space.hpp"}},
    {"state",
     {"annotation.hpp", "checkpoint.hpp", "containers.hpp", "element_type.hpp", "layout.hpp", "memory.hpp",
      "particles.hpp", "record.hpp", "serializer.hpp", "stored_state.hpp", "value_access.hpp"}},
    {"core", {"version_details.hpp"}},
    {"settings", {"manager_options.hpp", "settings.hpp", "termination_config.hpp"}},
    {"manager", {"checkpoint_manager.hpp", "library_files.hpp", "xdmf.hpp"}},
    // The watcher has a constructor in each of the two.
    {"handler", {"preemption_checkpoint_handler.hpp", "preemption_watcher.hpp", "run_resilient.hpp"}},
    {"termination", {"preemption_watcher.hpp"}},
    {"bindings", {"reprieve.h", "reprieve_manager.h"}},
    // For users, and nobody else.
    {"", {"eigen.hpp", "kokkos.hpp", "petsc.hpp", "reprieve.hpp", "tpetra.hpp"}},
};

/// Libraries that only some layers may see.
const std::map<std::string, Names> kLibraryUsers{
    // Settings: for the types of some functions that a TerminationConfig holds.
    // HDF5's own headers include it.
    {"mpi.h",
     {"cluster", "storage/hdf5", "storage/read", "storage/write", "settings", "manager", "handler", "bindings"}},
    {"hdf5.h", {"storage/hdf5", "storage/write"}},
    {"xxhash.h", {"storage/bytes"}},
    {"curl/curl.h", {"termination"}},
};

/// The public headers whose signatures need MPI.
const Names kHeadersWithMpi{"checkpoint_manager.hpp", "library_files.hpp",      "preemption_checkpoint_handler.hpp",
                            "run_resilient.hpp",      "termination_config.hpp", "reprieve.h",
                            "reprieve_manager.h"};

/// What a C header may include of the standard library.
const Names kStandardHeadersOfC{"stddef.h", "stdint.h"};

/// Standard headers that take a compiler long: every file of a user's would wait for them.
const Names kSlowHeaders{"algorithm", "format", "fstream", "future", "iostream", "mutex",
                         "numeric",   "random", "ranges",  "regex",  "thread",   "valarray"};

/// Those that a program includes only if it needs them: the others must not take them in.
const Names kAdapters{"containers.hpp", "eigen.hpp", "kokkos.hpp", "petsc.hpp", "tpetra.hpp"};

struct Include {
  bool is_own = false;  ///< in quotes
  std::string path;
};

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

const Names kCompiled{".cpp", ".hpp", ".c", ".h", ".f90", ".F90", ".sh"};

bool may_use(const std::string& layer, const std::string& other) {
  return layer == other || kMayUse.at(layer).contains(other);
}

/// What is wrong with a public header in @p layer; empty if nothing is.
std::string problem_with_public(const std::string& layer, const std::string& header) {
  if (kVocabulary.contains(header)) {
    return "";
  }
  bool is_known = false;
  for (const auto& [owner, headers] : kPublicHeaders) {
    if (headers.contains(header)) {
      is_known = true;
      if (may_use(layer, owner)) {
        return "";
      }
    }
  }
  return is_known ? layer + " must not see reprieve/" + header : "reprieve/" + header + " is of no layer that is known";
}

/// What is wrong with an include in a file of @p layer; empty if nothing is.
std::string problem_with(const std::string& layer, const Include& include) {
  if (const auto library = kLibraryUsers.find(include.path); library != kLibraryUsers.end()) {
    return library->second.contains(layer) ? "" : layer + " must not see <" + include.path + ">";
  }
  if (!include.is_own) {
    return "";
  }
  static const std::string public_headers = "reprieve/";
  if (include.path.starts_with(public_headers)) {
    return problem_with_public(layer, include.path.substr(public_headers.size()));
  }
  const std::string target = layer_of(include.path);
  if (target.empty()) {
    return "\"" + include.path + "\" does not name a layer: write paths from src";
  }
  return may_use(layer, target) ? "" : layer + " must not use " + target;
}

/// @p file as an include: of a folder of this project, or of a library.
Include as_include(const fs::path& file) {
  const std::string path = file.lexically_normal().generic_string();
  for (const auto* root : {"src", "include"}) {
    const std::string folder = (kTree / root).generic_string() + "/";
    if (path.starts_with(folder)) {
      return {true, path.substr(folder.size())};
    }
  }
  for (const auto& [header, users] : kLibraryUsers) {
    if (path.ends_with("/" + header)) {
      return {false, header};
    }
  }
  return {false, path};
}

/// What the compiler read for each object of the layers, as `ninja -t deps` tells it.
struct Dependencies {
  std::map<std::string, std::vector<std::string>> objects;  ///< by layer
  std::set<std::string> problems;
};

Dependencies check_dependencies(std::istream& text, const fs::path& build_folder) {
  static const std::regex object(R"(^src/CMakeFiles/reprieve_(\w+)\.dir/(\S+): #deps .*)");
  Dependencies found;
  std::string layer;
  std::string name;
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (!line.starts_with(' ')) {
      layer = std::regex_match(line, match, object) ? layer_of_target(match[1]) : "";
      name = match.empty() ? "" : match[2].str();
      if (!layer.empty()) {
        found.objects[layer].push_back(name);
      }
    } else if (!layer.empty()) {
      const fs::path file = build_folder / line.substr(line.find_first_not_of(' '));
      if (const std::string problem = problem_with(layer, as_include(file)); !problem.empty()) {
        found.problems.insert(problem + ": " + file.lexically_normal().string() + ", in the object " + name);
      }
    }
  }
  return found;
}

TEST(Layers, EachIncludesOnlyThoseBelow) {
  const auto files = files_below({"src"}, kCompiled);
  ASSERT_GT(files.size(), 10U);
  for (const auto& file : files) {
    const std::string layer = layer_of(fs::relative(file, kTree / "src").generic_string());
    ASSERT_FALSE(layer.empty()) << file << " is in no known layer";
    for (const auto& include : includes_of(file)) {
      EXPECT_EQ(problem_with(layer, include), "") << file;
    }
  }
}

/// Not what a file includes itself, but all that the compiler read for it.
TEST(Layers, TheirObjectsSeeOnlyThoseBelow) {
  const fs::path build_folder = REPRIEVE_BUILD_DIR;
  if (!fs::exists(build_folder / "build.ninja")) {
    GTEST_SKIP() << "only Ninja tells what the compiler has read";
  }
  reprieve::test::Process ninja({{REPRIEVE_MAKE_PROGRAM, "-n", "-C", REPRIEVE_BUILD_DIR, "-t", "deps"}});
  ASSERT_EQ(ninja.wait(std::chrono::minutes(1)), 0) << ninja.err();
  std::istringstream lines(ninja.out());
  const Dependencies found = check_dependencies(lines, build_folder);
  EXPECT_EQ(found.objects.size(), kMayUse.size()) << "layers without an object";
  for (const auto& problem : found.problems) {
    ADD_FAILURE() << problem;
  }
}

/// The rooms of storage have a direction: what a file is knows neither how it is written nor how it is read, and these
/// two do not know each other.
TEST(Layers, RoomsOfStorageHaveADirection) {
  for (const auto* room : {"storage/bytes", "storage/format", "storage/hdf5"}) {
    EXPECT_FALSE(may_use(room, "storage/write")) << room;
    EXPECT_FALSE(may_use(room, "storage/read")) << room;
    EXPECT_FALSE(may_use(room, "cluster")) << room;
  }
  EXPECT_FALSE(may_use("storage/write", "storage/read"));
  EXPECT_FALSE(may_use("storage/read", "storage/write"));
  for (const auto* room : {"storage/bytes", "storage/format", "storage/read", "manager"}) {
    EXPECT_FALSE(may_use(room, "storage/hdf5")) << room;
  }
}

/// The headers that @p file includes, and those that these include, as far as they are of this project; and what it
/// includes of libraries.
void collect_includes(const fs::path& file, Names& seen) {
  for (const auto& include : includes_of(file)) {
    if (!seen.insert(include.path).second || !include.is_own) {
      continue;
    }
    const bool is_public = include.path.starts_with("reprieve/");
    collect_includes(kTree / (is_public ? "include" : "src") / include.path, seen);
  }
}

/// What the table of a README says that each file uses, by its name: "| `a`, `b.hpp` | what it is | MPI, HDF5 |".
std::map<std::string, std::string> uses_in_readme(const fs::path& readme) {
  static const std::regex row(R"(^\| (`[^|]+) \|.*\| ([^|]+) \|$)");
  static const std::regex name(R"(`([^`.]+)[^`]*`)");
  std::map<std::string, std::string> uses;
  for (const auto& line : lines_of(readme)) {
    std::smatch match;
    if (std::regex_match(line, match, row)) {
      for (const std::string& file : found_in(match[1], name)) {
        uses[file] = match[2];
      }
    }
  }
  return uses;
}

TEST(Layers, FilesOfStorageUseWhatTheirReadmeSays) {
  std::size_t without_mpi = 0;
  for (const fs::path& file : files_below({"src/storage"}, {".cpp"})) {
    const auto uses = uses_in_readme(file.parent_path() / "README.md");
    const auto row = uses.find(file.stem());
    ASSERT_NE(row, uses.end()) << file << " is not in the table of the README";
    Names seen;
    collect_includes(file, seen);
    EXPECT_TRUE(!seen.contains("mpi.h") || row->second.find("MPI") != std::string::npos) << file;
    EXPECT_TRUE(!seen.contains("hdf5.h") || row->second.find("HDF5") != std::string::npos) << file;
    without_mpi += seen.contains("mpi.h") ? 0U : 1U;
  }
  EXPECT_GT(without_mpi, 15U);
}

TEST(Layers, TheRuleCanFail) {
  EXPECT_NE(problem_with("core", {true, "state/registry.hpp"}), "");
  EXPECT_NE(problem_with("state", {false, "mpi.h"}), "");
  EXPECT_NE(problem_with("storage/read", {false, "hdf5.h"}), "");
  EXPECT_NE(problem_with("storage/format", {true, "registry.hpp"}), "");
  EXPECT_NE(problem_with("storage/read", {true, "storage/write/write_item.hpp"}), "");
  EXPECT_NE(problem_with("storage/write", {true, "reprieve/checkpoint_manager.hpp"}), "");
  EXPECT_NE(problem_with("core", {true, "reprieve/unheard_of.hpp"}), "");
  EXPECT_EQ(problem_with("storage/format", {true, "state/registry.hpp"}), "");
  EXPECT_EQ(problem_with("storage/write", {true, "reprieve/checkpoint.hpp"}), "");
  EXPECT_EQ(problem_with("handler", {true, "reprieve/error.hpp"}), "");
}

TEST(Layers, TheRuleForObjectsCanFail) {
  const std::string source = kTree.string();
  std::istringstream text(
      "src/CMakeFiles/reprieve_termination.dir/deadline.cpp.o: #deps 4, deps mtime 1 (VALID)\n    " + source +
      "/src/termination/deadline.cpp\n    " + source + "/src/core/log.hpp\n    " + source +
      "/include/reprieve/checkpoint_manager.hpp\n    /usr/lib/openmpi/include/mpi.h\n\n" +
      "src/CMakeFiles/reprieve_storage_format.dir/storage/format/commit_record.cpp.o: #deps 1, deps mtime 1 (VALID)\n  "
      "  " +
      source + "/src/storage/read/restorer.hpp\n\n" +
      "apps/CMakeFiles/tool.dir/main.cpp.o: #deps 1, deps mtime 1 (VALID)\n    " + source +
      "/src/storage/bytes/posix_file.hpp\n");
  const Dependencies found = check_dependencies(text, "/build");
  EXPECT_EQ(found.objects.size(), 2U);
  EXPECT_EQ(found.problems.size(), 3U);
}

TEST(Layers, PublicHeadersShowNoLibraryButMpi) {
  const auto headers = files_below({"include"}, kCompiled);
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
      EXPECT_FALSE(kSlowHeaders.contains(include.path)) << header << " includes <" << include.path << ">";
      EXPECT_TRUE(include.path != "mpi.h" || kHeadersWithMpi.contains(header.filename().string())) << header;
    }
  }
}

TEST(Tree, FilesAreShortEnoughToRead) {
  for (const auto& file : files_below({"src", "include", "apps", "tests"}, kCompiled)) {
    EXPECT_LE(lines_of(file).size(), 1000U) << file;
  }
}

TEST(Tree, EveryRoomSaysWhatItIs) {
  std::vector<fs::path> rooms;
  for (const auto* folder : {"src", "apps"}) {
    for (const auto& entry : fs::directory_iterator(kTree / folder)) {
      if (entry.is_directory() && !fs::is_empty(entry.path())) {
        rooms.push_back(entry.path());
      }
    }
  }
  rooms.insert(rooms.end(), {kTree, kTree / "tests", kTree / "configs", kTree / "slurm"});
  for (const auto& room : rooms) {
    EXPECT_TRUE(!fs::exists(room) || fs::exists(room / "README.md")) << room;
  }
}

/// @file
/// Each file of code names its licence in the form of the SPDX project, so that tools which list licences find it even
/// in a file that was copied out of this tree.

const std::string kLicence = "SPDX-License-Identifier: BSD-3-Clause";
const Names kCode{".cpp",   ".hpp", ".c",    ".h",    ".f90",    ".F90", ".py",
                  ".cmake", ".sh",  ".bash", ".fish", ".sbatch", ".zsh", ".awk"};

/// In the first line, or in the second where the first one names the interpreter.
TEST(Licence, StandsInEachFileOfCode) {
  const auto files = files_below({"src", "include", "apps", "tests", "slurm"}, kCode);
  for (const fs::path& file : files) {
    auto lines = lines_of(file);
    lines.resize(2);
    EXPECT_NE((lines[0] + lines[1]).find(kLicence), std::string::npos) << file << " must begin with " << kLicence;
  }
  EXPECT_GT(files.size(), 500U);
}

}  // namespace
