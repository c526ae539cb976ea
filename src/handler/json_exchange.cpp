#include "handler/json_exchange.hpp"

#include <nlohmann/json.hpp>

namespace reprieve::handler {

namespace {

cluster::Bytes to_bytes(const nlohmann::json& document) {
  return cluster::to_bytes(document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

nlohmann::json from_bytes(const cluster::Bytes& bytes) { return nlohmann::json::parse(cluster::to_text(bytes)); }

}  // namespace

nlohmann::json broadcast(cluster::Communicator& comm, const nlohmann::json& document, int root, std::string_view what) {
  cluster::Bytes bytes = to_bytes(document);
  comm.broadcast(bytes, root, what);
  return from_bytes(bytes);
}

nlohmann::json gather(cluster::Communicator& comm, const nlohmann::json& document, std::string_view what) {
  nlohmann::json all = nlohmann::json::array();
  for (const cluster::Bytes& each : comm.gather(to_bytes(document), what)) {
    all.push_back(from_bytes(each));
  }
  return all;
}

}  // namespace reprieve::handler
