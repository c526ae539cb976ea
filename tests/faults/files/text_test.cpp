// SPDX-License-Identifier: BSD-3-Clause
// Hostile text: settings, environment, event logs. In child processes, since what goes wrong there uses up the stack.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/events.hpp"
#include "faults/files/forked_reader.hpp"
#include "reprieve/error.hpp"
#include "reprieve/settings.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::test {
namespace {

/// Whether @p read throws a ConfigError of a length that people can read.
Fate refused(const std::function<void()>& read) {
  try {
    read();
  } catch (const ConfigError& error) {
    return std::string(error.what()).size() < 2000 ? Fate::refused : Fate::odd;
  } catch (...) {
    return Fate::odd;
  }
  return Fate::unchanged;
}

std::size_t count_refused(const std::vector<std::function<void()>>& reads) {
  const Tally tally = try_all(
      reads.size(), [] {}, [&](std::size_t i) { return refused(reads[i]); });
  return tally[Fate::refused];
}

TEST(HostileText, SettingsAreRefused) {
  const std::string deep(3'000'000, '[');
  const std::string long_text(1'000'000, 'a');
  const std::vector<std::string> texts = {
      deep,
      deep + std::string(deep.size(), ']'),
      R"({"termination": )" + deep + std::string(deep.size(), ']') + "}",
      R"({"checkpoints": {"prefix": ")" + long_text + "\"}}",
      R"({"checkpoints": )" + ("\"" + long_text + "\"") + "}",
      "\"" + long_text + "\"",
      R"({"a": 1, "a": 2})",
      R"({"checkpoints": {"max_to_keep": 1e308}})",
      R"({"checkpoints": {"max_to_keep": -1}})",
      R"({"checkpoints": {"max_to_keep": 18446744073709551615}})",
      "{\"checkpoints\": {\"prefix\": \"../../etc/x\"}}",
      "{\"checkpoints\": {\"prefix\": \"\xff\xfe\"}}",
      std::string("\0\0\0", 3),
      "",
  };
  std::vector<std::function<void()>> reads;
  for (const std::string& text : texts) {
    reads.emplace_back([&text] { static_cast<void>(settings_from_json(text)); });
  }
  reads.emplace_back([] { static_cast<void>(settings_from_file("/dev/zero")); });
  reads.emplace_back([] {
    ::setenv("REPRIEVE_LOG_LEVEL", std::string(100'000, 'a').c_str(), 1);
    Settings settings;
    apply_environment(settings);
  });
  EXPECT_EQ(count_refused(reads), reads.size());
}

TEST(HostileText, AnEventLogIsReadAroundBadLines) {
  const TemporaryDirectory directory;
  const auto file = directory / "events.jsonl";
  const std::string deep(300'000, '[');
  std::ofstream(file, std::ios::binary) << R"({"event":"start"})"
                                        << "\n{\"event\":" << deep << std::string(deep.size(), ']') << "}\n"
                                        << deep << "\n\xff\xfe\n"
                                        << std::string("\0\0", 2) << "\n[1]\n17\n{\"event\":\"cut\n"
                                        << R"({"event":"finished"})";
  const Tally tally = try_all(
      1, [] {},
      [&](std::size_t) {
        const auto events = core::read_events(file, core::kLongestLog);
        const auto copy = events;
        return copy.size() == 2 && std::holds_alternative<events::Finished>(copy[1].event) ? Fate::unchanged
                                                                                           : Fate::wrong;
      });
  EXPECT_EQ(tally[Fate::unchanged], 1U) << testing::PrintToString(tally.bad);
}

}  // namespace
}  // namespace reprieve::test
