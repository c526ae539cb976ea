// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A rule of this project that a compiler does not check: directories are opened once, and files are reached below
/// them. Nothing in src/ and in the supervisor but core/directory.cpp names a path to a call that changes files, since
/// a path may be pointed elsewhere between two calls by whoever can write in one of its directories.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kSourceRoot = REPRIEVE_SOURCE_DIR;

/// The calls that each of these files may make all the same.
const std::map<std::string, std::set<std::string>> kExceptions{
    // What a test asks for by a variable; compiled with REPRIEVE_FAILPOINTS alone.
    {"src/core/failpoint.cpp", {"ofstream"}},
    // /proc/<process>/fd/<number>: memory that another process shares.
    {"src/core/memory.cpp", {"::open("}},
    // /proc/self/fd/<number>: a file that this process has open.
    {"src/storage/bytes/posix_file.cpp", {"::open("}},
    // A file in memory, by /proc/self/fd/<number>.
    {"src/storage/hdf5/hdf5_layout.cpp", {"H5Fcreate(", "H5Fopen("}},
    // MPI-IO takes paths alone; what it wrote is read back below the open directory.
    {"src/storage/write/mpio_writer.cpp", {"H5Fopen("}},
    // A copy of a checkpoint, inside of the directory that the drill has made for itself.
    {"apps/reprieve/supervisor/drill.cpp", {"fs::create_hard_link(", "fs::copy_file("}},
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

std::string without_comment(const std::string& line) { return line.substr(0, line.find("//")); }

std::vector<std::string> calls_in(const std::string& line) {
  const std::string code = without_comment(line);
  std::vector<std::string> calls;
  for (auto found = std::sregex_iterator(code.begin(), code.end(), forbidden()); found != std::sregex_iterator();
       ++found) {
    std::string call = (*found)[1].str();
    const auto scope = call.find("filesystem::");
    calls.push_back(scope == std::string::npos ? call : "fs::" + call.substr(scope + 12));
  }
  return calls;
}

std::vector<fs::path> sources() {
  std::vector<fs::path> files;
  for (const auto* folder : {"src", "apps/reprieve/supervisor"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kSourceRoot / folder)) {
      if (const auto extension = entry.path().extension(); extension == ".cpp" || extension == ".hpp") {
        files.push_back(entry.path());
      }
    }
  }
  return files;
}

TEST(Paths, ChangeFilesThroughOpenDirectoriesAlone) {
  std::map<std::string, std::set<std::string>> used;
  std::size_t files = 0;
  for (const auto& file : sources()) {
    const std::string name = fs::relative(file, kSourceRoot).string();
    if (name == "src/core/directory.cpp") {
      continue;
    }
    ++files;
    const auto allowed = kExceptions.find(name);
    std::ifstream stream(file);
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
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

}  // namespace
