// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Structs that list their fields once, with their names, for JSON in both directions and for messages between ranks:
///
///     struct Commit {
///       std::uint64_t run = 0;
///       std::optional<std::string> place{};
///       REPRIEVE_FIELDS(run, place)
///     };
///
/// A `std::optional` without a value is not written.

#include <cmath>
#include <concepts>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#define REPRIEVE_FIELD(member) field(#member, fields_of_this.member);
/// Visits each member with its name, which is that of the field.
#define REPRIEVE_FIELDS(...)                                               \
  static void fields(auto& fields_of_this, auto&& field) {                 \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(REPRIEVE_FIELD, __VA_ARGS__)) \
  }

namespace reprieve::core {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

template <class T>
concept HasFields = requires(const T& value) {
  T::fields(value, [](const char*, const auto&) {});
};

template <class T>
OrderedJson json_of(const std::optional<T>& value);
template <class T>
OrderedJson json_of(const std::vector<T>& list);
template <class T>
OrderedJson json_of(const std::map<std::string, T>& map);

template <class T>
OrderedJson json_of(const T& value) {
  if constexpr (HasFields<T>) {
    OrderedJson json = OrderedJson::object();
    T::fields(value, [&](const char* name, const auto& field) {
      if (OrderedJson written = json_of(field); !written.is_null()) {
        json[name] = std::move(written);
      }
    });
    return json;
  } else {
    return value;
  }
}
template <class T>
OrderedJson json_of(const std::optional<T>& value) {
  return value ? json_of(*value) : OrderedJson();
}
template <class T>
OrderedJson json_of(const std::vector<T>& list) {
  OrderedJson json = OrderedJson::array();
  for (const T& item : list) {
    json.push_back(json_of(item));
  }
  return json;
}
template <class T>
OrderedJson json_of(const std::map<std::string, T>& map) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [key, value] : map) {
    json[key] = json_of(value);
  }
  return json;
}

/// Takes over a value that is of the type. Of a struct it takes over what is; a field that is missing or of another
/// type keeps its default.
/// @return whether all that is there is of its type
inline bool read(const Json& json, std::string& value) {
  return json.is_string() && (value = json.get<std::string>(), true);
}
inline bool read(const Json& json, bool& value) { return json.is_boolean() && (value = json.get<bool>(), true); }
inline bool read(const Json& json, double& value) {
  return json.is_number() && std::isfinite(json.get<double>()) && (value = json.get<double>(), true);
}
inline bool read(const Json& json, Json& value) { return (value = json, true); }
template <std::integral T>
bool read(const Json& json, T& value) {
  const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<std::uint64_t>())
                                              : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
  return fits && (value = json.get<T>(), true);
}
template <HasFields T>
bool read(const Json& json, T& value);
template <class T>
bool read(const Json& json, std::vector<T>& list);
template <class T>
bool read(const Json& json, std::map<std::string, T>& map);

template <class T>
bool read(const Json& json, std::optional<T>& value) {
  T there{};
  return read(json, there) && (value = std::move(there), true);
}
template <class T>
bool read(const Json& json, std::vector<T>& list) {
  std::vector<T> found;
  for (const Json& item : json.is_array() ? json : Json::array()) {
    if (!read(item, found.emplace_back())) {
      return false;
    }
  }
  list = std::move(found);
  return json.is_array();
}
template <class T>
bool read(const Json& json, std::map<std::string, T>& map) {
  for (auto item = json.begin(); json.is_object() && item != json.end(); ++item) {
    if (!read(*item, map[item.key()])) {
      return false;
    }
  }
  return json.is_object();
}
template <class T>
bool read_field(const Json& json, const char* name, T& value) {
  const auto found = json.find(name);
  return found == json.end() || read(*found, value);
}
template <HasFields T>
bool read(const Json& json, T& value) {
  bool is_good = json.is_object();
  if (is_good) {
    T::fields(value, [&](const char* name, auto& field) { is_good = read_field(json, name, field) && is_good; });
  }
  return is_good;
}

/// The struct, if all its fields are there but for those that are optional, and all are of their types. Others may
/// stand beside them.
template <HasFields T>
std::optional<T> whole_from_json(const Json& json) {
  T value{};
  if (!read(json, value)) {
    return std::nullopt;
  }
  Json completed = json;
  completed.merge_patch(json_of(value));
  return completed == json ? std::optional(std::move(value)) : std::nullopt;
}

}  // namespace reprieve::core
