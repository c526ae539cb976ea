// SPDX-License-Identifier: BSD-3-Clause

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "core/events.hpp"
#include "core/run_record.hpp"
#include "reprieve/error.hpp"
#include "support/small_files.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::core {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

class EventLogFile : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> lines() const {
    std::ifstream stream(file_);
    std::vector<std::string> result;
    for (std::string line; std::getline(stream, line);) {
      if (!line.empty()) {  // which every reader passes over
        result.push_back(line);
      }
    }
    return result;
  }

  test::TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_ / "events.jsonl";
};

TEST_F(EventLogFile, LineHoldsEventTimesAndFields) {
  EventLog(file_).write(events::SaveFinished{.file = "ckpt-1.h5", .bytes = 12});
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_THAT(lines()[0], ::testing::StartsWith(R"({"event":"save_finished","time":")"));
  const auto event = json::parse(lines()[0]);
  EXPECT_THAT(event.at("time").get<std::string>(),
              MatchesRegex(R"(20[0-9][0-9]-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\.[0-9]{6}Z)"));
  EXPECT_GT(event.at("monotonic_s").get<double>(), 0);
  EXPECT_EQ(event.at("bytes"), 12);
  EXPECT_EQ(event.at("file"), "ckpt-1.h5");
}

TEST_F(EventLogFile, AppendsToWhatIsThereAlsoToALineThatWasCut) {
  std::ofstream(file_) << R"({"event":"cut in the mid)";
  for (const std::uint64_t number : {7U, 8U}) {
    EventLog(file_).write(events::Retired{number});
    EXPECT_EQ(json::parse(lines().back()).at("number"), number);
  }
  EXPECT_EQ(lines().size(), 3U);
}

TEST_F(EventLogFile, BytesThatAreNotUtf8AreReplaced) {
  EventLog(file_).write(events::Notice{.message = "broken \xff text"});
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_THAT(json::parse(lines()[0]).at("message").get<std::string>(), HasSubstr("broken"));
}

TEST_F(EventLogFile, LinesOfSeveralWritersStayWhole) {
  constexpr std::size_t kLines = 200;
  const auto write = [this](const std::string& name) {
    EventLog log(file_);
    for (std::size_t i = 0; i < kLines; ++i) {
      log.write(events::Failed{.message = name + std::string(500, 'x')});
    }
  };
  {
    const std::jthread one(write, "one");
    const std::jthread two(write, "two");
  }
  ASSERT_EQ(lines().size(), 2 * kLines);
  for (const auto& line : lines()) {
    EXPECT_TRUE(json::accept(line)) << line;
  }
}

TEST_F(EventLogFile, MovedLogContinues) {
  EventLog first(file_);
  EventLog second;
  second = std::move(first);
  second.write(events::Retired{});
  EXPECT_EQ(lines().size(), 1U);
}

TEST_F(EventLogFile, FailureIsLoggedOnceAndNotThrown) {
  std::array<int, 2> end{};
  ASSERT_EQ(::pipe(end.data()), 0);
  const int before = ::dup(STDERR_FILENO);
  ASSERT_EQ(::dup2(end[1], STDERR_FILENO), STDERR_FILENO);  // a captured stderr would be a file, which may not grow
  {
    EventLog log(file_);
    const test::SmallFiles no_room(0);
    log.write(events::Retired{});
    log.write(events::Retired{});
  }
  ASSERT_EQ(::dup2(before, STDERR_FILENO), STDERR_FILENO);
  ::close(before);
  ::close(end[1]);
  std::string shown(4096, '\0');
  const ssize_t got = ::read(end[0], shown.data(), shown.size());
  ::close(end[0]);
  ASSERT_GE(got, 0);
  shown.resize(static_cast<std::size_t>(got));
  EXPECT_THAT(shown, HasSubstr("File too large"));
  EXPECT_EQ(shown.find("event log"), shown.rfind("event log"));
}

TEST_F(EventLogFile, WhatIsNoFileIsLoggedOnceAndNotWrittenTo) {
  ::testing::internal::CaptureStderr();
  EventLog log("/dev/full");
  log.write(events::Retired{});
  log.write(events::Retired{});
  const std::string shown = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, HasSubstr("/dev/full: not a regular file"));
  EXPECT_EQ(shown.find("event log"), shown.rfind("event log"));
}

