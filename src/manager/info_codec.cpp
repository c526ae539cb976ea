// SPDX-License-Identifier: BSD-3-Clause
#include "manager/info_codec.hpp"

#include <nlohmann/json.hpp>

namespace reprieve::manager {

namespace {

nlohmann::json json_of(const CheckpointInfo& info) {
  return {{"path", info.path.string()},
          {"number", info.number},
          {"run_calls", info.run_calls ? nlohmann::json(*info.run_calls) : nlohmann::json()},
          {"run", info.run},
          {"save", info.save},
          {"directory_id", info.directory_id},
          {"world_size", info.world_size},
          {"time", info.time.time_since_epoch().count()},
          {"size_bytes", info.size_bytes},
          {"kind", static_cast<int>(info.reason.kind)},
          {"reason", to_json(info.reason)},
          {"files", info.files_directory ? info.files_directory->string() : ""}};
}

CheckpointInfo info_from_json(const nlohmann::json& json) {
  CheckpointInfo info;
  info.path = json.at("path").get<std::string>();
  json.at("number").get_to(info.number);
  if (const nlohmann::json& run_calls = json.at("run_calls"); !run_calls.is_null()) {
    info.run_calls = run_calls.get<std::uint64_t>();
  }
  json.at("run").get_to(info.run);
  json.at("save").get_to(info.save);
  json.at("directory_id").get_to(info.directory_id);
  json.at("world_size").get_to(info.world_size);
  info.time = std::chrono::system_clock::time_point(
      std::chrono::system_clock::duration(json.at("time").get<std::chrono::system_clock::rep>()));
  json.at("size_bytes").get_to(info.size_bytes);
  const nlohmann::json& reason = json.at("reason");
  info.reason.kind = static_cast<SaveReason::Kind>(json.at("kind").get<int>());
  reason.at("rank").get_to(info.reason.rank);
  reason.at("host").get_to(info.reason.host);
  reason.at("source").get_to(info.reason.source);
  reason.at("message").get_to(info.reason.message);
  if (const auto files = json.at("files").get<std::string>(); !files.empty()) {
    info.files_directory = files;
  }
  return info;
}

}  // namespace

nlohmann::json to_json(const SaveReason& reason) {
  return {{"kind", to_string(reason.kind)},
          {"rank", reason.rank},
          {"host", reason.host},
          {"source", reason.source},
          {"message", reason.message}};
}

void put_if_known(nlohmann::json& fields, const char* name, const std::optional<std::uint64_t>& number) {
  if (number) {
    fields[name] = *number;
  }
}

// CBOR, since it carries strings as they are: paths and messages need not be UTF-8.
cluster::Bytes encode(const std::vector<CheckpointInfo>& checkpoints) {
  nlohmann::json list = nlohmann::json::array();
  for (const CheckpointInfo& info : checkpoints) {
    list.push_back(json_of(info));
  }
  const std::vector<std::uint8_t> cbor = nlohmann::json::to_cbor(list);
  const auto bytes = std::as_bytes(std::span(cbor));
  return {bytes.begin(), bytes.end()};
}

std::vector<CheckpointInfo> decode(const cluster::Bytes& bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::vector<CheckpointInfo> checkpoints;
  for (const nlohmann::json& json : nlohmann::json::from_cbor(first, first + bytes.size())) {
    checkpoints.push_back(info_from_json(json));
  }
  return checkpoints;
}

}  // namespace reprieve::manager
