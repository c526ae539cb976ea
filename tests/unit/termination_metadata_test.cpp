// SPDX-License-Identifier: BSD-3-Clause
// The published answers of the metadata servers, and what is not among them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reprieve/error.hpp"
#include "termination/metadata_source.hpp"

namespace reprieve::termination {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const WallClock::time_point kNoon = *parse_iso_time("2026-03-01T12:00:00Z");

TEST(MetadataTime, IsReadInUtc) {
  EXPECT_EQ(kNoon.time_since_epoch(), 1772366400s);
  EXPECT_EQ(parse_iso_time("2026-03-01T12:00:00.25Z"), kNoon);
  EXPECT_EQ(parse_http_time("Sun, 01 Mar 2026 12:00:00 GMT"), kNoon);
  for (const char* bad : {"", "soon", "2026-03-01T12:00:00", "2026-03-01T12:00:00+01:00", "2026-03-01"}) {
    EXPECT_EQ(parse_iso_time(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_http_time("01 Mar 2026 12:00:00 GMT"), std::nullopt);
  EXPECT_EQ(parse_http_time(""), std::nullopt);
}

TEST(GceAnswers, NothingPlanned) {
  EXPECT_FALSE(gce_finding("NONE", "FALSE"));
  EXPECT_FALSE(gce_finding("NONE\n", "FALSE\n"));
  EXPECT_FALSE(gce_finding("MIGRATE_ON_HOST_MAINTENANCE", "FALSE")) << "the machine moves, and the job with it";
}

TEST(GceAnswers, MaintenanceLeavesTheTimeToTheMachine) {
  const auto finding = gce_finding("TERMINATE_ON_HOST_MAINTENANCE", "FALSE");
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->message, "TERMINATE_ON_HOST_MAINTENANCE");
  EXPECT_FALSE(finding->time_left);
}

TEST(GceAnswers, ASpotMachineHas30Seconds) {
  for (const char* maintenance : {"NONE", "TERMINATE_ON_HOST_MAINTENANCE"}) {
    const auto finding = gce_finding(maintenance, "TRUE");
    ASSERT_TRUE(finding);
    EXPECT_EQ(finding->time_left, 30s);
  }
}

TEST(GceAnswers, AnythingElseIsAnError) {
  EXPECT_THROW(gce_finding("", "FALSE"), Error);
  EXPECT_THROW(gce_finding("NONE", "maybe"), Error);
  EXPECT_THROW(gce_finding("<html>", "FALSE"), Error);
}

TEST(AwsAnswers, TheActionComesWithATime) {
  const auto finding = aws_instance_action(R"({"action": "terminate", "time": "2026-03-01T12:02:00Z"})", kNoon);
  EXPECT_EQ(finding.time_left, 120s);
  EXPECT_EQ(finding.message, "spot interruption: terminate at 2026-03-01T12:02:00Z");
  EXPECT_FALSE(finding.is_hint);
}

TEST(AwsAnswers, AnActionOfTheYear9999IsNotNow) {
  const auto far = aws_instance_action(R"({"action": "terminate", "time": "9999-12-31T00:00:00Z"})", kNoon);
  ASSERT_TRUE(far.time_left);
  EXPECT_GT(*far.time_left, 200 * 365 * 24h);
  const auto past = aws_instance_action(R"({"action": "terminate", "time": "0001-01-01T00:00:00Z"})", kNoon);
  EXPECT_EQ(past.time_left, 0s);
}

TEST(AwsAnswers, WithoutATimeTheConfigurationKnows) {
  EXPECT_EQ(aws_instance_action(R"({"action": "stop"})", kNoon).time_left, std::nullopt);
  EXPECT_EQ(aws_instance_action(R"({"action": "stop", "time": "later"})", kNoon).time_left, std::nullopt);
}

TEST(AwsAnswers, WhatIsOverdueOrHibernatesHasNoTimeLeft) {
  EXPECT_EQ(aws_instance_action(R"({"action": "stop", "time": "2026-03-01T11:00:00Z"})", kNoon).time_left, 0s);
  EXPECT_EQ(aws_instance_action(R"({"action": "hibernate", "time": "2026-03-01T12:02:00Z"})", kNoon).time_left, 0s);
}

TEST(AwsAnswers, ARebalanceIsAHint) {
  const auto finding = aws_rebalance(R"({"noticeTime": "2026-03-01T12:00:00Z"})");
  EXPECT_TRUE(finding.is_hint);
  EXPECT_THAT(finding.message, HasSubstr("rebalance"));
}

TEST(AwsAnswers, AnythingElseIsAnError) {
  for (const char* bad : {"", "[]", "null", "{}", R"({"action": 3})", "<html>", "{\"action\": \"stop\""}) {
    EXPECT_THROW(aws_instance_action(bad, kNoon), Error) << bad;
  }
  EXPECT_THROW(aws_rebalance(R"({"time": 1})"), Error);
  try {
    aws_rebalance("\x16\x03" + std::string(1000, 'x'));
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 250U) << "only the beginning is shown";
  }
}

std::string azure_event(const std::string& id, const std::string& type, const std::string& not_before,
                        const std::string& machine = "node-0") {
  return nlohmann::json{{"EventId", id},          {"EventStatus", not_before.empty() ? "Started" : "Scheduled"},
                        {"EventType", type},      {"ResourceType", "VirtualMachine"},
                        {"Resources", {machine}}, {"NotBefore", not_before},
                        {"Description", ""},      {"EventSource", "Platform"},
                        {"DurationInSeconds", -1}}
      .dump();
}

AzureEvents azure(const std::string& events, const std::string& machine = "node-0") {
  return azure_events(R"({"DocumentIncarnation": 2, "Events": [)" + events + "]}", machine, kNoon);
}

constexpr const char* kSoon = "Sun, 01 Mar 2026 12:00:30 GMT";
constexpr const char* kLater = "Sun, 01 Mar 2026 12:10:00 GMT";

TEST(AzureAnswers, NothingPlanned) {
  EXPECT_FALSE(azure("").finding);
  EXPECT_TRUE(azure("").event_ids.empty());
}

TEST(AzureAnswers, FourTypesTakeTheMachine) {
  for (const char* type : {"Preempt", "Terminate", "Reboot", "Redeploy"}) {
    const auto events = azure(azure_event("A", type, kLater));
    ASSERT_TRUE(events.finding) << type;
    EXPECT_EQ(events.finding->time_left, 10min);
    EXPECT_THAT(events.event_ids, ElementsAre("A"));
  }
  EXPECT_FALSE(azure(azure_event("A", "Freeze", kSoon)).finding) << "it stands still for seconds, and continues";
}

TEST(AzureAnswers, TheEarliestCountsAndAllAreAcknowledged) {
  const auto events = azure(azure_event("A", "Reboot", kLater) + "," + azure_event("B", "Preempt", kSoon));
  EXPECT_EQ(events.finding->time_left, 30s);
  EXPECT_EQ(events.finding->id, "B");
  EXPECT_THAT(events.event_ids, ElementsAre("A", "B"));
}

TEST(AzureAnswers, WhatHasBegunLeavesNoTime) {
  EXPECT_EQ(azure(azure_event("A", "Preempt", "")).finding->time_left, 0s);
}

TEST(AzureAnswers, EventsOfOtherMachinesDoNotCount) {
  EXPECT_FALSE(azure(azure_event("A", "Preempt", kSoon, "node-1")).finding);
  EXPECT_TRUE(azure(azure_event("A", "Preempt", kSoon, "node-1"), "").finding) << "if the own name is not known";
}

TEST(AzureAnswers, AnythingElseIsAnError) {
  for (const char* bad : {"", "{}", "[]", R"({"Events": 3})", R"({"Events": [3]})", R"({"Events": [{}]})"}) {
    EXPECT_THROW(azure_events(bad, "node-0", kNoon), Error) << bad;
  }
  EXPECT_THROW(azure(azure_event("A", "Preempt", "soon")), Error);
}

TEST(AzureAnswers, TheAcknowledgementNamesTheEvents) {
  EXPECT_EQ(nlohmann::json::parse(azure_acknowledgement({"A", "B"})),
            nlohmann::json::parse(R"({"StartRequests": [{"EventId": "A"}, {"EventId": "B"}]})"));
}

}  // namespace
}  // namespace reprieve::termination
