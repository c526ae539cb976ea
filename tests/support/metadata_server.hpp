// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The metadata servers of GCE, AWS and Azure in one, as their published interfaces describe them: each refuses
/// requests without the headers that it wants.

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/http_server.hpp"
#include "support/process.hpp"

namespace reprieve::test {

class MetadataServerDouble {
 public:
  MetadataServerDouble() : server_([this](const ServedRequest& request) { return answer(request); }) {}

  /// The variables that lead a program here instead of to the cloud @p name ("gce", "aws", "azure").
  [[nodiscard]] Environment environment(const std::string& name) const;
  [[nodiscard]] const HttpServer& http() const noexcept { return server_; }

  /// All answers take this form, whatever is asked.
  void set_form(ServedReply::Form form, std::chrono::milliseconds delay = {});
  /// Every request, or each whose target has that in it, gets this status.
  void set_status(std::optional<int> status, const std::string& of = {}) {
    set(status_, status);
    set(status_of_, of);
  }

  /// GCE.
  void set_maintenance_event(const std::string& value) { set(maintenance_event_, value); }
  void set_preempted(const std::string& value) { set(preempted_, value); }
  /// AWS: the bodies; empty: nothing is planned.
  void set_instance_action(const std::string& body) { set(instance_action_, body); }
  void set_rebalance(const std::string& body) { set(rebalance_, body); }
  /// AWS: the tokens given out so far are no longer good.
  void expire_tokens();
  /// Azure: the body of scheduledevents.
  void set_scheduled_events(const std::string& body) { set(scheduled_events_, body); }
  /// Azure: the bodies of the requests to go ahead.
  [[nodiscard]] std::vector<std::string> acknowledgements() const;

 private:
  template <class Value>
  void set(Value& member, const Value& value) {
    const std::lock_guard lock(mutex_);
    member = value;
  }
  ServedReply answer(const ServedRequest& request);
  ServedReply gce(const ServedRequest& request) const;
  ServedReply aws(const ServedRequest& request);
  ServedReply azure(const ServedRequest& request);

  mutable std::mutex mutex_;
  ServedReply::Form form_ = ServedReply::Form::proper;
  std::chrono::milliseconds delay_{0};
  std::optional<int> status_;
  std::string status_of_;
  std::string maintenance_event_ = "NONE";
  std::string preempted_ = "FALSE";
  std::string instance_action_;
  std::string rebalance_;
  std::set<std::string> tokens_;
  int tokens_given_ = 0;
  std::string scheduled_events_ = R"({"DocumentIncarnation": 1, "Events": []})";
  std::vector<std::string> acknowledgements_;
  HttpServer server_;  ///< last: its threads use the rest
};

/// A time of AWS, so many seconds from now: "2026-03-01T12:00:00Z".
std::string iso_time_in(std::chrono::seconds time);
/// A time of Azure: "Sun, 01 Mar 2026 12:00:00 GMT".
std::string http_time_in(std::chrono::seconds time);

}  // namespace reprieve::test
