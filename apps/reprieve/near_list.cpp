// SPDX-License-Identifier: BSD-3-Clause
#include "near_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/text.hpp"
#include "manager/directory_record.hpp"
#include "manager/near_place.hpp"
#include "text.hpp"

namespace reprieve::tool {

namespace {

using nlohmann::json;

std::chrono::system_clock::time_point time_of_copy(const storage::NearCopy& copy) {
  return std::chrono::system_clock::time_point(std::chrono::microseconds(copy.time_us));
}

std::uint64_t step_of_copy(const storage::NearCopy& copy) { return copy.run_calls.value_or(copy.number); }

}  // namespace

std::vector<NearListEntry> list_near(const std::filesystem::path& near, const std::filesystem::path& directory) {
  const core::Directory checkpoints = core::Directory::open(directory);
  const auto record = manager::read_directory_record(checkpoints);
  std::vector<NearListEntry> entries;
  for (const manager::NearFolder& folder : manager::near_folders(near)) {
    std::map<std::string, NearListEntry> copies;
    for (const manager::FoundPart& part : folder.parts) {
      const storage::NearCopy& copy = part.name.copy;
      NearListEntry& entry = copies[storage::to_json({copy, 0}).dump()];
      entry.copy = copy;
      entry.folder = folder.path;
      entry.parts += 1;
      entry.size_bytes += part.bytes;
      entry.in_use = folder.in_use;
      entry.is_of_directory =
          record && copy.save.directory_id == record->id && copy.directory_inode == checkpoints.status().st_ino;
    }
    if (copies.empty()) {
      copies[""] = {.copy = std::nullopt, .folder = folder.path, .in_use = folder.in_use};
    }
    for (auto& [name, entry] : copies) {
      entries.push_back(std::move(entry));
    }
  }
  std::ranges::stable_sort(entries, std::greater(), &NearListEntry::is_of_directory);
  return entries;
}

void print_text(std::ostream& out, const std::vector<NearListEntry>& entries, const std::filesystem::path& near) {
  if (entries.empty()) {
    out << "no near copies in " << near.string() << '\n';
    return;
  }
  constexpr auto kRight = Table::Align::right;
  out << "parts of near copies on this node, in " << near.string() << ":\n";
  Table table({{"OF"}, {"STEP", kRight}, {"PARTS", kRight}, {"SIZE", kRight}, {"AGE", kRight}, {"STATE"}});
  for (const NearListEntry& entry : entries) {
    const std::string owner = entry.is_of_directory ? "this directory" : printable(entry.folder.filename().string());
    const std::string state = entry.in_use ? "in use" : "left by a run that is gone";
    if (entry.copy) {
      table.add_row({owner, std::to_string(step_of_copy(*entry.copy)),
                     fmt::format("{} of {}", entry.parts, entry.copy->ranks), core::size_text(entry.size_bytes),
                     human_age(time_of_copy(*entry.copy)), state});
    } else {
      table.add_row({owner, "-", "0", "-", "-", state});
    }
  }
  table.print(out);
}

json to_json(const std::vector<NearListEntry>& entries) {
  json list = json::array();
  for (const NearListEntry& entry : entries) {
    json item{{"folder", entry.folder.string()},
              {"of_this_directory", entry.is_of_directory},
              {"in_use", entry.in_use},
              {"parts", entry.parts},
              {"size_bytes", entry.size_bytes}};
    if (entry.copy) {
      item["step"] = step_of_copy(*entry.copy);
      item["ranks"] = entry.copy->ranks;
      item["run"] = entry.copy->save.run;
      item["save"] = entry.copy->save.save;
      item["time"] = utc_time(time_of_copy(*entry.copy));
    }
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace reprieve::tool
