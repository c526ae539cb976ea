// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The metadata servers of clouds: where they are, whether one is there, and what it says of this machine's end.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/process.hpp"
#include "reprieve/notice.hpp"
#include "termination/http.hpp"

namespace reprieve::termination {

// What the answers of the metadata servers mean. Pure: no network, and the time is given.

using WallClock = std::chrono::system_clock;

/// Something that a source found out.
struct Announcement {
  /// Distinguishes this announcement from the next of the same source, so that each is acted on once.
  std::string id;
  std::string message;
  /// Until the machine is taken, if the source knows.
  std::optional<std::chrono::milliseconds> time_left = {};
  /// The end is likely, but not announced: reason to save, not to leave.
  bool is_hint = false;
};

/// "Sun, 01 Mar 2026 12:00:00 GMT".
std::optional<WallClock::time_point> parse_http_time(const std::string& text);

/// GCE: the value of instance/preempted. A preempted spot machine has 30 s.
/// @throws Error if it is not a value of the interface
std::optional<Announcement> gce_preempted(const std::string& value);
/// GCE: the value of instance/maintenance-event. The time depends on the machine, and is left to the configuration.
/// @throws Error if it is not a value of the interface
std::optional<Announcement> gce_maintenance(const std::string& event);

/// AWS: the body of spot/instance-action. @throws Error if it is not of the published form
Announcement aws_instance_action(const std::string& body, WallClock::time_point now);
/// AWS: the body of events/recommendations/rebalance. @throws Error
Announcement aws_rebalance(const std::string& body);

/// What Azure plans for a machine.
struct AzureEvents {
  std::optional<Announcement> announcement;  ///< the earliest of those that take the machine away
  std::vector<std::string> event_ids;        ///< of all of them, to be acknowledged after the save
};

/// Azure: the body of scheduledevents.
/// @param machine  name of this machine, in any case of its letters; events of others do not count
/// @throws Error if it is not of the published form
AzureEvents azure_events(const std::string& body, const std::string& machine, WallClock::time_point now);

/// The request that lets Azure go ahead with these events.
std::string azure_acknowledgement(const std::vector<std::string>& event_ids);

// A source of notices that has to be asked again and again, and the thread that does so.

/// A notice as one process knows it.
struct LocalNotice {
  std::string source;
  std::string message;
  std::chrono::steady_clock::time_point time;
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

/// Something to be asked. Used by one thread at a time.
class PolledSource {
 public:
  virtual ~PolledSource() = default;
  /// For notices and messages.
  [[nodiscard]] virtual std::string name() const = 0;
  /// The announcement that is there now, if there is one. May wait, but not without a limit, and gives up when @p stop
  /// is requested. An exception is logged once, and the source is asked again.
  virtual std::optional<Announcement> ask(const std::stop_token& stop) = 0;
  /// Whether it is asked on after a notice, since an earlier deadline may follow.
  [[nodiscard]] virtual bool keeps_asking() const { return false; }
  /// The state is saved, and the process is about to leave for a notice of this source.
  virtual void saved() {}
};

/// Asks one source from a thread of its own, so that a source that hangs holds up no other. Its end waits for a
/// question that is under way and ignores the stop.
class Poller {
 public:
  using Clock = std::chrono::steady_clock;

  Poller(std::unique_ptr<PolledSource> source, std::chrono::milliseconds interval);
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  /// The notice that is not acknowledged. Its deadline is the earliest that the source has reported since.
  [[nodiscard]] std::optional<LocalNotice> notice() const;
  /// Whether there is one; without a lock.
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  /// The source has hinted at an end since this was last asked.
  [[nodiscard]] std::optional<std::string> take_hint();
  /// Reports to the source that the state is saved, if it gave the notice, and asks it no more; logs failures.
  void saved();
  /// The notice was acted on: the next one counts, but not the same announcement again.
  void acknowledge();

 private:
  void watch(const std::stop_token& stop);
  void ask_once(const std::stop_token& stop);
  void take(const std::optional<Announcement>& announcement);
  void report_failure(const std::string& what);

  const std::chrono::milliseconds interval_;

  std::mutex asking_;  ///< guards the source
  const std::unique_ptr<PolledSource> source_;
  bool failure_logged_ = false;

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable_any wake_;
  std::optional<LocalNotice> notice_;
  std::atomic<bool> any_{false};  ///< whether there is one
  std::string id_;                ///< of the latest announcement
  std::string acknowledged_;      ///< the announcement that was acted on
  std::optional<std::string> hint_;

  std::jthread thread_;
};

using core::environment_variable;
using core::EnvironmentLookup;

/// "metadata server of AWS".
std::string metadata_server_name(MetadataServer server);
/// Whether that is the name of one. Its notices are about the machine of the rank that has them. Pure.
bool is_metadata_server(const std::string& source);

/// The address of a metadata server: "http://169.254.169.254", or what the environment says: GCE_METADATA_HOST or
/// GCE_METADATA_IP (host, and port if need be), AWS_EC2_METADATA_SERVICE_ENDPOINT or AZURE_METADATA_SERVICE_ENDPOINT
/// (URL). Pure.
std::string metadata_endpoint(MetadataServer server, const EnvironmentLookup& environment);
/// Whether the environment gives an address. Pure.
bool names_endpoint(MetadataServer server, const EnvironmentLookup& environment);
/// Whether the environment says that the server is not to be asked: AWS_EC2_METADATA_DISABLED. Pure.
bool is_switched_off(MetadataServer server, const EnvironmentLookup& environment);

/// The first of @p servers, in order, that answers like itself; asks all side by side. Waits @p limit at most.
MetadataServer find_metadata_server(const std::vector<MetadataServer>& servers, const EnvironmentLookup& environment,
                                    std::chrono::milliseconds limit);

/// Asks a server, as a source of notices. @p server is not none.
std::unique_ptr<PolledSource> make_metadata_source(MetadataServer server, const EnvironmentLookup& environment);

}  // namespace reprieve::termination
