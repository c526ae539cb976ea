// SPDX-License-Identifier: BSD-3-Clause
#include "core/events.hpp"

#include <cmath>
#include <concepts>
#include <map>
#include <type_traits>
#include <utility>

#include "core/strict_json.hpp"

namespace reprieve::core {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

namespace {

template <class T>
concept HasFields = requires(const T& value) {
  T::fields(value, [](const char*, const auto&) {});
};

template <class T>
OrderedJson value_of(const std::optional<T>& value);
template <class T>
OrderedJson value_of(const std::vector<T>& list);

template <class T>
OrderedJson value_of(const T& value) {
  if constexpr (HasFields<T>) {
    OrderedJson json = OrderedJson::object();
    T::fields(value, [&](const char* name, const auto& field) {
      if (OrderedJson written = value_of(field); !written.is_null()) {
        json[name] = std::move(written);
      }
    });
    return json;
  } else if constexpr (std::is_same_v<T, SaveReason>) {
    return core::to_json(value);
  } else {
    return value;
  }
}
template <class T>
OrderedJson value_of(const std::optional<T>& value) {
  return value ? value_of(*value) : OrderedJson();
}
template <class T>
OrderedJson value_of(const std::vector<T>& list) {
  OrderedJson json = OrderedJson::array();
  for (const T& item : list) {
    json.push_back(value_of(item));
  }
  return json;
}

// Reading: whether the value is of the type. If it is not, the field keeps its default.

bool read(const Json& json, std::string& value) { return json.is_string() && (value = json.get<std::string>(), true); }
bool read(const Json& json, bool& value) { return json.is_boolean() && (value = json.get<bool>(), true); }
bool read(const Json& json, double& value) {
  return json.is_number() && std::isfinite(json.get<double>()) && (value = json.get<double>(), true);
}
template <std::integral T>
bool read(const Json& json, T& value) {
  const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<std::uint64_t>())
                                              : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
  return fits && (value = json.get<T>(), true);
}
bool read(const Json& json, Json& value) { return (value = json, true); }
bool read(const Json& json, SaveReason& reason);
template <HasFields T>
bool read(const Json& json, T& value);
template <class T>
bool read(const Json& json, std::vector<T>& list);

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
  return true;
}

template <class T>
void read_field(const Json& json, const char* name, T& value) {
  if (const auto found = json.find(name); found != json.end()) {
    read(*found, value);
  }
}

template <HasFields T>
bool read(const Json& json, T& value) {
  if (!json.is_object()) {
    return false;
  }
  T::fields(value, [&](const char* name, auto& field) { read_field(json, name, field); });
  return true;
}

bool read(const Json& json, SaveReason& reason) {
  if (!json.is_object()) {
    return false;
  }
  using Kind = SaveReason::Kind;
  std::string kind;
  read_field(json, "kind", kind);
  reason.kind = kind == "preemption" ? Kind::preemption : kind == "periodic" ? Kind::periodic : Kind::user;
  read_field(json, "rank", reason.rank);
  read_field(json, "host", reason.host);
  read_field(json, "source", reason.source);
  read_field(json, "message", reason.message);
  return true;
}

using Maker = Event (*)(const Json& line);

template <std::size_t... Places>
std::map<std::string, Maker> makers_of(std::index_sequence<Places...> /*places*/) {
  return {{std::variant_alternative_t<Places, Event>::kName, [](const Json& line) {
             std::variant_alternative_t<Places, Event> event;
             read(line, event);
             return Event(std::move(event));
           }}...};
}

}  // namespace

Json to_json(const SaveReason& reason) {
  return {{"kind", to_string(reason.kind)},
          {"rank", reason.rank},
          {"host", reason.host},
          {"source", reason.source},
          {"message", reason.message}};
}

OrderedJson to_json(const LoggedEvent& logged) {
  return std::visit(
      [&](const auto& event) {
        OrderedJson json{{"event", event.kName}, {"time", logged.time}};
        json["monotonic_s"] = value_of(logged.monotonic_s);
        json.update(value_of(event));
        return json;
      },
      logged.event);
}

std::optional<LoggedEvent> event_from_json(const Json& line) {
  static const std::map<std::string, Maker> kMakers = makers_of(std::make_index_sequence<std::variant_size_v<Event>>());
  if (!line.is_object() || !line.contains("event")) {
    return std::nullopt;
  }
  std::string name;
  read_field(line, "event", name);
  const auto maker = kMakers.find(name);
  LoggedEvent logged{(maker == kMakers.end() ? kMakers.at("") : maker->second)(line), "", std::nullopt};
  read_field(line, "time", logged.time);
  read_field(line, "monotonic_s", logged.monotonic_s);
  return logged;
}

std::optional<LoggedEvent> event_from_text(const std::string& line) {
  return nested_too_deep(line) ? std::nullopt : event_from_json(Json::parse(line, nullptr, false));
}

events::Step step_of(const Event& event) {
  return std::visit(
      [](const auto& one) -> events::Step {
        if constexpr (requires { one.run_calls; }) {
          return one.run_calls;
        } else {
          return std::nullopt;
        }
      },
      event);
}

}  // namespace reprieve::core
