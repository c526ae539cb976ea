// SPDX-License-Identifier: BSD-3-Clause
// The page of `reprieve report`: well-formed, harmless whatever a log says, and of bounded size.

#include <gmock/gmock.h>

#include <optional>
#include <regex>

#include "core/event_log.hpp"
#include "report_charts.hpp"
#include "report_page.hpp"
#include "support/logged_events.hpp"

namespace reprieve::tool {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using PageEvent = nlohmann::json;

const TimePoint kPageNoon = std::chrono::sys_days(std::chrono::year(2026) / 3 / 1) + 12h;

PageEvent page_event(const char* name, int at_s, PageEvent fields = PageEvent::object()) {
  fields["event"] = name;
  fields["time"] = core::event_time(kPageNoon + std::chrono::seconds(at_s));
  fields["monotonic_s"] = at_s;
  return fields;
}

RunReport report_on(const std::vector<PageEvent>& events, const std::string& directory = "run") {
  const Timeline timeline(test::log_of(events));
  return timeline.report(timeline.status(directory, false).value_or(RunStatus{}), {}, kPageNoon);
}

/// One that was preempted, killed, and failed, as often as wanted; everything it says is @p words.
std::vector<PageEvent> eventful_run(const std::string& words, int times = 1) {
  std::vector<PageEvent> events;
  int at_s = 0;
  for (int i = 0; i < times; ++i) {
    const int step = i * 100;
    const int begin = i % 3 == 2 ? step - 10 : step;  // the one before has failed after its save
    const auto add = [&](const char* name, int after_s, const PageEvent& fields) {
      at_s += after_s;
      events.push_back(page_event(name, at_s, fields));
    };
    add("start", 60, {{"host", words}, {"pid", 1}, {"world_size", 4}, {"directory", words}});
    add("restore_started", 1, {{"file", words}});
    add("restore", 1, {{"file", words}, {"run_calls", begin}});
    add("ready", 1, {{"run_calls", begin}});
    add("save_started", 100, {{"number", step + 90}, {"run_calls", step + 90}});
    add("save_finished", 2, {{"number", step + 90}, {"run_calls", step + 90}, {"seconds", 2}, {"bytes", 1 << 20}});
    if (i % 3 == 0) {
      add("notice", 5, {{"source", words}, {"message", words}, {"rank", 0}, {"host", words}});
      add("exit", 1, {{"run_calls", step + 100}});
    } else if (i % 3 == 1) {
      add("error", 5, {{"message", words}, {"run_calls", step + 100}});
    }
  }
  return events;
}

/// What is wrong with the tags and entities of a page; nothing if each tag is closed in the right order.
std::optional<std::string> fault_of_markup(const std::string& page) {
  static const std::regex piece(
      R"(<!DOCTYPE html>|<!--.*?-->|<(/?)([A-Za-z0-9]+)((?:\s+[-A-Za-z0-9:]+="[^"<]*")*)\s*(/?)>)");
  static const std::regex entity("&(?!(?:amp|lt|gt|quot|#39);)");
  std::vector<std::string> open;
  std::size_t end = 0;
  for (auto tag = std::sregex_iterator(page.begin(), page.end(), piece); tag != std::sregex_iterator(); ++tag) {
    const std::string between = page.substr(end, static_cast<std::size_t>(tag->position()) - end);
    if (between.find('<') != std::string::npos || std::regex_search(between, entity)) {
      return "text that is no text: " + between;
    }
    end = static_cast<std::size_t>(tag->position() + tag->length());
    if (!(*tag)[2].matched || (*tag)[4].length() > 0) {
      continue;
    }
    if ((*tag)[1].length() == 0) {
      open.push_back((*tag)[2]);
    } else if (open.empty() || open.back() != (*tag)[2]) {
      return "closed in the wrong order: " + (*tag)[2].str();
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? std::nullopt : std::optional("never closed: " + open.back());
}

TEST(ReportPage, TheCheckOfThePageSeesFaults) {
  EXPECT_FALSE(fault_of_markup("<a b=\"c\"><d/>e &amp; f</a>").has_value());
  EXPECT_TRUE(fault_of_markup("<a><b></a></b>").has_value());
  EXPECT_TRUE(fault_of_markup("<a>").has_value());
  EXPECT_TRUE(fault_of_markup("<p>a & b</p>").has_value());
  EXPECT_TRUE(fault_of_markup("<p>1 < 2</p>").has_value());
}

TEST(ReportPage, IsWellFormedAndStandsAlone) {
  const std::string page =
      report_page({report_on(eventful_run("words", 4)), report_on(eventful_run("other"), "b")}, kPageNoon);
  EXPECT_EQ(fault_of_markup(page), std::nullopt);
  EXPECT_THAT(page, ::testing::StartsWith(std::string(kPageMarker)));
  EXPECT_THAT(page, AllOf(HasSubstr("charset=\"utf-8\""), HasSubstr("prefers-color-scheme:dark"),
                          HasSubstr("@media print"), HasSubstr("default-src 'none'"), HasSubstr("id=\"run-2\"")));
  // Nothing is fetched from anywhere.
  for (const char* const foreign : {"http:", "https:", "src=\"", "@import", "<link"}) {
    EXPECT_THAT(page, Not(HasSubstr(foreign)));
  }
  static const std::regex url(R"(url\((?!#))");
  EXPECT_FALSE(std::regex_search(page, url));
}

TEST(ReportPage, TellsWhatBecameOfARun) {
  const std::string page = report_page({report_on(eventful_run("node17", 3))}, kPageNoon);
  EXPECT_THAT(
      page, AllOf(HasSubstr("start 1"), HasSubstr("start 3"), HasSubstr("termination notice"), HasSubstr("Lost steps"),
                  HasSubstr("90th percentile"), HasSubstr("Daly 2006"), HasSubstr("2026-03-01 12:01:00 UTC")));
  EXPECT_THAT(page, HasSubstr("<strong>Start 2</strong> on node17 failed (node17): 5 s of work was lost, 10 steps"));
  EXPECT_THAT(page, HasSubstr("<strong>Start 3</strong> on node17 was killed"));
  EXPECT_THAT(page, HasSubstr("of work was lost"));
  EXPECT_THAT(page, HasSubstr("; in "));
  EXPECT_THAT(page, Not(HasSubstr("Nothing had been saved")));
}

TEST(ReportPage, TellsWhoNeverSavedToDoSo) {
  const std::string page =
      report_page({report_on({page_event("start", 0), page_event("ready", 1, {{"run_calls", 0}}),
                              page_event("error", 9001, {{"run_calls", 500}, {"message", "a rank failed"}})})},
                  kPageNoon);
  EXPECT_THAT(page, AllOf(HasSubstr("failed (a rank failed): 2 h 30 min of work was lost, 500 steps"),
                          HasSubstr("Nothing had been saved until then")));
}

TEST(ReportPage, WhatALogSaysStaysText) {
  const std::string hostile = "</td><script>alert('1')</script>\" onload=\"x\" & \x1b[31m \x01";
  const std::string page = report_page({report_on(eventful_run(hostile, 3), "a/<b>&\"c'")}, kPageNoon);
  EXPECT_EQ(fault_of_markup(page), std::nullopt);
  EXPECT_THAT(page, AllOf(HasSubstr("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"),
                          HasSubstr("a/&lt;b&gt;&amp;&quot;c&#39;"), Not(HasSubstr("alert('1')")),
                          Not(HasSubstr("onload=\"x")), Not(HasSubstr("\x1b")), Not(HasSubstr("\x01"))));
  // The one script is that of the page.
  const auto first = page.find("<script");
  EXPECT_EQ(page.find("<script", first + 1), std::string::npos);
}

TEST(ReportPage, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(html("a\xff"
                 "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(html("Zürich"), "Zürich");
  EXPECT_EQ(fault_of_markup(report_page({report_on(eventful_run("x"), "a\xff")}, kPageNoon)), std::nullopt);
}

TEST(ReportPage, RunsOfWhichLittleIsKnownHaveAPageToo) {
  const std::vector<std::vector<PageEvent>> logs{
      {page_event("start", 0)},
      {page_event("start", 0), page_event("ready", 0, {{"run_calls", 0}})},
      {page_event("start", 0), page_event("save_finished", 5, {{"number", 1}})},
      {{{"event", "start"}}, {{"event", "notice"}}, {{"event", "exit"}}},
      {{{"event", "start"}, {"monotonic_s", 1}}, {{"event", "ready"}, {"monotonic_s", 1e8}, {"run_calls", ~0ULL}}},
  };
  for (const auto& events : logs) {
    const std::string page = report_page({report_on(events)}, kPageNoon);
    EXPECT_EQ(fault_of_markup(page), std::nullopt) << PageEvent(events);
    EXPECT_THAT(page, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf\"")))) << PageEvent(events);
  }
}

TEST(ReportPage, ItsSizeDoesNotGrowWithTheLog) {
  const std::size_t once = report_page({report_on(eventful_run("x", 1500))}, kPageNoon).size();
  const std::size_t twice = report_page({report_on(eventful_run("x", 3000))}, kPageNoon).size();
  EXPECT_LT(static_cast<double>(twice), 1.3 * static_cast<double>(once));
}

TEST(ReportPage, MarksOfAxesAreRound) {
  EXPECT_THAT(time_ticks(100, 4), ElementsAre(0, 30, 60, 90));
  EXPECT_THAT(time_ticks(0.5, 5), ElementsAre(0, 0.1, 0.2, ::testing::DoubleNear(0.3, 1e-9), 0.4, 0.5));
  EXPECT_THAT(time_ticks(4 * 86400.0, 4), ElementsAre(0, 86400, 2 * 86400, 3 * 86400, 4 * 86400));
  EXPECT_THAT(count_ticks(1234, 4), ElementsAre(0, 500, 1000));
  EXPECT_THAT(count_ticks(0, 4), ElementsAre(0));
  EXPECT_EQ(time_tick_text(5400), "1 h 30 min");
  EXPECT_EQ(time_tick_text(30), "30 s");
  EXPECT_EQ(time_tick_text(86400), "1 d");
  EXPECT_EQ(count_tick_text(1500), "1500");
  EXPECT_EQ(count_tick_text(20000), "20 k");
  EXPECT_EQ(count_tick_text(2.5e6), "2.5 M");
}

TEST(ReportPage, NumbersAsPeopleReadThem) {
  EXPECT_EQ(coordinate(1.04), "1");
  EXPECT_EQ(coordinate(-0.01), "0");
  EXPECT_EQ(coordinate(12.34), "12.3");
  EXPECT_EQ(span_text(0.02134), "0.0213 s");
  EXPECT_EQ(span_text(200), "3 min 20 s");
  EXPECT_EQ(span_text(90 * 3600), "3 d 18 h");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(1.9e19), "7.8 EiB");
  EXPECT_EQ(share_text(1, 0), "0 %");
  EXPECT_EQ(share_text(1, 3), "33 %");
  EXPECT_EQ(share_text(1, 125), "0.8 %");
}

}  // namespace
}  // namespace reprieve::tool
