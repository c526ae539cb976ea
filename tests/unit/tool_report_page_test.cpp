// SPDX-License-Identifier: BSD-3-Clause
// The page of `reprieve report`: it holds the JSON, is harmless whatever a log says, and its script draws from what is
// there. Where Node.js is installed, the script runs.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <set>

#include "core/event_log.hpp"
#include "support/logged_events.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "timeline.hpp"

namespace reprieve::tool {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
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

Json report_on(const std::vector<PageEvent>& events, const std::string& directory = "run") {
  const Timeline timeline(test::log_of(events));
  return to_json(timeline.report(timeline.status(directory, false).value_or(RunStatus{}), {}, kPageNoon), kPageNoon);
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

/// What stands between two pieces of text.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const auto from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

std::string page_of(const Json& reports) { return report_page(reports, kPageNoon); }

std::string script_of(const std::string& page) { return between(page, "//<![CDATA[", "//]]>"); }

Json data_in(const std::string& page) { return Json::parse(between(page, "id=\"data\">", "</script>")); }

TEST(ReportPage, HoldsTheJsonAndStandsAlone) {
  const Json reports = Json::array({report_on(eventful_run("words", 4)), report_on(eventful_run("other"), "b")});
  const std::string page = page_of(reports);
  EXPECT_EQ(data_in(page), reports);
  EXPECT_THAT(page, ::testing::StartsWith(std::string(kPageMarker)));
  EXPECT_THAT(page, AllOf(HasSubstr("charset=\"utf-8\""), HasSubstr("prefers-color-scheme:dark"),
                          HasSubstr("@media print"), HasSubstr("default-src 'none'"), Not(HasSubstr("@MADE@"))));
  // Nothing is fetched from anywhere.
  for (const char* const foreign : {"http:", "https:", "src=\"", "@import", "<link", "fetch(", "XMLHttp", "import("}) {
    EXPECT_THAT(page, Not(HasSubstr(foreign)));
  }
  static const std::regex url(R"(url\((?!#))");
  EXPECT_FALSE(std::regex_search(page, url));
}

TEST(ReportPage, WhatALogSaysStaysData) {
  const std::string hostile = "</script><script>alert('1')</script> & @DATA@ \x1b[31m \x01 \xff";
  const Json reports = Json::array({report_on(eventful_run(hostile, 3), "a/<b>&\"c'")});
  const std::string page = page_of(reports);
  EXPECT_THAT(page, AllOf(Not(HasSubstr("alert('1')</")), Not(HasSubstr("\x1b")), Not(HasSubstr("\x01"))));
  EXPECT_EQ(data_in(page)[0]["status"]["directory"], "a/<b>&\"c'");
  std::string rest = page;
  const std::string script = "//<![CDATA[" + script_of(page) + "//]]>";
  EXPECT_EQ(fault_of_markup(rest.erase(rest.find(script), script.size())), std::nullopt);
}

/// The keys of an object, or of the first objects of a list.
void collect_keys(const Json& json, std::set<std::string>& keys) {
  for (const Json& one : json.is_array() ? json : Json::array({json})) {
    for (auto field = one.begin(); one.is_object() && field != one.end(); ++field) {
      keys.insert(field.key());
    }
  }
}

/// What the script calls the objects of the JSON, and what it may ask each for.
std::map<std::string, std::set<std::string>> keys_by_name(const Json& reports) {
  std::map<std::string, std::set<std::string>> keys;
  for (const Json& report : reports) {
    collect_keys(report, keys["run"]);
    for (const auto& [name, list] : {std::pair{"start", "starts"},
                                     {"save", "saves"},
                                     {"notice", "notices"},
                                     {"copy", "local_copies"},
                                     {"span", "spans"},
                                     {"point", "points"},
                                     {"times", "times"},
                                     {"status", "status"}}) {
      collect_keys(report.at(list), keys[name]);
    }
    collect_keys(report.at("status").at("checkpoint"), keys["checkpoint"]);
    collect_keys(report.at("status").at("local_copy"), keys["local"]);
  }
  return keys;
}

std::set<std::string> unknown_keys(const std::string& script, const Json& reports) {
  static const std::regex access(R"(\b(run|start|save|notice|copy|span|point|times|status|checkpoint|local)\.(\w+))");
  const auto keys = keys_by_name(reports);
  std::set<std::string> unknown;
  for (auto found = std::sregex_iterator(script.begin(), script.end(), access); found != std::sregex_iterator();
       ++found) {
    if (!keys.at((*found)[1]).contains((*found)[2])) {
      unknown.insert((*found)[0]);
    }
  }
  return unknown;
}

/// And of one with a node-local copy that no checkpoint has overtaken.
Json reports_of_recorded_runs() {
  Json reports = Json::array({report_on({page_event("start", 0), page_event("local_copies", 9, {{"step", 5}})})});
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(REPRIEVE_SOURCE_DIR) / "tests/unit/recorded")) {
    if (entry.path().extension() == ".json") {
      std::ifstream stream(entry.path());
      const Json answers = Json::parse(stream);
      for (const Json& report : answers.at("report")) {
        reports.push_back(report);
      }
    }
  }
  return reports;
}

