// SPDX-License-Identifier: BSD-3-Clause
// HTTP exchanges with good servers and bad ones. Each has its limit, and each failure a name.

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/events.hpp"
#include "reprieve/error.hpp"
#include "support/http_server.hpp"
#include "termination/curl.hpp"
#include "termination/http.hpp"
#include "termination/metadata_source.hpp"

namespace reprieve::termination {
namespace {

using namespace std::chrono_literals;
using test::HttpServer;
using test::ServedReply;
using test::ServedRequest;
using ::testing::HasSubstr;

constexpr HttpLimits kPatient{.connect = 20s, .whole = 20s};
/// For servers that never answer as they should.
constexpr HttpLimits kShort{.connect = 500ms, .whole = 500ms};
/// For one of these beside one that does.
constexpr HttpLimits kLonger{.connect = 5s, .whole = 5s};

ServedReply echo(const ServedRequest& request) {
  return {200, request.method + " " + request.target + " " + request.body, {"metadata-FLAVOR:  Google "}};
}

TEST(Http, AnswersComeWithStatusBodyAndFlavor) {
  const HttpServer server(echo);
  const auto answer = exchange({.method = "POST", .url = server.url() + "/a?b=c", .body = "hello"}, kPatient);
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "POST /a?b=c hello");
  EXPECT_EQ(answer.flavor, "Google");
}

TEST(Http, HeadersArriveAndAnErrorStatusIsAnAnswer) {
  const HttpServer server([](const ServedRequest& request) {
    return ServedReply{request.headers.at("metadata") == "true" ? 200 : 404, ""};
  });
  EXPECT_EQ(exchange({.url = server.url(), .headers = {"Metadata: true", "X-Other: 1"}}, kPatient).status, 200);
  const auto answer = exchange({.method = "PUT", .url = server.url(), .headers = {"Metadata: false"}}, kPatient);
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.status, 404);
}

TEST(Http, SeveralAreAskedSideBySide) {
  const HttpServer good(echo);
  const HttpServer silent([](const auto&) { return ServedReply{.form = ServedReply::Form::silence}; });
  const auto answers = exchange({HttpRequest{.url = silent.url()}, HttpRequest{.url = good.url() + "/x"}}, kLonger);
  EXPECT_NE(answers.at(0).error, "");
  EXPECT_EQ(answers.at(1).body, "GET /x ");
}

TEST(Http, ProxiesAreNotUsed) {
  const HttpServer server(echo);
  for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) {
    ::setenv(name, "http://127.0.0.1:9", 1);
  }
  const auto answer = exchange({.url = server.url()}, kPatient);
  for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) {
    ::unsetenv(name);
  }
  EXPECT_EQ(answer.error, "");
}

