// SPDX-License-Identifier: BSD-3-Clause
#include "drill_report.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "findings.hpp"

namespace reprieve::tool {

namespace {

using supervisor::DrillFacts;
using supervisor::DrillVerdict;
using supervisor::ObservedNotice;
using supervisor::ObservedStart;
using supervisor::StateDifference;

const char* id_of(DrillVerdict verdict) {
  switch (verdict) {
    case DrillVerdict::would_survive:
      return "would_survive";
    case DrillVerdict::would_lose_work:
      return "would_lose_work";
    case DrillVerdict::could_not_tell:
      break;
  }
  return "could_not_tell";
}

const char* words_of(DrillVerdict verdict) {
  switch (verdict) {
    case DrillVerdict::would_survive:
      return "the job would survive";
    case DrillVerdict::would_lose_work:
      return "the job would lose work, go another way, or not go on by itself";
    case DrillVerdict::could_not_tell:
      break;
  }
  return "the drill could not tell";
}

Json start_json(const ObservedStart& start) {
  return {{"opened", start.opened},
          {"ready", start.ready},
          {"directory", start.directory.string()},
          {"world_size", start.world_size},
          {"begins_at_step", or_null(start.begins_at)},
          {"restored_step", or_null(start.restored_step)},
          {"restore_s", start.restore_s},
          {"error", start.error},
          {"exit_code", or_null(start.code)}};
}

Json notice_json(const ObservedNotice& notice) {
  Json arrivals = Json::array();
  for (const auto& arrival : notice.arrivals) {
    arrivals.push_back(
        {{"rank", arrival.rank}, {"host", arrival.host}, {"source", arrival.source}, {"seconds", arrival.seconds}});
  }
  Json ends = Json::array();
  for (const auto& [rank, seconds] : notice.rank_ends) {
    ends.push_back({{"rank", rank}, {"seconds", seconds}});
  }
  return {{"told", notice.told},
          {"last_step", or_null(notice.last_step)},
          {"arrivals", arrivals},
          {"agreed_s", or_null(notice.agreed_s)},
          {"saved_s", or_null(notice.saved_s)},
          {"trained_on_s", or_null(notice.trained_on_s)},
          {"left_s", or_null(notice.left_s)},
          {"ended_s", or_null(notice.ended_s)},
          {"killed_s", or_null(notice.killed_s)},
          {"rank_ends", ends},
          {"ranks_blocked_in_output", notice.blocked_ranks},
          {"saved_step", or_null(notice.saved_step)},
          {"save_s", notice.save_s},
          {"longest_step_s", notice.longest_step_s},
          {"restart_code", notice.restart_code == 0 ? Json() : Json(notice.restart_code)}};
}

const char* id_of(StateDifference::Kind kind) {
  switch (kind) {
    case StateDifference::Kind::values:
      return "values";
    case StateDifference::Kind::rounding:
      return "rounding";
    case StateDifference::Kind::other_ranks:
      break;
  }
  return "other_ranks";
}

Json state_json(const supervisor::StateComparison& state) {
  Json names = Json::array();
  Json differences = Json::array();
  for (const StateDifference& each : state.different) {
    names.push_back(each.variable);
    differences.push_back({{"variable", each.variable},
                           {"kind", id_of(each.kind)},
                           {"what", each.what},
                           {"relative_error", each.relative_error}});
  }
  return {{"equal", state.equal()}, {"variables", state.variables}, {"bytes", state.bytes},
          {"different", names},     {"differences", differences},   {"failure", state.failure}};
}

/// One of the two runs of a replay.
Json replayed_json(const ObservedStart& start, const std::optional<supervisor::StateComparison>& state) {
  Json json = start_json(start);
  json["stopped_at_step"] = or_null(start.stopped_at());
  json["compared"] = state ? state_json(*state) : Json();
  return json;
}

Json replay_json(const supervisor::ReplayFacts& replay) {
  return {{"from_step", replay.from_step},
          {"steps", replay.steps},
          {"undisturbed", replayed_json(replay.undisturbed, replay.start)},
          {"resumed", replay.resumed ? replayed_json(*replay.resumed, replay.end) : Json()}};
}

Json grace_json(const DrillFacts& facts) {
  const auto costs = supervisor::grace_costs(facts);
  if (!costs) {
    return {};
  }
  return {{"wait_s", costs->wait_s},
          {"save_s", costs->save_s},
          {"leave_s", costs->leave_s},
          {"needed_s", supervisor::grace_needed_s(*costs)},
          {"with_margin_s", supervisor::grace_with_margin_s(*costs)},
          {"signal_lead_s", supervisor::signal_lead_s(*costs)}};
}

}  // namespace

DrillReport make_report(DrillFacts facts, std::vector<std::filesystem::path> kept) {
  DrillReport report{std::move(facts), {}, {}, std::move(kept)};
  report.findings = supervisor::judge_drill(report.facts);
  report.verdict = supervisor::verdict_of(report.findings);
  return report;
}

Json to_json(const DrillReport& report) {
  const DrillFacts& facts = report.facts;
  Json kept = Json::array();
  for (const auto& directory : report.kept) {
    kept.push_back(directory.string());
  }
  return {{"verdict", id_of(report.verdict)},
          {"findings", to_json(report.findings)},
          {"command", facts.command},
          {"signal", facts.signal},
          {"grace_s", facts.grace_s},
          {"first_start", start_json(facts.first)},
          {"notice", facts.notice ? notice_json(*facts.notice) : Json()},
          {"second_start", facts.second ? start_json(*facts.second) : Json()},
          {"state", facts.state ? state_json(*facts.state) : Json()},
          {"replay", facts.replay ? replay_json(*facts.replay) : Json()},
          {"grace_needed", grace_json(facts)},
          {"kept", kept}};
}

void print_text(std::ostream& out, const DrillReport& report) {
  const DrillFacts& facts = report.facts;
  out << fmt::format("drill   {}\n", printable(fmt::format("{}", fmt::join(facts.command, " "))));
  if (facts.notice && !facts.notice->told.empty()) {
    out << fmt::format("notice  {}, at step {} or so\n", facts.notice->told, facts.notice->last_step.value_or(0));
  }
  out << '\n';
  print_findings(out, report.findings);
  if (const auto costs = supervisor::grace_costs(facts)) {
    out << fmt::format("\nSlurm: #SBATCH --signal=B:URG@{0} for a script with `reprieve run`, B:USR1@{0} for others\n",
                       supervisor::signal_lead_s(*costs));
  }
  for (const auto& directory : report.kept) {
    out << fmt::format("\nkept: {}\n", directory.string());
  }
  out << fmt::format("\n{}\n", words_of(report.verdict));
}

}  // namespace reprieve::tool
