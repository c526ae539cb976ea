// SPDX-License-Identifier: BSD-3-Clause
#include "core/available_memory.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace reprieve::core {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kKibi = 1024;

/// How a version of control groups names things.
struct Version {
  const char* mount;
  const char* limit;
  const char* used;
  const char* given_up;  ///< in memory.stat: page cache that the system takes back first
};
constexpr Version kSecond{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr Version kSecondBeside{"sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file"};
constexpr Version kFirst{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                         "total_inactive_file"};

/// The number that follows a word at the beginning of a line.
std::optional<std::uint64_t> number_after(const fs::path& file, std::string_view wanted) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string word;
    std::uint64_t number = 0;
    if (words >> word && word == wanted && words >> number) {
      return number;
    }
  }
  return std::nullopt;
}

/// Nothing if there is no such file, or if it says "max".
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::uint64_t number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> room_in(const fs::path& group, const Version& version) {
  const auto limit = number_in(group / version.limit);
  const auto used = number_in(group / version.used);
  if (!limit || !used) {
    return std::nullopt;
  }
  const std::uint64_t counted =
      *used - std::min(*used, number_after(group / "memory.stat", version.given_up).value_or(0));
  return *limit - std::min(*limit, counted);
}

/// The group and all above it; in a container the path may be one of outside, of which only the end is there.
void look_at_groups(const fs::path& root, const Version& version, const fs::path& path, AvailableMemory& found) {
  const fs::path mount = root / version.mount;
  for (fs::path group = mount / path.relative_path();; group = group.parent_path()) {
    if (const auto room = room_in(group, version); room && *room < found.of_group) {
      found.of_group = *room;
      found.group = group.string();
    }
    if (group == mount || !group.has_relative_path()) {
      return;
    }
  }
}

}  // namespace

AvailableMemory available_memory(const fs::path& root) {
  AvailableMemory found;
  if (const auto kilobytes = number_after(root / "proc/meminfo", "MemAvailable:")) {
    found.of_node = *kilobytes * kKibi;
  }
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = fs::path(line.substr(second + 1)).lexically_normal();
    if (controllers == ",,") {
      look_at_groups(root, kSecond, path, found);
      look_at_groups(root, kSecondBeside, path, found);
    } else if (controllers.find(",memory,") != std::string::npos) {
      look_at_groups(root, kFirst, path, found);
    }
  }
  return found;
}

}  // namespace reprieve::core
