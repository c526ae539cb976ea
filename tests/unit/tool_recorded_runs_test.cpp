// SPDX-License-Identifier: BSD-3-Clause
// Event logs that real runs have left, and what `status`, `advise` and `report` say of them with --json.

#include <gmock/gmock.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "advise.hpp"
#include "core/event_log.hpp"
#include "timeline.hpp"

namespace reprieve::tool {
namespace {

namespace fs = std::filesystem;

const fs::path kRecorded = fs::path(REPRIEVE_SOURCE_DIR) / "tests/unit/recorded";

/// What the commands say half a minute after the last event.
Json answers_about(const fs::path& log) {
  using namespace std::chrono_literals;
  const auto events = core::read_events(log, core::kLongestLog);
  const TimePoint now = core::time_of_event(events.back().time).value() + 30s;
  const Timeline timeline(events);
  const AdviceQuestion question{.mtbf_s = 3600.0, .node_mtbf_s = 86400.0, .grace_s = 20.0, .time_limit_s = 7200.0};
  Json answers{{"advise", to_json(advise(timeline.history(), question))}};
  for (const bool lives : {true, false}) {
    const RunStatus status = timeline.status("run", lives).value();
    answers["status"][lives ? "living" : "dead"] = to_json(status, now);
    answers["report"][lives ? "living" : "dead"] = to_json(timeline.report(status, question, now), now);
  }
  return answers;
}

class RecordedRuns : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordedRuns, AreToldAsTheyAlwaysWere) {
  const fs::path log = kRecorded / (std::string(GetParam()) + ".jsonl");
  fs::path expected = log;
  expected.replace_extension(".json");
  const Json answers = answers_about(log);
  if (::getenv("REPRIEVE_WRITE_RECORDED") != nullptr) {
    std::ofstream(expected) << answers.dump(1) << '\n';
  }
  std::ifstream stream(expected);
  const Json before = Json::parse(stream);
  EXPECT_EQ(answers, before) << Json::diff(before, answers).dump(1);
}

INSTANTIATE_TEST_SUITE_P(Tool, RecordedRuns,
                         ::testing::Values("preempted_killed", "failed_corrupt", "local_copies", "local_left",
                                           "without_handler", "background"),
                         [](const auto& log) { return std::string(log.param); });

TEST(RecordedRunsList, AllAreCompared) {
  const auto logs = std::ranges::count_if(fs::directory_iterator(kRecorded),
                                          [](const auto& entry) { return entry.path().extension() == ".jsonl"; });
  EXPECT_EQ(logs, 6);
}

}  // namespace
}  // namespace reprieve::tool
