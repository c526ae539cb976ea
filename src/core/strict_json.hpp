#pragma once

/// @file
/// Reading JSON that people write: what the parser would pass over in silence is an error.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace reprieve::core {

/// Parses a JSON object. @throws ConfigError with line and column if it is not JSON; if it is not an object; if an
/// object has a key twice
nlohmann::json parse_object(const std::string& text);

}  // namespace reprieve::core
