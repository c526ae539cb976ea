// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/json_exchange.hpp"

#include <nlohmann/json.hpp>

namespace reprieve::cluster {

namespace {

Bytes packed(const nlohmann::json& document) {
  return to_bytes(document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

nlohmann::json unpacked(const Bytes& bytes) { return nlohmann::json::parse(to_text(bytes)); }

}  // namespace

nlohmann::json as_received(const nlohmann::json& document) { return unpacked(packed(document)); }

nlohmann::json broadcast(Communicator& comm, const nlohmann::json& document, int root, std::string_view what) {
  Bytes bytes = packed(document);
  comm.broadcast(bytes, root, what);
  return unpacked(bytes);
}

nlohmann::json gather(Communicator& comm, const nlohmann::json& document, std::string_view what) {
  nlohmann::json all = nlohmann::json::array();
  for (const Bytes& each : comm.gather(packed(document), what)) {
    all.push_back(unpacked(each));
  }
  return all;
}

}  // namespace reprieve::cluster
