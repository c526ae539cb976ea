#include "handler/json_broadcast.hpp"

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace reprieve::handler {

nlohmann::json broadcast(cluster::Communicator& comm, const nlohmann::json& document, int root, std::string_view what) {
  const std::string text = document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto view = std::as_bytes(std::span(text));
  cluster::Bytes bytes(view.begin(), view.end());
  comm.broadcast(bytes, root, what);
  const auto* first = reinterpret_cast<const char*>(bytes.data());
  return nlohmann::json::parse(first, first + bytes.size());
}

}  // namespace reprieve::handler
