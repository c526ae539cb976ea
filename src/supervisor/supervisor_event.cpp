// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/supervisor_event.hpp"

#include <fmt/format.h>

#include <functional>
#include <map>

#include "core/text.hpp"

namespace reprieve::supervisor {

namespace {

using Json = nlohmann::json;

/// The value of a member as text, whatever its type; "?" if it is missing.
std::string show(const Json& event, const char* key) {
  const auto member = event.find(key);
  if (member == event.end()) {
    return "?";
  }
  return member->is_string() ? member->get<std::string>() : member->dump();
}

std::string seconds(const Json& event, const char* key) {
  const auto member = event.find(key);
  return member != event.end() && member->is_number()
             ? core::seconds_text(std::chrono::duration<double>(member->get<double>()))
             : "? s";
}

using Words = std::function<std::string(const Json&)>;

const std::map<std::string, Words>& words() {
  static const std::map<std::string, Words> table{
      {"restore",
       [](const Json& e) {
         const std::string file = show(e, "file");
         return fmt::format("restored {} (step {}) in {}", file.ends_with(".part") ? "a near copy" : file,
                            show(e, "run_calls"), seconds(e, "seconds"));
       }},
      {"drained",
       [](const Json& e) {
         return fmt::format("made checkpoint {} of a near copy in {}", show(e, "number"), seconds(e, "seconds"));
       }},
      {"fallback",
       [](const Json& e) {
         return fmt::format("WORK IS LOST: {} is damaged, the run goes on from {} (step {}){}", show(e, "instead_of"),
                            show(e, "file"), show(e, "run_calls"),
                            e.contains("steps_lost") ? ", " + show(e, "steps_lost") + " steps before" : "");
       }},
      {"restore_failed",
       [](const Json& e) { return fmt::format("cannot restore {}: {}", show(e, "file"), show(e, "message")); }},
      {"ready", [](const Json& e) { return fmt::format("the ranks are ready, at step {}", show(e, "run_calls")); }},
      {"agreement",
       [](const Json& e) {
         return fmt::format("the notice arrived: all ranks agreed on step {}", show(e, "run_calls"));
       }},
      {"save_finished",
       [](const Json& e) {
         return fmt::format("saved {} (step {}) in {}", show(e, "file"), show(e, "run_calls"), seconds(e, "seconds"));
       }},
      {"save_failed",
       [](const Json& e) {
         return fmt::format("checkpoint {} was NOT saved: {}", show(e, "number"), show(e, "message"));
       }},
      {"train_on",
       [](const Json& e) {
         return fmt::format("going on, {} are left: another save before the end", seconds(e, "time_left_s"));
       }},
      {"exit",
       [](const Json& e) {
         return fmt::format("the ranks leave with code {}, {} after the notice", show(e, "exit_code"),
                            seconds(e, "seconds_from_notice"));
       }},
      {"went_on", [](const Json&) { return std::string("the program goes on after the notice"); }},
      {"error", [](const Json& e) { return fmt::format("error: {}", show(e, "message")); }},
      {"already_finished",
       [](const Json& e) { return fmt::format("the run is already finished, at step {}", show(e, "run_calls")); }},
      {"finished", [](const Json& e) { return fmt::format("the steps are done: {}", show(e, "run_calls")); }},
  };
  return table;
}

}  // namespace

std::optional<SupervisorEvent> describe(const Json& recorded) {
  const std::string name = show(recorded, "event");
  const auto entry = words().find(name);
  if (entry == words().end()) {
    return std::nullopt;
  }
  Json fields = recorded;
  fields.erase("event");
  return SupervisorEvent{name, entry->second(recorded), std::move(fields)};
}

}  // namespace reprieve::supervisor
