// SPDX-License-Identifier: BSD-3-Clause
#include "termination/metadata_source.hpp"

#include <cstdlib>
#include <utility>

#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "termination/metadata_answers.hpp"

namespace reprieve::termination {

namespace {

using std::chrono::milliseconds;

constexpr const char* kLinkLocal = "http://169.254.169.254";
constexpr int kOk = 200;
constexpr int kUnauthorized = 401;
constexpr int kNotFound = 404;
constexpr HttpLimits kLimits{};
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

class GceSource : public PolledSource {
 public:
  explicit GceSource(std::string endpoint) : instance_(std::move(endpoint) + "/computeMetadata/v1/instance/") {}
  [[nodiscard]] std::string name() const override { return metadata_server_name(MetadataServer::gce); }
  [[nodiscard]] bool keeps_asking() const override { return true; }

  std::optional<Finding> ask(const std::stop_token& stop) override {
    const auto answers = exchange({HttpRequest{.url = instance_ + "maintenance-event", .headers = {kGceFlavor}},
                                   HttpRequest{.url = instance_ + "preempted", .headers = {kGceFlavor}}},
                                  kLimits, stop);
    return gce_finding(body_of(answers[0], "maintenance-event"), body_of(answers[1], "preempted"));
  }

 private:
  std::string instance_;
};

class AwsSource : public PolledSource {
 public:
  explicit AwsSource(std::string endpoint) : latest_(std::move(endpoint) + "/latest/") {}
  [[nodiscard]] std::string name() const override { return metadata_server_name(MetadataServer::aws); }
  [[nodiscard]] bool keeps_asking() const override { return true; }

  std::optional<Finding> ask(const std::stop_token& stop) override {
    auto answers = ask_with_token(stop);
    if (answers[0].status == kUnauthorized) {
      token_.clear();  // it has run out
      answers = ask_with_token(stop);
    }
    if (answered(answers[0]).status != kNotFound) {  // which means that nothing is planned
      return aws_instance_action(body_of(answers[0], "spot/instance-action"), WallClock::now());
    }
    if (answered(answers[1]).status != kNotFound) {
      return aws_rebalance(body_of(answers[1], "events/recommendations/rebalance"));
    }
    return std::nullopt;
  }

 private:
  std::vector<HttpAnswer> ask_with_token(const std::stop_token& stop) {
    if (token_.empty()) {
      const HttpRequest request{.method = "PUT", .url = latest_ + "api/token", .headers = {kAwsLifetime}};
      token_ = body_of(exchange(request, kLimits, stop), "a token");
    }
    const std::vector<std::string> headers{"X-aws-ec2-metadata-token: " + token_};
    return exchange({HttpRequest{.url = latest_ + "meta-data/spot/instance-action", .headers = headers},
                     HttpRequest{.url = latest_ + "meta-data/events/recommendations/rebalance", .headers = headers}},
                    kLimits, stop);
  }

  std::string latest_;
  std::string token_;
};

class AzureSource : public PolledSource {
 public:
  explicit AzureSource(std::string endpoint) : endpoint_(std::move(endpoint)) {}
  [[nodiscard]] std::string name() const override { return metadata_server_name(MetadataServer::azure); }
  [[nodiscard]] bool keeps_asking() const override { return true; }

  std::optional<Finding> ask(const std::stop_token& stop) override {
    if (machine_.empty()) {  // events of the other machines of a scale set are shown as well
      const auto answer =
          exchange(HttpRequest{.url = endpoint_ + kAzureName, .headers = {kAzureFlavor}}, kLimits, stop);
      machine_ = answer.error.empty() && answer.status == kOk ? answer.body : "";
    }
    const HttpRequest request{.url = endpoint_ + kAzureEvents, .headers = {kAzureFlavor}};
    const auto answer = exchange(request, std::exchange(asked_, true) ? kLimits : kFirstAzureLimits, stop);
    AzureEvents events = azure_events(body_of(answer, "scheduledevents"), machine_, WallClock::now());
    events_ = std::move(events.event_ids);
    return events.finding;
  }

  void saved() override {
    if (events_.empty()) {
      return;
    }
    const HttpRequest request{.method = "POST",
                              .url = endpoint_ + kAzureEvents,
                              .headers = {kAzureFlavor, "Content-Type: application/json"},
                              .body = azure_acknowledgement(events_)};
    static_cast<void>(body_of(exchange(request, kLimits), "the acknowledgement of its events"));
  }

 private:
  std::string endpoint_;
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

std::vector<std::string> endpoint_variables(MetadataServer server) {
  switch (server) {
    case MetadataServer::gce:
      return {"GCE_METADATA_HOST", "GCE_METADATA_IP"};
    case MetadataServer::aws:
      return {"AWS_EC2_METADATA_SERVICE_ENDPOINT"};
    case MetadataServer::azure:
      return {"AZURE_METADATA_SERVICE_ENDPOINT"};
    case MetadataServer::none:
      break;
  }
  return {};
}

std::optional<std::string> named_endpoint(MetadataServer server, const EnvironmentLookup& environment) {
  for (const std::string& name : endpoint_variables(server)) {
    if (auto value = environment(name)) {
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string metadata_server_name(MetadataServer server) {
  switch (server) {
    case MetadataServer::gce:
      return "metadata server of GCE";
    case MetadataServer::aws:
      return "metadata server of AWS";
    case MetadataServer::azure:
      return "metadata server of Azure";
    case MetadataServer::none:
      break;
  }
  return "no metadata server";
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
  std::string endpoint = metadata_endpoint(server, environment);
  switch (server) {
    case MetadataServer::gce:
      return std::make_unique<GceSource>(std::move(endpoint));
    case MetadataServer::aws:
      return std::make_unique<AwsSource>(std::move(endpoint));
    case MetadataServer::azure:
      return std::make_unique<AzureSource>(std::move(endpoint));
    case MetadataServer::none:
      break;
  }
  throw UsageError("there is no such metadata server");
}

}  // namespace reprieve::termination
