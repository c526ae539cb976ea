// SPDX-License-Identifier: BSD-3-Clause
#include "core/events.hpp"

#include <map>
#include <utility>

#include "core/strict_json.hpp"

namespace reprieve {

nlohmann::ordered_json json_of(const SaveReason& reason) {
  return {{"kind", to_string(reason.kind)},
          {"rank", reason.rank},
          {"host", reason.host},
          {"source", reason.source},
          {"message", reason.message}};
}

bool read(const nlohmann::json& json, SaveReason& reason) {
  if (!json.is_object()) {
    return false;
  }
  using Kind = SaveReason::Kind;
  using core::read_field;
  std::string kind;
  read_field(json, "kind", kind);
  reason.kind = kind == "preemption" ? Kind::preemption : kind == "periodic" ? Kind::periodic : Kind::user;
  read_field(json, "rank", reason.rank);
  read_field(json, "host", reason.host);
  read_field(json, "source", reason.source);
  read_field(json, "message", reason.message);
  return true;
}

}  // namespace reprieve

namespace reprieve::core {

namespace {

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

OrderedJson to_json(const LoggedEvent& logged) {
  return std::visit(
      [&](const auto& event) {
        OrderedJson json{{"event", event.kName}, {"time", logged.time}};
        json["monotonic_s"] = json_of(logged.monotonic_s);
        json.update(json_of(event));
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
