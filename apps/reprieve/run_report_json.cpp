// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "run_report.hpp"

namespace reprieve::tool {

namespace {

Json time_sums_json(const TimeSums& times) {
  Json json = Json::object();
  for (const TimeKind& kind : time_kinds()) {
    json[std::string(kind.id) + "_s"] = times.*kind.seconds;
  }
  return json;
}

const char* to_id(Source source) {
  constexpr std::array kIds{"nothing", "checkpoint", "near_copy", "near_copy_of_other_nodes", "near_copy_brought"};
  return kIds.at(static_cast<std::size_t>(source));
}

Json start_json(const ReportedStart& start) {
  return {{"time", start.time ? Json(utc_time(*start.time)) : Json()},
          {"host", start.host},
          {"pid", start.pid},
          {"ranks", start.ranks},
          {"begin_s", start.begin_s},
          {"ready_s", start.ready_s},
          {"end_s", start.end_s},
          {"restored", to_id(start.source)},
          {"saved_by_near_copy", start.saved_by_near},
          {"step_from", or_null(start.step_from)},
          {"step_to", or_null(start.step_to)},
          {"ending", to_string(start.ending)},
          {"why", start.why},
          {"lost_steps", start.lost_steps},
          {"perhaps_lost_steps", or_null(start.perhaps_lost_steps)},
          {"times", time_sums_json(start.times)}};
}

Json save_json(const ReportedSave& save) {
  return {{"at_s", save.at_s},   {"number", save.number},   {"step", or_null(save.step)},
          {"bytes", save.bytes}, {"seconds", save.seconds}, {"blocked_s", save.blocked_s}};
}

Json near_json(const ReportedNear& near) {
  return {{"start", near.start + 1},
          {"count", near.count},
          {"seconds", near.seconds},
          {"bytes", near.bytes},
          {"partners", near.has_partners}};
}

Json reported_notice_json(const ReportedNotice& notice) {
  return {{"at_s", notice.at_s},
          {"start", notice.start + 1},
          {"source", notice.source},
          {"message", notice.message},
          {"host", notice.host},
          {"rank", notice.rank},
          {"grace_s", or_null(notice.grace_s)},
          {"agreed_s", or_null(notice.agreed_s)},
          {"committed_s", or_null(notice.committed_s)},
          {"left_s", or_null(notice.left_s)}};
}

template <class Item>
Json list_json(const std::vector<Item>& items, Json (*convert)(const Item&)) {
  Json list = Json::array();
  for (const Item& item : items) {
    list.push_back(convert(item));
  }
  return list;
}

}  // namespace

Json to_json(const RunReport& report, TimePoint now) {
  return {{"status", to_json(report.status, now)},
          {"length_s", report.length_s()},
          {"times", time_sums_json(report.times)},
          {"kept_steps", report.kept_steps},
          {"lost_steps", report.lost_steps},
          {"failed_saves", report.failed_saves},
          {"skipped_saves", report.skipped_saves},
          {"clock_set_back", report.clock_set_back},
          {"starts", list_json(report.starts, start_json)},
          {"saves", list_json(report.saves, save_json)},
          {"near_copies", list_json(report.near_copies, near_json)},
          {"notices", list_json(report.notices, reported_notice_json)},
          {"advice", to_json(report.advice)}};
}

}  // namespace reprieve::tool