TEST(Http, RedirectionsAreNotFollowed) {
  const HttpServer server([](const ServedRequest& request) {
    return request.target == "/" ? ServedReply{302, "", {"Location: /elsewhere"}} : ServedReply{200, "elsewhere"};
  });
  EXPECT_EQ(exchange({.url = server.url() + "/"}, kPatient).status, 302);
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(Http, OtherProtocolsAndServersThatAreNotThereAreErrors) {
  const std::string nobody = HttpServer(echo).url();
  for (const std::string& url : {nobody, std::string("file:///etc/hostname"), std::string("no url at all")}) {
    EXPECT_NE(exchange({.url = url}, kShort).error, "") << url;
  }
}

TEST(Curl, TheFirstLibraryThatCanBeUsedIsTaken) {
  EXPECT_EQ(load_curl(std::array{"libreprieve-nowhere.so.4", "libm.so.6", "libcurl.so.4"}).problem, "");
  EXPECT_THAT(load_curl(std::array{REPRIEVE_OLD_CURL}).problem, HasSubstr("libcurl 7.61.1 is older than 7.87.0"));
}

TEST(Curl, WithoutItTheWayOutIsNamed) {
  const Curl none = load_curl(std::array{"libreprieve-nowhere.so.4", "libm.so.6"});
  EXPECT_THAT(none.problem, HasSubstr("install libcurl4"));
  EXPECT_THAT(none.problem, HasSubstr("libreprieve-nowhere.so.4: cannot open"));
  EXPECT_THAT(none.problem, HasSubstr("undefined symbol: curl_")) << "a library that is no libcurl";
}

TEST(Http, ABadServerIsGivenUp) {
  using Form = ServedReply::Form;
  for (const Form form : {Form::garbage, Form::silence, Form::drip, Form::flood}) {
    SCOPED_TRACE(static_cast<int>(form));
    const HttpServer server([=](const auto&) { return ServedReply{.form = form}; });
    const auto answer = exchange({.url = server.url()}, kShort);
    EXPECT_NE(answer.error, "");
    EXPECT_LE(answer.body.size(), kShort.bytes);
  }
}

TEST(Http, ALongAnswerIsCutOffEarly) {
  const HttpServer server([](const auto&) { return ServedReply{.form = ServedReply::Form::flood}; });
  const auto answer = exchange({.url = server.url()}, kPatient);
  EXPECT_THAT(answer.error, HasSubstr("longer than"));
  EXPECT_LT(server.bytes_sent(), 100'000'000U) << "the rest of the 200 MB is not fetched";
}

TEST(Http, AStopEndsTheWait) {
  const HttpServer server([](const auto&) { return ServedReply{.form = ServedReply::Form::silence}; });
  std::stop_source stop;
  HttpAnswer answer;
  std::thread asking([&] { answer = exchange({.url = server.url()}, {.connect = 1h, .whole = 1h}, stop.get_token()); });
  while (server.requests().empty()) {
    std::this_thread::sleep_for(1ms);
  }
  stop.request_stop();
  asking.join();
  EXPECT_EQ(answer.error, "given up");
}

// The published answers of the metadata servers, and what is not among them.

using ::testing::ElementsAre;

const WallClock::time_point kNoon = *core::time_of_event("2026-03-01T12:00:00Z");

TEST(MetadataTime, IsReadInUtc) {
  EXPECT_EQ(kNoon.time_since_epoch(), 1772366400s);
  EXPECT_EQ(core::time_of_event("2026-03-01T12:00:00.25Z"), kNoon);
  EXPECT_EQ(parse_http_time("Sun, 01 Mar 2026 12:00:00 GMT"), kNoon);
  for (const char* bad : {"", "soon", "2026-03-01T12:00:00", "2026-03-01T12:00:00+01:00", "2026-03-01"}) {
    EXPECT_EQ(core::time_of_event(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_http_time("01 Mar 2026 12:00:00 GMT"), std::nullopt);
  EXPECT_EQ(parse_http_time(""), std::nullopt);
}

TEST(GceAnswers, NothingPlannedAndAnythingElse) {
  EXPECT_FALSE(gce_preempted("FALSE\n"));
  EXPECT_FALSE(gce_maintenance("NONE\n"));
  EXPECT_FALSE(gce_maintenance("MIGRATE_ON_HOST_MAINTENANCE")) << "the machine moves, and the job with it";
  EXPECT_THROW(gce_maintenance(""), Error);
  EXPECT_THROW(gce_preempted("maybe"), Error);
  EXPECT_THROW(gce_maintenance("<html>"), Error);
}

TEST(GceAnswers, MaintenanceLeavesTheTimeToTheMachine) {
  const auto announcement = gce_maintenance("TERMINATE_ON_HOST_MAINTENANCE");
  ASSERT_TRUE(announcement);
  EXPECT_EQ(announcement->message, "TERMINATE_ON_HOST_MAINTENANCE");
  EXPECT_FALSE(announcement->time_left);
}

TEST(GceAnswers, ASpotMachineHas30Seconds) { EXPECT_EQ(gce_preempted("TRUE")->time_left, 30s); }

TEST(AwsAnswers, TheActionComesWithATime) {
  const auto announcement = aws_instance_action(R"({"action": "terminate", "time": "2026-03-01T12:02:00Z"})", kNoon);
  EXPECT_EQ(announcement.time_left, 120s);
  EXPECT_EQ(announcement.message, "spot interruption: terminate at 2026-03-01T12:02:00Z");
  EXPECT_FALSE(announcement.is_hint);
}

TEST(AwsAnswers, TimeLeftOfActionsWithoutATimeOverdueOrFarAway) {
  const auto time_left = [](const char* action) { return aws_instance_action(action, kNoon).time_left; };
  EXPECT_EQ(time_left(R"({"action": "stop"})"), std::nullopt);
  EXPECT_EQ(time_left(R"({"action": "stop", "time": "later"})"), std::nullopt);
  EXPECT_EQ(time_left(R"({"action": "stop", "time": "2026-03-01T11:00:00Z"})"), 0s);
  EXPECT_EQ(time_left(R"({"action": "hibernate", "time": "2026-03-01T12:02:00Z"})"), 0s);
  EXPECT_EQ(time_left(R"({"action": "terminate", "time": "0001-01-01T00:00:00Z"})"), 0s);
  EXPECT_GT(time_left(R"({"action": "terminate", "time": "9999-12-31T00:00:00Z"})").value(), 200 * 365 * 24h);
}

TEST(AwsAnswers, ARebalanceIsAHint) {
  const auto announcement = aws_rebalance(R"({"noticeTime": "2026-03-01T12:00:00Z"})");
  EXPECT_TRUE(announcement.is_hint);
  EXPECT_THAT(announcement.message, HasSubstr("rebalance"));
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

TEST(AzureAnswers, FourTypesTakeTheMachine) {
  EXPECT_FALSE(azure("").announcement);
  EXPECT_TRUE(azure("").event_ids.empty());
  for (const char* type : {"Preempt", "Terminate", "Reboot", "Redeploy"}) {
    const auto events = azure(azure_event("A", type, kLater));
    ASSERT_TRUE(events.announcement) << type;
    EXPECT_EQ(events.announcement->time_left, 10min);
    EXPECT_THAT(events.event_ids, ElementsAre("A"));
  }
  EXPECT_FALSE(azure(azure_event("A", "Freeze", kSoon)).announcement) << "it stands still for seconds, and continues";
}

TEST(AzureAnswers, TheEarliestCountsAndAllAreAcknowledged) {
  const auto events = azure(azure_event("A", "Reboot", kLater) + "," + azure_event("B", "Preempt", kSoon));
  EXPECT_EQ(events.announcement->time_left, 30s);
  EXPECT_EQ(events.announcement->id, "B");
  EXPECT_THAT(events.event_ids, ElementsAre("A", "B"));
  EXPECT_EQ(nlohmann::json::parse(azure_acknowledgement(events.event_ids)),
            nlohmann::json::parse(R"({"StartRequests": [{"EventId": "A"}, {"EventId": "B"}]})"));
  EXPECT_EQ(azure(azure_event("A", "Preempt", "")).announcement->time_left, 0s) << "it has begun";
}

TEST(AzureAnswers, EventsOfOtherMachinesDoNotCount) {
  EXPECT_FALSE(azure(azure_event("A", "Preempt", kSoon, "node-1")).announcement);
  EXPECT_FALSE(azure(azure_event("A", "Preempt", kSoon, "node-1"), "").announcement);
  EXPECT_TRUE(azure(azure_event("A", "Preempt", kSoon, "NODE-0")).announcement) << "names have no case there";
}

TEST(AzureAnswers, AnythingElseIsAnError) {
  for (const char* bad : {"", "{}", "[]", R"({"Events": 3})", R"({"Events": [3]})", R"({"Events": [{}]})"}) {
    EXPECT_THROW(azure_events(bad, "node-0", kNoon), Error) << bad;
  }
  EXPECT_THROW(azure(azure_event("A", "Preempt", "soon")), Error);
}

}  // namespace
}  // namespace reprieve::termination
