// SPDX-License-Identifier: BSD-3-Clause
#include "core/drill_orders.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/run_record.hpp"
#include "reprieve/error.hpp"

namespace reprieve::core {

namespace {

using Json = nlohmann::json;

/// A step that a drill does not ask for is left out.
std::optional<std::uint64_t> step_in(const Json& orders, const char* key) {
  return orders.contains(key) ? std::optional(orders.at(key).get<std::uint64_t>()) : std::nullopt;
}

void put_step(Json& orders, const char* key, const std::optional<std::uint64_t>& step) {
  if (step) {
    orders[key] = *step;
  }
}

}  // namespace

std::string read_drill_orders() {
  const char* directory = std::getenv(kRunDirectoryVariable);
  if (directory == nullptr || *directory == '\0') {
    return "";
  }
  std::ifstream file(std::filesystem::path(directory) / kDrillOrdersName);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<DrillOrders> parse_drill_orders(const std::string& text) {
  if (text.empty()) {
    return std::nullopt;
  }
  try {
    const Json json = Json::parse(text);
    DrillOrders orders{json.at("subdirectory").get<std::string>(), json.at("leave_at_once").get<bool>(),
                       step_in(json, "save_at"), step_in(json, "leave_at")};
    const std::filesystem::path name = orders.subdirectory;
    if (!name.has_filename() || name != name.filename() || name == ".." || name == ".") {
      throw ConfigError("the orders of a drill name no directory: " + text);
    }
    return orders;
  } catch (const Json::exception& error) {
    throw ConfigError(std::string("the orders of a drill cannot be read: ") + error.what());
  }
}

std::string to_text(const DrillOrders& orders) {
  Json json{{"subdirectory", orders.subdirectory}, {"leave_at_once", orders.leave_at_once}};
  put_step(json, "save_at", orders.save_at);
  put_step(json, "leave_at", orders.leave_at);
  return json.dump();
}

}  // namespace reprieve::core
