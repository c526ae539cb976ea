#include "manager/checkpoint_list.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

#include "manager/file_names.hpp"
#include "storage/posix_file.hpp"

namespace reprieve::manager {

namespace fs = std::filesystem;

namespace {

std::optional<CheckpointFile> as_checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  // The number has no dash, so the last one ends the prefix.
  const std::string prefix = name.substr(0, name.find_last_of('-'));
  const auto number = parse_name(prefix, name, kCheckpointSuffix);
  if (!number || prefix.starts_with('.')) {
    return std::nullopt;
  }
  return CheckpointFile{path, prefix, *number};
}

}  // namespace

std::vector<fs::path> regular_files(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    std::error_code vanished;
    if (entries->is_regular_file(vanished)) {
      files.push_back(entries->path());
    }
  }
  if (error) {
    throw storage::storage_error("list", directory, error.value());
  }
  return files;
}

std::vector<CheckpointFile> checkpoint_files(const fs::path& directory) {
  std::vector<CheckpointFile> found;
  for (const fs::path& path : regular_files(directory)) {
    if (auto checkpoint = as_checkpoint(path)) {
      found.push_back(std::move(*checkpoint));
    }
  }
  std::ranges::sort(found, {}, [](const CheckpointFile& file) { return std::tie(file.prefix, file.number); });
  return found;
}

}  // namespace reprieve::manager
