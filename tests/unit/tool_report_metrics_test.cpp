// SPDX-License-Identifier: BSD-3-Clause
// The numbers of `reprieve report` for monitoring, read by a parser that takes nothing but the format.

#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "core/event_log.hpp"
#include "support/logged_events.hpp"
#include "timeline.hpp"

namespace reprieve::tool {
namespace {

using namespace std::chrono_literals;
using MetricEvent = nlohmann::json;

const TimePoint kMetricsNoon = std::chrono::sys_days(std::chrono::year(2026) / 3 / 1) + 12h;

MetricEvent metric_event(const char* name, int at_s, MetricEvent fields = MetricEvent::object()) {
  fields["event"] = name;
  fields["time"] = core::event_time(kMetricsNoon + std::chrono::seconds(at_s));
  fields["monotonic_s"] = at_s;
  return fields;
}

RunReport run_of_metrics(const std::string& directory, bool lives) {
  std::vector<MetricEvent> events{
      metric_event("start", 0), metric_event("ready", 2, {{"run_calls", 0}, {"total_steps", 500}}),
      metric_event("save_started", 10, {{"number", 80}, {"run_calls", 80}}),
      metric_event("save_finished", 13, {{"number", 80}, {"run_calls", 80}, {"seconds", 3}, {"bytes", 4096}}),
      metric_event("steps", 15, {{"run_calls", 100}})};
  if (!lives) {
    events.push_back(metric_event("error", 15, {{"run_calls", 100}}));
  }
  const Timeline timeline(test::log_of(events));
  return timeline.report(timeline.status(directory, lives).value(), {}, kMetricsNoon + 20s);
}

/// name{label="value",...} -> value. Labels stand in the order of their names.
using Samples = std::map<std::string, double>;

struct Family {
  std::string type;
  std::size_t samples = 0;
};

/// Throws on everything that is not of the text format 0.0.4, with the stricter rules of `promtool check metrics`.
class MetricsParser {
 public:
  explicit MetricsParser(bool openmetrics) : openmetrics_(openmetrics) {}

  Samples parse(const std::string& text) {
    require(text.ends_with('\n'), "the last line has no end");
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      require(!ended_, "a line after the end");
      take(line);
    }
    require(ended_ == openmetrics_, "# EOF");
    return samples_;
  }

 private:
  static void require(bool good, const std::string& what) {
    if (!good) {
      throw std::runtime_error(what);
    }
  }

  void take(const std::string& line) {
    static const std::regex help("# HELP ([a-z_]+) ([^\\\\]*)"), type("# TYPE ([a-z_]+) (counter|gauge|summary)");
    std::smatch found;
    if (openmetrics_ && line == "# EOF") {
      ended_ = true;
    } else if (std::regex_match(line, found, help)) {
      family_ = found[1];
      require(families_.emplace(family_, Family{}).second, "a family twice: " + line);
    } else if (std::regex_match(line, found, type)) {
      require(found[1] == family_ && families_[family_].samples == 0, "TYPE out of place: " + line);
      families_[family_].type = found[2];
    } else {
      take_sample(line);
    }
  }

  void take_sample(const std::string& line) {
    static const std::regex sample(R"re(([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\} ([-+0-9.e]+))re");
    std::smatch found;
    require(std::regex_match(line, found, sample), "no sample: " + line);
    Family& family = families_.at(family_);
    const std::string name = found[1];
    require(is_name_of_family(name, family.type), "a sample of another family: " + line);
    require(!found[2].str().ends_with(','), "a comma too many: " + line);
    ++family.samples;
    const double value = std::stod(found[3]);
    require(family.type != "counter" || value >= 0, "a counter below zero: " + line);
    require(samples_.emplace(name + "{" + found[2].str() + "}", value).second, "a sample twice: " + line);
  }

  [[nodiscard]] bool is_name_of_family(const std::string& name, const std::string& type) const {
    if (type == "summary") {
      return name == family_ + "_sum" || name == family_ + "_count";
    }
    if (type == "counter") {
      return name.ends_with("_total") && name == family_ + (openmetrics_ ? "_total" : "");
    }
    return type == "gauge" && name == family_ && !name.ends_with("_total");
  }

