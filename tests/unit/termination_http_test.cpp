// SPDX-License-Identifier: BSD-3-Clause
// HTTP exchanges with good servers and bad ones. Each has its limit, and each failure a name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "support/http_server.hpp"
#include "termination/curl.hpp"
#include "termination/http.hpp"

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

TEST(Http, HeadersArrive) {
  const HttpServer server([](const ServedRequest& request) {
    return ServedReply{request.headers.at("metadata") == "true" ? 200 : 400, ""};
  });
  EXPECT_EQ(exchange({.url = server.url(), .headers = {"Metadata: true", "X-Other: 1"}}, kPatient).status, 200);
  EXPECT_EQ(exchange({.method = "PUT", .url = server.url(), .headers = {"Metadata: false"}}, kPatient).status, 400);
}

TEST(Http, AnErrorStatusIsAnAnswer) {
  const HttpServer server([](const auto&) { return ServedReply{404, "no such thing"}; });
  const auto answer = exchange({.url = server.url()}, kPatient);
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

TEST(Http, OtherProtocolsAreRefused) {
  EXPECT_NE(exchange({.url = "file:///etc/hostname"}, kPatient).error, "");
  EXPECT_NE(exchange({.url = "no url at all"}, kPatient).error, "");
}

TEST(Http, NobodyThere) {
  std::string url;
  {
    const HttpServer server(echo);
    url = server.url();
  }
  EXPECT_NE(exchange({.url = url}, kShort).error, "");
}

TEST(Curl, TheFirstLibraryThatCanBeUsedIsTaken) {
  EXPECT_EQ(load_curl(std::array{"libreprieve-nowhere.so.4", "libm.so.6", "libcurl.so.4"}).problem, "");
}

TEST(Curl, WithoutItTheWayOutIsNamed) {
  const Curl none = load_curl(std::array{"libreprieve-nowhere.so.4", "libm.so.6"});
  EXPECT_THAT(none.problem, HasSubstr("install libcurl4"));
  EXPECT_THAT(none.problem, HasSubstr("libreprieve-nowhere.so.4: cannot open"));
  EXPECT_THAT(none.problem, HasSubstr("undefined symbol: curl_")) << "a library that is no libcurl";
}

TEST(Curl, AnOldOneIsRefused) {
  EXPECT_THAT(load_curl(std::array{REPRIEVE_OLD_CURL}).problem, HasSubstr("libcurl 7.61.1 is older than 7.87.0"));
}

class BadServer : public ::testing::TestWithParam<ServedReply::Form> {};

TEST_P(BadServer, IsGivenUp) {
  const HttpServer server([](const auto&) { return ServedReply{.form = GetParam()}; });
  const auto answer = exchange({.url = server.url()}, kShort);
  EXPECT_NE(answer.error, "");
  EXPECT_LE(answer.body.size(), kShort.bytes);
}
INSTANTIATE_TEST_SUITE_P(Http, BadServer,
                         ::testing::Values(ServedReply::Form::garbage, ServedReply::Form::silence,
                                           ServedReply::Form::drip, ServedReply::Form::flood));

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

}  // namespace
}  // namespace reprieve::termination
