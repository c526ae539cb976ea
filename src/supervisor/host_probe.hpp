// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a launcher reaches on which hosts.

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "supervisor/child_process.hpp"
#include "supervisor/host_list.hpp"

namespace reprieve::supervisor {

class Command;

/// Starts a small process on each host by the launcher itself, some hosts at a time: what cannot be reached in this way
/// cannot be given a rank. To be advanced, and told of ended children, until it is done. Thread: main.
class HostProbe {
 public:
  /// @param command  that of the program: its launcher, and how that reaches hosts
  /// @param patience  for each host
  /// @param words  what is started there
  HostProbe(std::vector<std::string> command, const std::vector<HostSlots>& hosts, std::chrono::milliseconds patience,
            std::vector<std::string> words = {"true"});
  ~HostProbe();
  HostProbe(const HostProbe&) = delete;
  HostProbe& operator=(const HostProbe&) = delete;

  /// Starts what is to be started next, and ends what takes too long. @throws UsageError if there is no such launcher
  void advance();
  void on_ended(const EndedChild& child);
  [[nodiscard]] bool is_done() const { return waiting_.empty() && running_.empty(); }

  /// Those that did not answer, each with what the launcher says.
  [[nodiscard]] const std::map<std::string, std::string>& dead() const noexcept { return dead_; }
  /// What each host said, if it ended at all.
  [[nodiscard]] const std::map<std::string, std::string>& answers() const noexcept { return answers_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Running {
    std::unique_ptr<Command> command;
    Clock::time_point limit;
  };

  std::vector<std::string> command_;
  std::chrono::milliseconds patience_;
  std::vector<std::string> words_;
  std::vector<std::string> waiting_;  ///< the next one is the last
  std::map<std::string, Running> running_;
  std::map<std::string, std::string> dead_;
  std::map<std::string, std::string> answers_;
};

}  // namespace reprieve::supervisor
