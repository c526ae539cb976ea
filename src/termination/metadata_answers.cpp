// SPDX-License-Identifier: BSD-3-Clause
#include "termination/metadata_answers.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/log.hpp"
#include "core/saturating_time.hpp"
#include "reprieve/error.hpp"

namespace reprieve::termination {

namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

/// How long a preempted spot machine of GCE has.
constexpr std::chrono::seconds kGceSpotGrace{30};
/// How much of an answer is shown in an error.
constexpr std::size_t kShown = 80;

[[noreturn]] void refuse(const std::string& what, const std::string& found) {
  std::string shown = found.substr(0, kShown);
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  throw Error(ErrorCode::io, fmt::format("{} is not what the published interface says: \"{}\"{}", what, shown,
                                         found.size() > kShown ? "..." : ""));
}

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  const auto end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

Json parse_object(const std::string& what, const std::string& body) {
  Json document = Json::parse(body, nullptr, false);
  if (!document.is_object()) {
    refuse(what, body);
  }
  return document;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<WallClock::time_point> parse_utc(const std::string& text, const char* format, std::string& rest) {
  std::tm parts{};
  const char* end = strptime(text.c_str(), format, &parts);
  if (end == nullptr) {
    return std::nullopt;
  }
  rest = end;
  const std::time_t time = timegm(&parts);
  return time == -1 ? std::nullopt : std::optional(core::wall_clock_time(time));
}

/// Not below zero: what should have happened already happens now.
milliseconds until(WallClock::time_point time, WallClock::time_point now) {
  return std::max(milliseconds(0), core::between<milliseconds>(now, time));
}

bool takes_machine_away(const std::string& type) {
  static constexpr std::array<std::string_view, 4> kTypes{"Preempt", "Terminate", "Reboot", "Redeploy"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

bool concerns(const Json& event, const std::string& machine) {
  const auto resources = event.find("Resources");
  if (machine.empty() || resources == event.end() || !resources->is_array()) {
    return true;
  }
  return std::any_of(resources->begin(), resources->end(), [&](const Json& name) {
    return name.is_string() && name.get_ref<const std::string&>() == machine;
  });
}

/// An event that has begun has no NotBefore any more.
Finding azure_finding(const Json& event, WallClock::time_point now) {
  const std::string type = text_at(event, "EventType"), not_before = text_at(event, "NotBefore"),
                    status = text_at(event, "EventStatus"), description = text_at(event, "Description");
  Finding finding{text_at(event, "EventId"), type + (status.empty() ? "" : ", " + status)};
  if (!description.empty()) {
    finding.message += ": " + description;
  }
  if (not_before.empty()) {
    finding.time_left = milliseconds(0);
    return finding;
  }
  auto time = parse_http_time(not_before);
  time = time ? time : parse_iso_time(not_before);
  if (!time) {
    refuse("NotBefore of an event of Azure", not_before);
  }
  finding.time_left = until(*time, now);
  finding.message += ", not before " + not_before;
  return finding;
}

}  // namespace

std::optional<WallClock::time_point> parse_iso_time(const std::string& text) {
  std::string rest;
  const auto time = parse_utc(text, "%Y-%m-%dT%H:%M:%S", rest);
  if (rest.starts_with('.')) {
    rest.erase(0, std::min(rest.size(), rest.find_first_not_of("0123456789", 1)));
  }
  return rest == "Z" ? time : std::nullopt;
}

std::optional<WallClock::time_point> parse_http_time(const std::string& text) {
  std::string rest;
  const auto time = parse_utc(text, "%a, %d %b %Y %H:%M:%S", rest);
  return rest == " GMT" ? time : std::nullopt;
}

std::optional<Finding> gce_finding(const std::string& maintenance_event, const std::string& preempted) {
  const std::string maintenance = trimmed(maintenance_event), spot = trimmed(preempted);
  if (maintenance != "NONE" && maintenance != "MIGRATE_ON_HOST_MAINTENANCE" &&
      maintenance != "TERMINATE_ON_HOST_MAINTENANCE") {
    refuse("instance/maintenance-event", maintenance);
  }
  if (spot != "TRUE" && spot != "FALSE") {
    refuse("instance/preempted", spot);
  }
  if (spot == "TRUE") {
    return Finding{"preempted", "the spot machine is preempted", kGceSpotGrace};
  }
  if (maintenance == "TERMINATE_ON_HOST_MAINTENANCE") {
    return Finding{maintenance, maintenance};
  }
  return std::nullopt;
}

Finding aws_instance_action(const std::string& body, WallClock::time_point now) {
  const Json document = parse_object("spot/instance-action", body);
  const std::string action = text_at(document, "action"), time = text_at(document, "time");
  if (action.empty()) {
    refuse("spot/instance-action", body);
  }
  Finding finding{action + ' ' + time, "spot interruption: " + action};
  if (const auto when = parse_iso_time(time)) {
    finding.time_left = until(*when, now);
    finding.message += " at " + time;
  }
  if (action == "hibernate") {
    finding.time_left = milliseconds(0);  // begins at once, whatever the time says
  }
  return finding;
}

Finding aws_rebalance(const std::string& body) {
  const Json document = parse_object("events/recommendations/rebalance", body);
  const std::string time = text_at(document, "noticeTime");
  if (time.empty()) {
    refuse("events/recommendations/rebalance", body);
  }
  return {"rebalance " + time, "rebalance recommendation of " + time, {}, true};
}

AzureEvents azure_events(const std::string& body, const std::string& machine, WallClock::time_point now) {
  const Json document = parse_object("scheduledevents", body);
  const auto events = document.find("Events");
  if (events == document.end() || !events->is_array()) {
    refuse("scheduledevents", body);
  }
  AzureEvents result;
  for (const Json& event : *events) {
    if (!event.is_object() || text_at(event, "EventId").empty()) {
      refuse("an event of Azure", event.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    if (!takes_machine_away(text_at(event, "EventType")) || !concerns(event, machine)) {
      continue;
    }
    Finding finding = azure_finding(event, now);
    result.event_ids.push_back(finding.id);
    if (!result.finding || *finding.time_left < *result.finding->time_left) {
      result.finding = std::move(finding);
    }
  }
  return result;
}

std::string azure_acknowledgement(const std::vector<std::string>& event_ids) {
  Json requests = Json::array();
  for (const std::string& id : event_ids) {
    requests.push_back({{"EventId", id}});
  }
  return Json{{"StartRequests", requests}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace reprieve::termination
