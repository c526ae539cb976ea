// SPDX-License-Identifier: BSD-3-Clause
#include "near_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "core/event_reader.hpp"
#include "core/text.hpp"
#include "event_fields.hpp"
#include "manager/brought_parts.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/directory_record.hpp"
#include "manager/near_place.hpp"
#include "text.hpp"

namespace reprieve::tool {

namespace {

using nlohmann::json;

/// One entry for each copy that some of these parts belong to; one without a copy if there are none.
std::vector<NearListEntry> entries_of(const manager::NearFolder& folder) {
  std::map<std::string, NearListEntry> copies;
  std::map<std::string, std::set<int>> ranks;
  for (const manager::FoundPart& part : folder.parts) {
    const std::string name = storage::to_json({part.name.copy, 0}).dump();
    NearListEntry& entry = copies[name];
    entry.copy = part.name.copy;
    entry.partner_parts += manager::NearPlace::is_of_partner(part.file) ? 1U : 0U;
    entry.size_bytes += part.bytes;
    ranks[name].insert(part.name.rank);
    entry.parts = ranks[name].size();
  }
  if (copies.empty()) {
    copies[""] = {};
  }
  std::vector<NearListEntry> entries;
  for (auto& [name, entry] : copies) {
    entry.folder = folder.path;
    entry.in_use = folder.in_use;
    entries.push_back(std::move(entry));
  }
  return entries;
}

const char* state_of(const NearListEntry& entry) {
  return entry.is_brought ? "brought into this directory" : entry.in_use ? "in use" : "left by a run that is gone";
}

}  // namespace

std::vector<NearListEntry> list_near(const std::filesystem::path& near, const std::filesystem::path& directory) {
  const core::Directory checkpoints = core::Directory::open(directory);
  const auto record = manager::read_directory_record(checkpoints);
  std::vector<NearListEntry> entries;
  for (const manager::NearFolder& folder :
       near.empty() ? std::vector<manager::NearFolder>() : manager::near_folders(near)) {
    for (NearListEntry& entry : entries_of(folder)) {
      entry.is_of_directory = entry.copy && record && entry.copy->save.directory_id == record->id &&
                              entry.copy->directory_inode == checkpoints.status().st_ino;
      entries.push_back(std::move(entry));
    }
  }
  if (auto brought = manager::brought_parts(checkpoints); !brought.empty()) {
    for (NearListEntry& entry : entries_of({directory / manager::kBroughtName, std::move(brought), false})) {
      entry.is_of_directory = entry.is_brought = true;
      entries.push_back(std::move(entry));
    }
  }
  std::ranges::stable_sort(entries, std::greater(), &NearListEntry::is_of_directory);
  return entries;
}

std::optional<std::filesystem::path> near_directory_of(const std::filesystem::path& directory) {
  std::optional<std::filesystem::path> near;
  for (const LogEvent& event : core::read_events(directory / manager::kEventLogName, core::kLongestLog)) {
    if (text_in(event, "event") == "start") {
      near = text_in(event, "near_directory");
    }
  }
  std::error_code ignored;
  return near && !near->empty() && std::filesystem::is_directory(*near, ignored) ? near : std::nullopt;
}

void print_text(std::ostream& out, const NearListing& listing) {
  const std::string place = listing.place.empty() ? "" : " in " + listing.place.string();
  if (listing.entries.empty()) {
    out << "no near copies" << place << '\n';
    return;
  }
  constexpr auto kRight = Table::Align::right;
  out << "parts of near copies that this node reaches" << place << ":\n";
  Table table({{"OF"},
               {"STEP", kRight},
               {"PARTS", kRight},
               {"FOR PARTNERS", kRight},
               {"SIZE", kRight},
               {"AGE", kRight},
               {"STATE"}});
  for (const NearListEntry& entry : listing.entries) {
    const std::string owner = entry.is_of_directory ? "this directory" : printable(entry.folder.filename().string());
    if (entry.copy) {
      table.add_row({owner, std::to_string(entry.step()), fmt::format("{} of {}", entry.parts, entry.copy->ranks),
                     std::to_string(entry.partner_parts), core::size_text(entry.size_bytes), human_age(entry.time()),
                     state_of(entry)});
    } else {
      table.add_row({owner, "-", "0", "0", "-", "-", state_of(entry)});
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
              {"brought", entry.is_brought},
              {"parts", entry.parts},
              {"partner_parts", entry.partner_parts},
              {"size_bytes", entry.size_bytes}};
    if (entry.copy) {
      item["step"] = entry.step();
      item["ranks"] = entry.copy->ranks;
      item["run"] = entry.copy->save.run;
      item["save"] = entry.copy->save.save;
      item["time"] = utc_time(entry.time());
    }
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace reprieve::tool
