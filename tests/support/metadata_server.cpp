// SPDX-License-Identifier: BSD-3-Clause
#include "support/metadata_server.hpp"

#include <array>
#include <ctime>

namespace reprieve::test {

namespace {

std::string header(const ServedRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

std::string time_in(std::chrono::seconds time, const char* format) {
  const std::time_t when = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() + time);
  std::tm parts{};
  gmtime_r(&when, &parts);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

}  // namespace

std::string iso_time_in(std::chrono::seconds time) { return time_in(time, "%Y-%m-%dT%H:%M:%SZ"); }
std::string http_time_in(std::chrono::seconds time) { return time_in(time, "%a, %d %b %Y %H:%M:%S GMT"); }

Environment MetadataServerDouble::environment(const std::string& name) const {
  Environment environment{{"REPRIEVE_PLATFORM", name}};
  if (name == "gce") {
    environment["GCE_METADATA_IP"] = server_.address();
  } else {
    environment[name == "aws" ? "AWS_EC2_METADATA_SERVICE_ENDPOINT" : "AZURE_METADATA_SERVICE_ENDPOINT"] =
        server_.url();
  }
  return environment;
}

void MetadataServerDouble::set_form(ServedReply::Form form, std::chrono::milliseconds delay) {
  const std::lock_guard lock(mutex_);
  form_ = form;
  delay_ = delay;
}

void MetadataServerDouble::expire_tokens() {
  const std::lock_guard lock(mutex_);
  tokens_.clear();
}

std::vector<std::string> MetadataServerDouble::acknowledgements() const {
  const std::lock_guard lock(mutex_);
  return acknowledgements_;
}

ServedReply MetadataServerDouble::answer(const ServedRequest& request) {
  const std::lock_guard lock(mutex_);
  ServedReply reply{404, "not found"};
  if (request.target.starts_with("/computeMetadata/v1/")) {
    reply = gce(request);
  } else if (request.target.starts_with("/latest/")) {
    reply = aws(request);
  } else if (request.target.starts_with("/metadata/")) {
    reply = azure(request);
  }
  reply.form = form_;
  reply.delay = delay_;
  if (request.target.find(status_of_) != std::string::npos) {
    reply.status = status_.value_or(reply.status);
  }
  return reply;
}

ServedReply MetadataServerDouble::gce(const ServedRequest& request) const {
  if (request.method != "GET" || header(request, "metadata-flavor") != "Google") {
    return {403, "Your client does not have permission to get URL"};
  }
  ServedReply reply{200, "attributes/\n", {"Metadata-Flavor: Google", "Content-Type: application/text"}};
  if (request.target.ends_with("/instance/maintenance-event")) {
    reply.body = maintenance_event_;
  } else if (request.target.ends_with("/instance/preempted")) {
    reply.body = preempted_;
  }
  return reply;
}

ServedReply MetadataServerDouble::aws(const ServedRequest& request) {
  if (request.target == "/latest/api/token") {
    if (request.method != "PUT" || header(request, "x-aws-ec2-metadata-token-ttl-seconds").empty()) {
      return {400, "Bad Request"};
    }
    const std::string token = "AQAEAtoken" + std::to_string(++tokens_given_);
    tokens_.insert(token);
    return {200, token};
  }
  if (request.method != "GET" || !tokens_.contains(header(request, "x-aws-ec2-metadata-token"))) {
    return {401, "Unauthorized"};
  }
  std::string body;
  if (request.target == "/latest/meta-data/spot/instance-action") {
    body = instance_action_;
  } else if (request.target == "/latest/meta-data/events/recommendations/rebalance") {
    body = rebalance_;
  }
  return body.empty() ? ServedReply{404, "<html>Not Found</html>"} : ServedReply{200, body};
}

ServedReply MetadataServerDouble::azure(const ServedRequest& request) {
  if (header(request, "metadata") != "true" || request.target.find("api-version=") == std::string::npos) {
    return {400, R"({"error": "Bad request"})"};
  }
  if (request.target.starts_with("/metadata/instance/compute/name?")) {
    return {200, "node-0"};
  }
  if (!request.target.starts_with("/metadata/scheduledevents?")) {
    return {404, "{}"};
  }
  if (request.method == "POST") {
    acknowledgements_.push_back(request.body);
    return {200, ""};
  }
  return {200, scheduled_events_};
}

}  // namespace reprieve::test