  bool openmetrics_;
  bool ended_ = false;
  std::string family_;
  std::map<std::string, Family> families_;
  Samples samples_;
};

Samples parsed(const std::vector<RunReport>& reports, MetricsFormat format = MetricsFormat::prometheus) {
  return MetricsParser(format == MetricsFormat::openmetrics).parse(metrics_text(reports, format, kMetricsNoon + 20s));
}

TEST(ReportMetrics, TheParserIsStrict) {
  const std::string good = "# HELP a_total b\n# TYPE a_total counter\na_total{c=\"d\"} 1\n";
  EXPECT_NO_THROW(MetricsParser(false).parse(good));
  EXPECT_THROW(MetricsParser(true).parse(good), std::runtime_error);
  for (const char* const bad :
       {"# HELP a b\n# TYPE a counter\na{c=\"d\"} 1\n", "# HELP a b\n# TYPE a gauge\nb{c=\"d\"} 1\n",
        "# HELP a b\n# TYPE a gauge\na{c=\"d\"d\"} 1\n", "# HELP a b\n# TYPE a gauge\na{c=\"d\"} one\n",
        "# HELP a b\n# TYPE a gauge\na{c=\"d\"} 1\na{c=\"d\"} 2\n", "# HELP a b\n# TYPE a gauge\na{c=\"d\"} 1"}) {
    EXPECT_THROW(MetricsParser(false).parse(bad), std::exception) << bad;
  }
}

TEST(ReportMetrics, OfARunThatWorks) {
  const Samples samples = parsed({run_of_metrics("run", true)});
  EXPECT_EQ(samples.at("reprieve_run_step{directory=\"run\"}"), 100);
  EXPECT_EQ(samples.at("reprieve_run_total_steps{directory=\"run\"}"), 500);
  EXPECT_EQ(samples.at("reprieve_run_state{directory=\"run\",state=\"running\"}"), 1);
  EXPECT_EQ(samples.at("reprieve_run_state{directory=\"run\",state=\"gone\"}"), 0);
  EXPECT_EQ(samples.at("reprieve_last_checkpoint_bytes{directory=\"run\"}"), 4096);
  EXPECT_EQ(samples.at("reprieve_last_checkpoint_timestamp_seconds{directory=\"run\"}"), 1772366413);
  EXPECT_EQ(samples.at("reprieve_saves_total{directory=\"run\"}"), 1);
  EXPECT_EQ(samples.at("reprieve_save_seconds_sum{directory=\"run\"}"), 3);
  EXPECT_EQ(samples.at("reprieve_save_seconds_count{directory=\"run\"}"), 1);
  EXPECT_EQ(samples.at("reprieve_starts_total{directory=\"run\"}"), 1);
  EXPECT_EQ(samples.at("reprieve_notices_total{directory=\"run\"}"), 0);
  EXPECT_EQ(samples.at("reprieve_at_risk_seconds{directory=\"run\"}"), 7);
  EXPECT_EQ(samples.at("reprieve_time_seconds_total{directory=\"run\",kind=\"kept\"}"), 8);
  EXPECT_EQ(samples.at("reprieve_time_seconds_total{directory=\"run\",kind=\"save\"}"), 3);
  EXPECT_EQ(samples.count("reprieve_time_seconds_total{directory=\"run\",kind=\"unsaved\"}"), 0U)
      << "what may still become kept or lost is no counter";
}

TEST(ReportMetrics, OfOneThatFailed) {
  const Samples samples = parsed({run_of_metrics("run", false)});
  EXPECT_EQ(samples.at("reprieve_run_state{directory=\"run\",state=\"failed\"}"), 1);
  EXPECT_EQ(samples.at("reprieve_lost_steps_total{directory=\"run\"}"), 20);
  EXPECT_EQ(samples.at("reprieve_time_seconds_total{directory=\"run\",kind=\"lost\"}"), 2);
  EXPECT_EQ(samples.count("reprieve_at_risk_seconds{directory=\"run\"}"), 0U);
}

TEST(ReportMetrics, SeveralRunsAndHardNames) {
  const std::string hard = "a \"b\"\\c\nd{,}\xff";
  const std::vector<RunReport> reports{run_of_metrics(hard, true), run_of_metrics("other", false)};
  const Samples samples = parsed(reports);
  EXPECT_EQ(samples.at("reprieve_starts_total{directory=\"a \\\"b\\\"\\\\c\\nd{,}\xef\xbf\xbd\"}"), 1);
  EXPECT_EQ(samples.at("reprieve_starts_total{directory=\"other\"}"), 1);
  EXPECT_EQ(parsed(reports, MetricsFormat::openmetrics), samples);
}

TEST(ReportMetrics, AFileIsKnownAsOneOfOurs) {
  for (const MetricsFormat format : {MetricsFormat::prometheus, MetricsFormat::openmetrics}) {
    EXPECT_TRUE(metrics_text({run_of_metrics("run", true)}, format, kMetricsNoon).starts_with(kMetricsMarker));
  }
}

}  // namespace
}  // namespace reprieve::tool
