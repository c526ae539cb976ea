// SPDX-License-Identifier: BSD-3-Clause
#include "manager/directory_record.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <new>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::manager {

namespace {

using Json = nlohmann::json;

/// Nobody has so many prefixes in a directory; keeps a file of another kind from being read.
constexpr int kMostBytes = 1 << 20;

Json json_of(const DirectoryRecord& record) {
  Json finished = Json::object();
  for (const auto& [prefix, mark] : record.finished) {
    finished[prefix] = {{"run_calls", mark.run_calls}, {"run", mark.run}, {"save", mark.save}};
  }
  return {{"id", record.id}, {"run", record.run}, {"saves", record.saves}, {"finished", finished}};
}

/// A number that is one: the conversion of nlohmann would take a negative one, and wrap it around.
std::uint64_t counter(const Json& json, const char* name) {
  return json.at(name).is_number_unsigned() ? json.at(name).get<std::uint64_t>()
                                            : throw std::invalid_argument(std::string(name) + " is no counter");
}

DirectoryRecord record_of(const Json& json) {
  DirectoryRecord record{json.at("id").get<std::string>(), counter(json, "run"), counter(json, "saves"), {}};
  if (record.id.empty()) {
    throw std::invalid_argument("it has no id");
  }
  for (const auto& [prefix, mark] : json.at("finished").items()) {
    record.finished[prefix] = {counter(mark, "run_calls"), counter(mark, "run"), counter(mark, "save")};
  }
  return record;
}

}  // namespace

std::string make_directory_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}", device(), device(), device());
}

std::optional<DirectoryRecord> read_directory_record(const core::Directory& directory) {
  const auto found = directory.look(kRecordName);
  if (!found) {
    return std::nullopt;
  }
  try {
    if (!S_ISREG(found->st_mode) || found->st_size > kMostBytes) {
      throw std::invalid_argument("it is not a file of this kind");
    }
    return record_of(Json::parse(directory.read_text(kRecordName, kMostBytes)));
  } catch (const StorageError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;  // says nothing of the file
  } catch (const std::exception& what) {
    core::log::warning("{} is damaged, and is made anew from the checkpoints: {}",
                       (directory.path() / kRecordName).string(), what.what());
    return std::nullopt;
  }
}

void write_directory_record(const core::Directory& directory, const DirectoryRecord& record, bool durable) {
  directory.write_text(kRecordName, json_of(record).dump() + '\n', directory.file_mode(), durable);
}

}  // namespace reprieve::manager
