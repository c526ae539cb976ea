#include "core/drill_orders.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/run_record.hpp"
#include "reprieve/error.hpp"

namespace reprieve::core {

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
    const auto json = nlohmann::json::parse(text);
    DrillOrders orders{json.at("subdirectory").get<std::string>(), json.at("leave_at_once").get<bool>()};
    const std::filesystem::path name = orders.subdirectory;
    if (!name.has_filename() || name != name.filename() || name == ".." || name == ".") {
      throw ConfigError("the orders of a drill name no directory: " + text);
    }
    return orders;
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(std::string("the orders of a drill cannot be read: ") + error.what());
  }
}

std::string to_text(const DrillOrders& orders) {
  return nlohmann::json{{"subdirectory", orders.subdirectory}, {"leave_at_once", orders.leave_at_once}}.dump();
}

}  // namespace reprieve::core