TEST(ReportPage, ItsScriptNamesOnlyKeysOfTheJson) {
  const Json reports = reports_of_recorded_runs();
  ASSERT_FALSE(reports.empty());
  EXPECT_THAT(unknown_keys(script_of(page_of(reports)), reports), ::testing::IsEmpty());
  EXPECT_THAT(unknown_keys("run.starts, run.stops", reports), ::testing::ElementsAre("run.stops"));
  const auto page = page_of(reports);
  for (const auto& [kind, seconds] : reports[0].at("times").items()) {
    EXPECT_THAT(page, HasSubstr("['" + kind.substr(0, kind.size() - 2) + "', ")) << "a kind of time";
  }
}

/// What the script draws; nothing where there is no Node.js.
std::optional<std::string> drawn(const Json& reports) {
  const test::TemporaryDirectory directory;
  const std::string page = page_of(reports);
  std::ofstream(directory / "page.js") << "const elements = {data: {textContent: " << Json(data_in(page).dump()).dump()
                                       << "}, page: {}};\n"
                                       << "const document = {getElementById: (id) => elements[id]};\n"
                                       << script_of(page) << "process.stdout.write(elements.page.innerHTML);\n";
  if (std::system("command -v node > /dev/null") != 0) {
    return std::nullopt;
  }
  test::Process node({{"node", directory / "page.js"}});
  EXPECT_EQ(node.wait(std::chrono::minutes(1)), 0) << node.err();
  return node.out();
}

#define REPRIEVE_DRAWN(page, reports)                                    \
  const auto drawn_or_not = drawn(reports);                              \
  if (!drawn_or_not) {                                                   \
    GTEST_SKIP() << "the script needs Node.js to run without a browser"; \
  }                                                                      \
  const std::string& page = *drawn_or_not

TEST(ReportPage, TellsWhatBecameOfARun) {
  REPRIEVE_DRAWN(page, Json::array({report_on(eventful_run("node17", 3))}));
  EXPECT_EQ(fault_of_markup(page), std::nullopt);
  EXPECT_THAT(
      page, AllOf(HasSubstr("start 1"), HasSubstr("start 3"), HasSubstr("termination notice"), HasSubstr("Lost steps"),
                  HasSubstr("90th percentile"), HasSubstr("Daly 2006"), HasSubstr("2026-03-01 12:01:00 UTC")));
  EXPECT_THAT(page, HasSubstr("<strong>Start 2</strong> on node17 failed (node17): 5 s of work was lost, 10 steps"));
  EXPECT_THAT(page, HasSubstr("<strong>Start 3</strong> on node17 was killed"));
  EXPECT_THAT(page, AllOf(HasSubstr("; in "), Not(HasSubstr("Nothing had been saved"))));
}

TEST(ReportPage, TellsWhoNeverSavedToDoSo) {
  REPRIEVE_DRAWN(
      page, Json::array({report_on({page_event("start", 0), page_event("ready", 1, {{"run_calls", 0}}),
                                    page_event("error", 9001, {{"run_calls", 500}, {"message", "a rank failed"}})})}));
  EXPECT_THAT(page, AllOf(HasSubstr("failed (a rank failed): 2 h 30 min of work was lost, 500 steps"),
                          HasSubstr("Nothing had been saved until then")));
}

TEST(ReportPage, WhatALogSaysStaysText) {
  const std::string hostile = "</td><script>alert('1')</script>\" onload=\"x\" & \x1b[31m \x01";
  REPRIEVE_DRAWN(page, Json::array({report_on(eventful_run(hostile, 3), "a/<b>&\"c'")}));
  EXPECT_EQ(fault_of_markup(page), std::nullopt);
  EXPECT_THAT(page, AllOf(HasSubstr("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"),
                          HasSubstr("a/&lt;b&gt;&amp;&quot;c&#39;"), Not(HasSubstr("<script")),
                          Not(HasSubstr("onload=\"x")), Not(HasSubstr("\x1b")), Not(HasSubstr("\x01"))));
}

TEST(ReportPage, RunsOfWhichLittleIsKnownAreDrawnToo) {
  Json reports = reports_of_recorded_runs();
  for (const std::vector<PageEvent>& events : std::vector<std::vector<PageEvent>>{
           {page_event("start", 0)},
           {page_event("start", 0), page_event("ready", 0, {{"run_calls", 0}})},
           {page_event("start", 0), page_event("save_finished", 5, {{"number", 1}})},
           {{{"event", "start"}}, {{"event", "notice"}}, {{"event", "exit"}}},
           {{{"event", "start"}, {"monotonic_s", 1}}, {{"event", "ready"}, {"monotonic_s", 1e8}, {"run_calls", ~0ULL}}},
       }) {
    reports.push_back(report_on(events));
  }
  REPRIEVE_DRAWN(page, reports);
  EXPECT_EQ(fault_of_markup(page), std::nullopt);
  EXPECT_THAT(page, AllOf(Not(HasSubstr("NaN")), Not(HasSubstr("Infinity")), Not(HasSubstr("undefined")),
                          HasSubstr("id=\"run-" + std::to_string(reports.size()) + "\"")));
}

TEST(ReportPage, WhatIsDrawnOfALongLogIsBounded) {
  REPRIEVE_DRAWN(once, Json::array({report_on(eventful_run("x", 1500))}));
  const std::string twice = drawn(Json::array({report_on(eventful_run("x", 3000))})).value();
  EXPECT_LT(static_cast<double>(twice.size()), 1.3 * static_cast<double>(once.size()));
}

}  // namespace
}  // namespace reprieve::tool