TEST_F(EventLogFile, WhatIsWrittenIsReadBackAsTheSameStruct) {
  SaveReason reason{.kind = SaveReason::Kind::preemption, .rank = 3, .host = "n1", .source = "file", .message = "m"};
  EventLog log(file_);
  log.write(events::SaveFinished{7, "ckpt-7.h5", 12, 0.5, 0.25, reason, 100});
  log.write(events::Arrivals{{{.rank = 0, .host = "n1"}, {1, "n2", "signal SIGTERM", "", 0.125}}});
  const auto events = read_events(file_);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_GT(events[0].monotonic_s.value(), 0);
  EXPECT_EQ(time_of_event(events[0].time).has_value(), true);
  const auto& save = std::get<events::SaveFinished>(events[0].event);
  EXPECT_EQ(save.number, 7U);
  EXPECT_EQ(save.blocked_seconds, 0.25);
  EXPECT_EQ(save.run_calls, 100U);
  EXPECT_EQ(json_of(save.reason.value()), json_of(reason));
  const auto& ranks = std::get<events::Arrivals>(events[1].event).ranks;
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_FALSE(ranks[0].source);
  EXPECT_EQ(ranks[1].age_s, 0.125);
}

template <std::size_t... Places>
std::vector<Event> one_of_each(std::index_sequence<Places...> /*places*/) {
  return {Event(std::in_place_index<Places>)...};
}

TEST(Events, EachHasItsOwnNameAndFieldsOfTheWrongTypeKeepTheirDefaults) {
  for (const Event& event : one_of_each(std::make_index_sequence<std::variant_size_v<Event>>())) {
    json written = to_json({event, "", std::nullopt});
    EXPECT_EQ(event_from_json(written).value().event.index(), event.index()) << written;
    json broken = written;
    for (auto& [name, value] : broken.items()) {
      value = name == "event" ? value : json::array({17});
    }
    EXPECT_EQ(json(to_json(event_from_json(broken).value())), written) << broken;
  }
}

TEST(Events, OfAnotherVersionTellTheirStep) {
  const auto logged = event_from_text(R"({"event": "of a later version", "run_calls": 5, "monotonic_s": 2.5})");
  EXPECT_TRUE(std::holds_alternative<events::Unknown>(logged.value().event));
  EXPECT_EQ(step_of(logged->event), 5U);
  EXPECT_EQ(logged->monotonic_s, 2.5);
  EXPECT_FALSE(event_from_text("{}"));
  EXPECT_FALSE(event_from_text("no JSON"));
}

/// A reader would wait for ever for somebody who writes into it.
TEST_F(EventLogFile, APipeIsNotRead) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(read_events(file_), IsEmpty());
}

TEST_F(EventLogFile, ADirectoryThatIsNotThereIsLogged) {
  ::testing::internal::CaptureStderr();
  EventLog log(directory_ / "missing" / "events.jsonl");
  log.write(events::Retired{});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("No such file or directory"));
}

TEST(EventLog, ClosedOneRecordsNothing) {
  ::testing::internal::CaptureStderr();
  EventLog().write(events::Retired{});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
}

TEST(DrillOrders, ComeBackAsTheyWereWritten) {
  for (const bool leave : {false, true}) {
    const DrillOrders orders{".drill-7", leave};
    EXPECT_EQ(parse_drill_orders(to_text(orders)), orders);
  }
  const DrillOrders replay{.subdirectory = ".drill-7", .save_at = 0, .leave_at = 12};
  EXPECT_EQ(parse_drill_orders(to_text(replay)), replay);
  EXPECT_EQ(to_text({".drill-7", true}), R"({"leave_at_once":true,"subdirectory":".drill-7"})")
      << "without steps as older versions read them";
  EXPECT_THROW(parse_drill_orders(R"({"leave_at_once":true,"subdirectory":"d","leave_at":"soon"})"), ConfigError);
}

TEST(DrillOrders, NoneOutsideOfADrill) {
  ASSERT_EQ(::unsetenv(kRunDirectoryVariable), 0);
  EXPECT_EQ(read_drill_orders(), "");
  EXPECT_EQ(parse_drill_orders(""), std::nullopt);
  // A supervisor's run is none either.
  const test::TemporaryDirectory directory;
  ASSERT_EQ(::setenv(kRunDirectoryVariable, directory.path().c_str(), 1), 0);
  EXPECT_EQ(read_drill_orders(), "");
  std::ofstream(directory / kDrillOrdersName) << to_text({".drill-7", true});
  EXPECT_EQ(parse_drill_orders(read_drill_orders()), (DrillOrders{".drill-7", true}));
  ASSERT_EQ(::unsetenv(kRunDirectoryVariable), 0);
}

TEST(DrillOrders, NeverLeadOutOfTheCheckpointDirectory) {
  for (const char* name : {"", ".", "..", "../elsewhere", "/tmp", "a/b", "a/"}) {
    EXPECT_THROW(parse_drill_orders(to_text({name, false})), ConfigError) << name;
  }
  EXPECT_THROW(parse_drill_orders("{}"), ConfigError);
  EXPECT_THROW(parse_drill_orders("no JSON"), ConfigError);
}

}  // namespace
}  // namespace reprieve::core
