// SPDX-License-Identifier: BSD-3-Clause
#include "manager/checkpoint_list.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <utility>

#include "core/log.hpp"
#include "core/values.hpp"
#include "reprieve/error.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::manager {

namespace {

/// A decimal number without sign and leading zeros that fills the whole text.
template <class Integer>
std::optional<Integer> parse_number(std::string_view text) {
  const bool canonical = text.starts_with('0') ? text.size() == 1 : !text.starts_with('-');
  return canonical ? core::number_in<Integer>(text) : std::nullopt;
}

/// What lies between `<prefix>-` and the suffix.
std::optional<std::string_view> middle_of(std::string_view prefix, std::string_view name, std::string_view suffix) {
  if (name.size() <= prefix.size() + 1 + suffix.size() || !name.starts_with(prefix) || name[prefix.size()] != '-' ||
      !name.ends_with(suffix)) {
    return std::nullopt;
  }
  name.remove_prefix(prefix.size() + 1);
  name.remove_suffix(suffix.size());
  return name;
}

}  // namespace

std::string format_name(std::string_view prefix, std::uint64_t number, std::string_view suffix) {
  return std::string(prefix) + '-' + std::to_string(number) + std::string(suffix);
}

std::optional<std::uint64_t> parse_name(std::string_view prefix, std::string_view name, std::string_view suffix) {
  const auto middle = middle_of(prefix, name, suffix);
  return middle ? parse_number<std::uint64_t>(*middle) : std::nullopt;
}

std::optional<QuarantinedName> parse_quarantined_name(std::string_view name, std::string_view with) {
  const auto suffix = name.rfind(with);
  if (suffix == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = name.substr(suffix + with.size());
  const std::string_view checkpoint = name.substr(0, suffix);
  const std::string_view prefix = checkpoint.substr(0, checkpoint.find_last_of('-'));
  const auto number = parse_name(prefix, checkpoint, kCheckpointSuffix);
  const auto count = rest.empty()          ? 1
                     : rest.front() == '.' ? parse_number<std::uint64_t>(rest.substr(1))
                                           : std::nullopt;
  if (!number || !count) {
    return std::nullopt;
  }
  return QuarantinedName{std::string(name), std::string(prefix), *number, std::string(name.substr(suffix)), *count};
}

std::string format_staged_name(std::string_view prefix, StagedName staged, std::string_view suffix) {
  return format_name(prefix, staged.number, "." + std::to_string(staged.time_us) + std::string(suffix));
}

std::optional<StagedName> parse_staged_name(std::string_view prefix, std::string_view name, std::string_view suffix) {
  const auto middle = middle_of(prefix, name, suffix);
  const auto dot = middle ? middle->find('.') : std::string_view::npos;
  if (dot == std::string_view::npos) {
    return std::nullopt;
  }
  const auto number = parse_number<std::uint64_t>(middle->substr(0, dot));
  const auto time_us = parse_number<std::int64_t>(middle->substr(dot + 1));
  if (!number || !time_us) {
    return std::nullopt;
  }
  return StagedName{*number, *time_us};
}

bool is_staged_under_another_prefix(std::string_view prefix, std::string_view name) {
  const std::string_view other = name.substr(0, name.find_last_of('-'));  // what follows a prefix has no dash
  return other != prefix &&
         (parse_staged_name(other, name, kCheckpointSuffix) || parse_staged_name(other, name, kFilesSuffix));
}

OrderEntry order_entry(std::uint64_t number, const std::optional<storage::SaveIdentity>& identity,
                       const std::string& here) {
  if (!identity) {
    return {number, Origin::uncounted};
  }
  const bool is_foreign = !here.empty() && identity->directory_id != here;
  return {number, is_foreign ? Origin::foreign : Origin::own, identity->run, identity->save, identity->directory_id};
}

OrderEntry order_entry(const CheckpointInfo& info, const std::string& here) {
  const bool is_counted = info.run > 0;
  return order_entry(
      info.number,
      is_counted ? std::optional(storage::SaveIdentity{info.directory_id, info.run, info.save}) : std::nullopt, here);
}

void sort_oldest_first(std::vector<OrderEntry>& entries) {
  std::vector<OrderEntry> unreadable;
  const auto is_unreadable = [](const OrderEntry& entry) { return entry.origin == Origin::unreadable; };
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(unreadable), is_unreadable);
  std::erase_if(entries, is_unreadable);
  const auto rank_of = [](const OrderEntry& entry) {
    return std::tie(entry.origin, entry.run, entry.save, entry.number, entry.directory_id);
  };
  std::ranges::sort(entries, {}, rank_of);
  std::ranges::sort(unreadable, {}, [](const OrderEntry& entry) { return entry.number; });
  for (OrderEntry& entry : unreadable) {
    // Behind the newest of those with a lower number.
    const auto lower = std::find_if(entries.rbegin(), entries.rend(),
                                    [&](const OrderEntry& other) { return other.number < entry.number; });
    entries.insert(lower.base(), std::move(entry));
  }
}

