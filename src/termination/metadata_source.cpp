// SPDX-License-Identifier: BSD-3-Clause
#include "termination/metadata_source.hpp"

#include <strings.h>  // NOLINT: strcasecmp is POSIX

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/events.hpp"
#include "core/log.hpp"
#include "core/threads.hpp"
#include "core/values.hpp"
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
  if (resources == event.end() || !resources->is_array()) {
    return true;
  }
  return std::any_of(resources->begin(), resources->end(), [&](const Json& name) {
    return name.is_string() && ::strcasecmp(name.get_ref<const std::string&>().c_str(), machine.c_str()) == 0;
  });
}

/// An event that has begun has no NotBefore.
Announcement azure_announcement(const Json& event, WallClock::time_point now) {
  const std::string type = text_at(event, "EventType"), not_before = text_at(event, "NotBefore"),
                    status = text_at(event, "EventStatus"), description = text_at(event, "Description");
  Announcement announcement{text_at(event, "EventId"), type + (status.empty() ? "" : ", " + status)};
  if (!description.empty()) {
    announcement.message += ": " + description;
  }
  if (not_before.empty()) {
    announcement.time_left = milliseconds(0);
    return announcement;
  }
  auto time = parse_http_time(not_before);
  time = time ? time : core::time_of_event(not_before);
  if (!time) {
    refuse("NotBefore of an event of Azure", not_before);
  }
  announcement.time_left = until(*time, now);
  announcement.message += ", not before " + not_before;
  return announcement;
}

}  // namespace

std::optional<WallClock::time_point> parse_http_time(const std::string& text) {
  return core::utc_time(text, "%a, %d %b %Y %H:%M:%S", " GMT");
}

std::optional<Announcement> gce_preempted(const std::string& value) {
  const std::string preempted = trimmed(value);
  if (preempted != "TRUE" && preempted != "FALSE") {
    refuse("instance/preempted", preempted);
  }
  return preempted == "TRUE" ? std::optional(Announcement{"preempted", "the spot machine is preempted", kGceSpotGrace})
                             : std::nullopt;
}

std::optional<Announcement> gce_maintenance(const std::string& event) {
  const std::string maintenance = trimmed(event);
  if (maintenance != "NONE" && maintenance != "MIGRATE_ON_HOST_MAINTENANCE" &&
      maintenance != "TERMINATE_ON_HOST_MAINTENANCE") {
    refuse("instance/maintenance-event", maintenance);
  }
  if (maintenance == "TERMINATE_ON_HOST_MAINTENANCE") {
    return Announcement{maintenance, maintenance};
  }
  return std::nullopt;
}

Announcement aws_instance_action(const std::string& body, WallClock::time_point now) {
  const Json document = parse_object("spot/instance-action", body);
  const std::string action = text_at(document, "action"), time = text_at(document, "time");
  if (action.empty()) {
    refuse("spot/instance-action", body);
  }
  Announcement announcement{action + ' ' + time, "spot interruption: " + action};
  if (const auto when = core::time_of_event(time)) {
    announcement.time_left = until(*when, now);
    announcement.message += " at " + time;
  }
  if (action == "hibernate") {
    announcement.time_left = milliseconds(0);  // begins at once, whatever the time says
  }
  return announcement;
}

