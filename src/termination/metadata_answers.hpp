// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the answers of the metadata servers mean. Pure: no network, and the time is given.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace reprieve::termination {

using WallClock = std::chrono::system_clock;

/// Something that a source found out.
struct Finding {
  /// Tells this announcement from the next of the same source, so that each is acted on once.
  std::string id;
  std::string message;
  /// Until the machine is taken, if the source knows.
  std::optional<std::chrono::milliseconds> time_left = {};
  /// The end is likely, but not announced: reason to save, not to leave.
  bool is_hint = false;
};

/// "2026-03-01T12:00:00Z", with or without a fraction of a second; nothing for anything else.
std::optional<WallClock::time_point> parse_iso_time(const std::string& text);
/// "Sun, 01 Mar 2026 12:00:00 GMT".
std::optional<WallClock::time_point> parse_http_time(const std::string& text);

/// GCE: the values of instance/maintenance-event and instance/preempted. A preempted spot machine has 30 s; when the
/// host goes into maintenance the time depends on the machine, and is left to the configuration.
/// @throws Error if these are not values of the interface
std::optional<Finding> gce_finding(const std::string& maintenance_event, const std::string& preempted);

/// AWS: the body of spot/instance-action. @throws Error if it is not of the published form
Finding aws_instance_action(const std::string& body, WallClock::time_point now);
/// AWS: the body of events/recommendations/rebalance. @throws Error
Finding aws_rebalance(const std::string& body);

/// What Azure plans for a machine.
struct AzureEvents {
  std::optional<Finding> finding;      ///< the earliest of those that take the machine away
  std::vector<std::string> event_ids;  ///< of all of them, to be acknowledged after the save
};

/// Azure: the body of scheduledevents.
/// @param machine  name of this machine; events of others do not count. Empty: not known, all count
/// @throws Error if it is not of the published form
AzureEvents azure_events(const std::string& body, const std::string& machine, WallClock::time_point now);

/// The request that tells Azure to go ahead with these events.
std::string azure_acknowledgement(const std::vector<std::string>& event_ids);

}  // namespace reprieve::termination