void drop_foreign(std::vector<OrderEntry>& entries) {
  const auto is_foreign = [](const OrderEntry& entry) { return entry.origin == Origin::foreign; };
  if (!std::ranges::all_of(entries, is_foreign)) {
    std::erase_if(entries, is_foreign);
  }
}

std::vector<std::uint64_t> to_retire(std::vector<RetentionEntry> checkpoints, const RetentionPolicy& policy,
                                     std::uint64_t committed) {
  if (policy.max_to_keep == 0 || checkpoints.size() <= policy.max_to_keep) {
    return {};
  }
  checkpoints.resize(checkpoints.size() - policy.max_to_keep);

  std::vector<std::uint64_t> retired;
  std::optional<std::chrono::system_clock::time_point> last_kept;
  for (const RetentionEntry& entry : checkpoints) {
    // A clock that was set back by that much begins a new span too, instead of waiting until it is where it was.
    const auto passed = last_kept ? core::between<std::chrono::seconds>(*last_kept, entry.time) : policy.keep_every;
    const bool begins_span =
        policy.keep_every.count() > 0 && (passed >= policy.keep_every || passed <= -policy.keep_every);
    if (begins_span) {
      last_kept = entry.time;
    } else if (entry.number != committed) {
      retired.push_back(entry.number);
    }
  }
  return retired;
}

namespace {

/// Nobody has so many prefixes in a directory; keeps a file of another kind from being read.
constexpr int kMostBytes = 1 << 20;

DirectoryRecord record_of(core::Json json) {
  if (json.is_object()) {
    json.emplace("launches", core::Json::object());  // not before version 1.0
  }
  const auto record = core::whole_from_json<DirectoryRecord>(json);
  return record && !record->id.empty() ? *record : throw std::invalid_argument("it is not what a run writes");
}

}  // namespace

std::string make_random_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

namespace {

/// Returns whether there was anything to decide.
bool complete_commits(DirectoryRecord& record, const core::Directory& directory) {
  bool any = false;
  for (auto& [prefix, last] : record.launches) {
    if (!last.next) {
      continue;
    }
    any = true;
    const auto staging = directory.find_directory(kStagingName);
    const StagedName staged{last.next->number, last.next_time_us.value_or(0)};
    if (!staging || !staging->contains(format_staged_name(prefix, staged, kCheckpointSuffix))) {
      last.newest = *last.next;
    }
    last.next.reset();
    last.next_time_us.reset();
  }
  return any;
}

std::optional<DirectoryRecord> read_raw_record(const core::Directory& directory) {
  const auto found = directory.status_of(kRecordName);
  const bool is_empty =
      found && S_ISREG(found->st_mode) && found->st_size == 0;  // a power cut soon after the first start
  if (!found || is_empty) {
    return std::nullopt;
  }
  try {
    if (!S_ISREG(found->st_mode) || found->st_size > kMostBytes) {
      throw std::invalid_argument("it is not a file of this kind");
    }
    return record_of(core::Json::parse(directory.read_text(kRecordName, kMostBytes)));
  } catch (const StorageError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;  // says nothing of the file
  } catch (const std::exception& what) {
    core::log::warning("{} is corrupt, and is rebuilt from the checkpoints: {}",
                       (directory.path() / kRecordName).string(), what.what());
    return std::nullopt;
  }
}

}  // namespace

std::optional<DirectoryRecord> read_directory_record(const core::Directory& directory) {
  auto record = read_raw_record(directory);
  if (record) {
    static_cast<void>(complete_commits(*record, directory));
  }
  return record;
}

void complete_commits(const core::Directory& directory, bool durable) noexcept {
  core::log::or_warn("the end of a commit is not written", [&] {
    if (auto record = read_raw_record(directory); record && complete_commits(*record, directory)) {
      write_directory_record(directory, *record, durable);
    }
  });
}

void write_directory_record(const core::Directory& directory, const DirectoryRecord& record, bool durable) {
  directory.write_text(kRecordName, core::Json(core::json_of(record)).dump() + '\n', directory.file_mode(), durable);
}

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
    core::log::debug("{}", error.what());  // those who read it report it
    return {file.number};
  }
}

}  // namespace

bool is_checkpoint_name(const fs::path& path) { return as_checkpoint(path).has_value(); }

bool is_quarantined_name(const fs::path& path) { return parse_quarantined_name(path.filename().string()).has_value(); }

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