Announcement aws_rebalance(const std::string& body) {
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
    Announcement announcement = azure_announcement(event, now);
    result.event_ids.push_back(announcement.id);
    if (!result.announcement || *announcement.time_left < *result.announcement->time_left) {
      result.announcement = std::move(announcement);
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

Poller::Poller(std::unique_ptr<PolledSource> source, std::chrono::milliseconds interval)
    : interval_(interval), source_(std::move(source)) {
  const core::SignalsBlocked blocked;
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void Poller::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (source_->keeps_asking() || !notice()) {
      ask_once(stop);
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, interval_, [] { return false; });
  }
}

void Poller::ask_once(const std::stop_token& stop) {
  const std::lock_guard asking(asking_);
  try {
    take(source_->ask(stop));
  } catch (const std::exception& error) {
    if (!stop.stop_requested()) {
      report_failure(std::string(": ") + error.what());
    }
  } catch (...) {
    report_failure("");
  }
}

void Poller::report_failure(const std::string& what) {
  if (!std::exchange(failure_logged_, true)) {
    core::log::warning("notices from the {}: it failed, and is asked again{}", source_->name(), what);
  }
}

void Poller::take(const std::optional<Announcement>& announcement) {
  const std::lock_guard lock(mutex_);
  if (!announcement) {
    id_.clear();
    acknowledged_.clear();
    return;
  }
  const bool is_new = announcement->id.empty() || announcement->id != id_;
  id_ = announcement->id;
  if (announcement->is_hint) {
    hint_ = is_new ? std::optional(announcement->message) : hint_;
    return;
  }
  if (!id_.empty() && id_ == acknowledged_) {
    return;
  }
  const auto now = Clock::now();
  const auto deadline =
      announcement->time_left ? std::optional(core::later(now, *announcement->time_left)) : std::nullopt;
  if (!notice_) {
    notice_ = LocalNotice{source_->name(), announcement->message, now, deadline};
    any_ = true;
  } else if (deadline && (!notice_->deadline || *deadline < *notice_->deadline)) {
    notice_->deadline = deadline;
    notice_->message = announcement->message;
  }
}

std::optional<LocalNotice> Poller::notice() const {
  const std::lock_guard lock(mutex_);
  return notice_;
}

std::optional<std::string> Poller::take_hint() {
  const std::lock_guard lock(mutex_);
  return std::exchange(hint_, std::nullopt);
}

void Poller::saved() {
  if (!notice()) {
    return;
  }
  thread_.request_stop();  // a question that is under way gives up: the process is about to leave
  const std::lock_guard asking(asking_);
  core::log::or_warn("a metadata server did not take the report that the state is saved", [this] { source_->saved(); });
}

void Poller::acknowledge() {
  const std::lock_guard lock(mutex_);
  if (notice_) {
    acknowledged_ = id_;
  }
  notice_.reset();
  any_ = false;
}

namespace {

constexpr const char* kLinkLocal = "http://169.254.169.254";
constexpr int kOk = 200;
constexpr int kUnauthorized = 401;
constexpr int kNotFound = 404;
constexpr HttpLimits kLimits{.connect = milliseconds(3000), .whole = milliseconds(10'000)};  // busy hosts answer late
/// While the process waits to leave.
constexpr HttpLimits kLimitsAtEnd{};
/// The first question for scheduled events switches the service on, which takes Azure up to two minutes.
constexpr HttpLimits kFirstAzureLimits{.connect = milliseconds(2000), .whole = milliseconds(150'000)};

const std::string kGceFlavor = "Metadata-Flavor: Google";
const std::string kAzureFlavor = "Metadata: true";
const std::string kAzureEvents = "/metadata/scheduledevents?api-version=2020-07-01";
const std::string kAzureName = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";
/// Six hours, the longest that AWS allows.
const std::string kAwsLifetime = "X-aws-ec2-metadata-token-ttl-seconds: 21600";

/// @throws Error unless the server answered at all
const HttpAnswer& answered(const HttpAnswer& answer) {
  if (!answer.error.empty()) {
    throw Error(ErrorCode::io, answer.error);
  }
  return answer;
}

/// The body. @throws Error unless the server answered with 200
const std::string& body_of(const HttpAnswer& answer, const char* what) {
  if (answered(answer).status != kOk) {
    throw Error(ErrorCode::io, fmt::format("it answers {} to the question for {}", answer.status, what));
  }
  return answer.body;
}

/// The first announcement of some questions, in order. One that failed hides none of the others: it is thrown if there
/// is none.
std::optional<Announcement> first_announcement(
    std::initializer_list<std::function<std::optional<Announcement>()>> questions) {
  std::exception_ptr failure;
  for (const auto& question : questions) {
    try {
      if (auto announcement = question()) {
        return announcement;
      }
    } catch (const Error&) {
      failure = failure ? failure : std::current_exception();
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
  return std::nullopt;
}

class MetadataSource : public PolledSource {
 public:
  /// @param url  that of all questions begins so
  MetadataSource(MetadataServer server, std::string url) : url_(std::move(url)), server_(server) {}
  [[nodiscard]] std::string name() const override { return metadata_server_name(server_); }
  [[nodiscard]] bool keeps_asking() const override { return true; }

 protected:
  const std::string url_;

 private:
  MetadataServer server_;
};

class GceSource : public MetadataSource {
 public:
  explicit GceSource(const std::string& endpoint)
      : MetadataSource(MetadataServer::gce, endpoint + "/computeMetadata/v1/instance/") {}

  std::optional<Announcement> ask(const std::stop_token& stop) override {
    const auto answers = exchange({HttpRequest{.url = url_ + "maintenance-event", .headers = {kGceFlavor}},
                                   HttpRequest{.url = url_ + "preempted", .headers = {kGceFlavor}}},
                                  kLimits, stop);
    return first_announcement({[&] { return gce_preempted(body_of(answers[1], "preempted")); },
                               [&] { return gce_maintenance(body_of(answers[0], "maintenance-event")); }});
  }
};

class AwsSource : public MetadataSource {
 public:
  explicit AwsSource(const std::string& endpoint) : MetadataSource(MetadataServer::aws, endpoint + "/latest/") {}

  std::optional<Announcement> ask(const std::stop_token& stop) override {
    auto answers = ask_with_token(stop);
    if (answers[0].status == kUnauthorized) {
      token_.clear();  // it has run out
      answers = ask_with_token(stop);
    }
    using Found = std::optional<Announcement>;
    const auto is_planned = [](const HttpAnswer& answer) { return answered(answer).status != kNotFound; };
    return first_announcement(
        {[&] {
           return is_planned(answers[0])
                      ? Found(aws_instance_action(body_of(answers[0], "spot/instance-action"), WallClock::now()))
                      : std::nullopt;
         },
         [&] {
           return is_planned(answers[1]) ? Found(aws_rebalance(body_of(answers[1], "events/recommendations/rebalance")))
                                         : std::nullopt;
         }});
  }

 private:
  std::vector<HttpAnswer> ask_with_token(const std::stop_token& stop) {
    if (token_.empty()) {
      const HttpRequest request{.method = "PUT", .url = url_ + "api/token", .headers = {kAwsLifetime}};
      token_ = body_of(exchange(request, kLimits, stop), "a token");
    }
    const std::vector<std::string> headers{"X-aws-ec2-metadata-token: " + token_};
    return exchange({HttpRequest{.url = url_ + "meta-data/spot/instance-action", .headers = headers},
                     HttpRequest{.url = url_ + "meta-data/events/recommendations/rebalance", .headers = headers}},
                    kLimits, stop);
  }

  std::string token_;
};

class AzureSource : public MetadataSource {
 public:
  explicit AzureSource(const std::string& endpoint) : MetadataSource(MetadataServer::azure, endpoint) {}

  std::optional<Announcement> ask(const std::stop_token& stop) override {
    if (machine_.empty()) {  // events of the other machines of a scale set are shown as well
      const auto answer = exchange(HttpRequest{.url = url_ + kAzureName, .headers = {kAzureFlavor}}, kLimits, stop);
      machine_ = answer.error.empty() && answer.status == kOk ? answer.body : "";
    }
    const HttpRequest request{.url = url_ + kAzureEvents, .headers = {kAzureFlavor}};
    const auto answer = exchange(request, std::exchange(asked_, true) ? kLimits : kFirstAzureLimits, stop);
    if (machine_.empty()) {
      body_of(answer, "scheduledevents");
      throw Error(ErrorCode::io, "it does not say the name of this machine: no event is known to be its own");
    }
    AzureEvents events = azure_events(body_of(answer, "scheduledevents"), machine_, WallClock::now());
    events_ = std::move(events.event_ids);
    return events.announcement;
  }

  void saved() override {
    if (events_.empty()) {
      return;
    }
    const HttpRequest request{.method = "POST",
                              .url = url_ + kAzureEvents,
                              .headers = {kAzureFlavor, "Content-Type: application/json"},
                              .body = azure_acknowledgement(events_)};
    static_cast<void>(body_of(exchange(request, kLimitsAtEnd), "the acknowledgement of its events"));
  }

 private:
  std::string machine_;
  std::vector<std::string> events_;  ///< that take this machine away
  bool asked_ = false;
};

HttpRequest probe_of(MetadataServer server, const std::string& endpoint) {
  switch (server) {
    case MetadataServer::gce:
      return {.url = endpoint + "/computeMetadata/v1/instance/", .headers = {kGceFlavor}};
    case MetadataServer::aws:
      return {.method = "PUT", .url = endpoint + "/latest/api/token", .headers = {kAwsLifetime}};
    case MetadataServer::azure:
    case MetadataServer::none:
      break;
  }
  return {.url = endpoint + kAzureName, .headers = {kAzureFlavor}};
}

/// Other things answer on these addresses too, such as the pages of a captive portal.
bool is_itself(MetadataServer server, const HttpAnswer& answer) {
  const bool good = answer.error.empty() && answer.status == kOk && !answer.body.empty() &&
                    answer.body.find('<') == std::string::npos;
  return good && (server == MetadataServer::gce ? answer.flavor == "Google" : answer.flavor.empty());
}

/// What a server is called, and which variables give its address.
struct ServerTraits {
  const char* name;
  std::array<const char*, 2> variables;
};

/// In the order of the enumeration.
constexpr std::array<ServerTraits, 4> kServers{{
    {"no metadata server", {}},
    {"metadata server of GCE", {"GCE_METADATA_HOST", "GCE_METADATA_IP"}},
    {"metadata server of AWS", {"AWS_EC2_METADATA_SERVICE_ENDPOINT"}},
    {"metadata server of Azure", {"AZURE_METADATA_SERVICE_ENDPOINT"}},
}};

const ServerTraits& server_traits(MetadataServer server) { return kServers.at(static_cast<std::size_t>(server)); }

std::optional<std::string> named_endpoint(MetadataServer server, const EnvironmentLookup& environment) {
  for (const char* name : server_traits(server).variables) {
    if (auto value = name == nullptr ? std::nullopt : environment(name)) {
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string metadata_server_name(MetadataServer server) { return server_traits(server).name; }

bool is_metadata_server(const std::string& source) {
  return std::any_of(kServers.begin() + 1, kServers.end(), [&](const auto& server) { return source == server.name; });
}

bool names_endpoint(MetadataServer server, const EnvironmentLookup& environment) {
  return named_endpoint(server, environment).has_value();
}

bool is_switched_off(MetadataServer server, const EnvironmentLookup& environment) {
  return server == MetadataServer::aws && environment("AWS_EC2_METADATA_DISABLED") == "true";
}

std::string metadata_endpoint(MetadataServer server, const EnvironmentLookup& environment) {
  std::string endpoint = named_endpoint(server, environment).value_or(kLinkLocal);
  if (endpoint.find("://") == std::string::npos) {
    endpoint = "http://" + endpoint;
  }
  while (endpoint.ends_with('/')) {
    endpoint.pop_back();
  }
  return endpoint;
}

MetadataServer find_metadata_server(const std::vector<MetadataServer>& servers, const EnvironmentLookup& environment,
                                    milliseconds limit) {
  std::vector<HttpRequest> probes;
  probes.reserve(servers.size());
  for (const MetadataServer server : servers) {
    probes.push_back(probe_of(server, metadata_endpoint(server, environment)));
  }
  if (probes.empty()) {
    return MetadataServer::none;
  }
  if (!http_problem().empty()) {
    core::log::warning("whether this is a machine of a cloud is not known: {}", http_problem());
    return MetadataServer::none;
  }
  const auto answers = exchange(probes, {.connect = limit, .whole = limit});
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (is_itself(servers[i], answers[i])) {
      return servers[i];
    }
  }
  return MetadataServer::none;
}

std::unique_ptr<PolledSource> make_metadata_source(MetadataServer server, const EnvironmentLookup& environment) {
  const std::string endpoint = metadata_endpoint(server, environment);
  switch (server) {
    case MetadataServer::gce:
      return std::make_unique<GceSource>(endpoint);
    case MetadataServer::aws:
      return std::make_unique<AwsSource>(endpoint);
    case MetadataServer::azure:
      return std::make_unique<AzureSource>(endpoint);
    case MetadataServer::none:
      break;
  }
  throw UsageError("there is no such metadata server");
}

}  // namespace reprieve::termination
