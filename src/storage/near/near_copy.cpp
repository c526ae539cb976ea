// SPDX-License-Identifier: BSD-3-Clause
#include "storage/near/near_copy.hpp"

#include <nlohmann/json.hpp>

#include "storage/format/manifest.hpp"

namespace reprieve::storage {

nlohmann::json to_json(const PartName& part) {
  const NearCopy& copy = part.copy;
  nlohmann::json json{{"directory", copy.save.directory_id},
                      {"run", copy.save.run},
                      {"save", copy.save.save},
                      {"inode", copy.directory_inode},
                      {"prefix", copy.prefix},
                      {"number", copy.number},
                      {"time_us", copy.time_us},
                      {"ranks", copy.ranks},
                      {"layout", copy.layout_digest},
                      {"known_run", copy.known_run},
                      {"known_save", copy.known_save},
                      {"rank", part.rank}};
  if (copy.run_calls) {
    json["run_calls"] = *copy.run_calls;
  }
  return json;
}

PartName part_from_json(const nlohmann::json& from) {
  const auto word = [&](const char* key) { return integer<std::uint64_t>(from.at(key)); };
  PartName part;
  NearCopy& copy = part.copy;
  copy.save = {from.at("directory").get<std::string>(), word("run"), word("save")};
  copy.directory_inode = word("inode");
  copy.prefix = from.at("prefix").get<std::string>();
  copy.number = word("number");
  copy.time_us = integer<std::int64_t>(from.at("time_us"));
  copy.ranks = integer<int>(from.at("ranks"));
  copy.layout_digest = word("layout");
  copy.known_run = word("known_run");
  copy.known_save = word("known_save");
  part.rank = integer<int>(from.at("rank"));
  if (from.contains("run_calls")) {
    copy.run_calls = word("run_calls");
  }
  require(copy.ranks > 0 && part.rank >= 0 && part.rank < copy.ranks, "a part of an impossible rank");
  return part;
}

}  // namespace reprieve::storage
