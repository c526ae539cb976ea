// SPDX-License-Identifier: BSD-3-Clause
#include "manager/checkpoint_list.hpp"

#include <map>
#include <optional>
#include <utility>

#include "core/log.hpp"
#include "manager/checkpoint_order.hpp"
#include "manager/directory_record.hpp"
#include "manager/file_names.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::manager {

namespace fs = std::filesystem;

namespace {

/// The number has no dash, so the last one ends the prefix.
std::string prefix_of(const std::string& name) { return name.substr(0, name.find_last_of('-')); }

std::optional<CheckpointFile> as_checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  std::string prefix = prefix_of(name);
  const auto number = parse_name(prefix, name, kCheckpointSuffix);
  if (!number || prefix.starts_with('.')) {
    return std::nullopt;
  }
  return CheckpointFile{path, std::move(prefix), *number};
}

/// The id of the directory; empty if it has none that can be read.
std::string id_of(const fs::path& directory) {
  try {
    const auto record = read_directory_record(core::Directory::open(directory));
    return record ? record->id : "";
  } catch (const StorageError& error) {
    core::log::debug("{}", error.what());
    return "";
  }
}

OrderEntry entry_of(const CheckpointFile& file, const std::string& here) {
  try {
    return order_entry(file.number, storage::read_metadata(file.path).identity, here);
  } catch (const Error& error) {
    core::log::debug("{}", error.what());  // those who look at it tell it
    return {file.number};
  }
}

}  // namespace

bool is_checkpoint_name(const fs::path& path) { return as_checkpoint(path).has_value(); }

bool is_set_aside_name(const fs::path& path) { return parse_set_aside_name(path.filename().string()).has_value(); }

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
  std::map<std::string, std::map<std::uint64_t, CheckpointFile>> by_prefix;
  for (const fs::path& path : regular_files(directory)) {
    if (auto checkpoint = as_checkpoint(path)) {
      by_prefix[checkpoint->prefix].emplace(checkpoint->number, *checkpoint);
    }
  }
  const std::string here = id_of(directory);
  std::vector<CheckpointFile> found;
  for (auto& [prefix, files] : by_prefix) {
    std::vector<OrderEntry> entries;
    entries.reserve(files.size());
    for (const auto& [number, file] : files) {
      entries.push_back(entry_of(file, here));
    }
    sort_oldest_first(entries);
    for (const OrderEntry& entry : entries) {
      found.push_back(std::move(files.at(entry.number)));
      found.back().is_foreign = entry.origin == Origin::foreign;
    }
  }
  return found;
}

}  // namespace reprieve::manager
