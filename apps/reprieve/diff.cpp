// SPDX-License-Identifier: BSD-3-Clause
// reprieve diff A B

#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "command.hpp"
#include "core/text.hpp"
#include "difference.hpp"
#include "files.hpp"
#include "progress.hpp"
#include "text.hpp"

namespace reprieve::tool::diff_command {

namespace {

constexpr const char* kFooter =
    R"(Compares the state bit by bit: names, kinds, types, shapes, values. A NaN equals the same NaN; -0.0 is not
0.0. When, why and by how many ranks the checkpoints were written does not count. Both files are verified first.

Examples:
  reprieve diff uninterrupted/ckpt-500.h5 resumed/ckpt-500.h5      is a resumed run the same run?
  reprieve diff a.h5 b.h5 --json | jq -r '.differences[].variable'
  reprieve diff a.h5 b.h5 > /dev/null && echo equal

Exit codes: 0 equal, 1 different, 2 damaged, unreadable or wrong usage.)";

struct Options {
  std::filesystem::path a;
  std::filesystem::path b;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  command.add_option("A", options.a, "A checkpoint")->required();
  command.add_option("B", options.b, "Another checkpoint")->required();
  command.add_flag("--json", options.json, "Print JSON");
}

/// What differs between two values means nothing if one of them is not what was written.
void require_sound(const std::filesystem::path& file) {
  Progress progress("verifying " + file.string());
  const auto damages = storage::verify_file(file, [&](auto done, auto total) { progress.update(done, total); });
  if (!damages.empty()) {
    throw CorruptError(
        fmt::format("{} is damaged, so it cannot be compared: {} ({} in all; `reprieve verify` lists them)",
                    file.string(), damage_text(damages.front()), count_text(damages.size(), "place")));
  }
}

std::string place_text(const Difference& difference) {
  const std::string index = shape_text(difference.first_index);
  if (difference.first_rank) {
    return fmt::format("rank {} {}", *difference.first_rank, index);
  }
  return difference.first_index.empty() ? "" : index;
}

std::string values_text(const Difference& difference) {
  const Comparison& found = difference.comparison;
  std::string text = fmt::format("{} of {}", found.different, count_text(difference.elements, "element"));
  if (const std::string place = place_text(difference); !place.empty()) {
    text += ", first at " + place;
  }
  if (found.max_absolute) {
    text += fmt::format("; max abs {:.6g}, max rel {:.3g}", *found.max_absolute, *found.max_relative);
  }
  if (found.not_finite > 0) {
    text += fmt::format("; {} by NaN or infinity", found.not_finite);
  }
  return text;
}

std::string text_of(const Difference& difference) {
  switch (difference.problem) {
    case Problem::only_in_a:
      return "only in A";
    case Problem::only_in_b:
      return "only in B";
    case Problem::values:
      return values_text(difference);
    case Problem::kind:
    case Problem::type:
    case Problem::shape:
      break;
  }
  return fmt::format("{}: {} in A, {} in B", to_string(difference.problem), difference.a, difference.b);
}

void print_text(const Options& options, const DifferenceReport& report) {
  std::cout << fmt::format("A  {}\nB  {}\n", options.a.string(), options.b.string());
  if (report.differences.empty()) {
    std::cout << fmt::format("equal: {}, {}\n", count_text(report.variables, "variable"),
                             core::size_text(report.bytes));
    return;
  }
  std::cout << fmt::format("different: {} of {}\n\n", report.differences.size(),
                           count_text(report.variables, "variable"));
  Table table({{"VARIABLE"}, {"DIFFERENCE"}});
  for (const Difference& difference : report.differences) {
    table.add_row({printable(difference.variable), text_of(difference)});
  }
  table.print(std::cout);
}

/// A long double as JSON has it, or null.
Json number_json(const std::optional<long double>& number) {
  return number ? Json(static_cast<double>(*number)) : Json();
}

Json difference_json(const Difference& difference) {
  Json json{{"variable", difference.variable}, {"problem", to_string(difference.problem)}};
  if (!difference.a.empty()) {
    json["a"] = difference.a;
    json["b"] = difference.b;
  }
  if (difference.problem == Problem::values) {
    json["elements"] = difference.elements;
    json["different_elements"] = difference.comparison.different;
    json["first_rank"] = difference.first_rank ? Json(*difference.first_rank) : Json();
    json["first_index"] = difference.first_index;
    json["max_abs_difference"] = number_json(difference.comparison.max_absolute);
    json["max_rel_difference"] = number_json(difference.comparison.max_relative);
    json["not_finite"] = difference.comparison.not_finite;
  }
  return json;
}

Json report_json(const Options& options, const DifferenceReport& report) {
  Json json{{"a", options.a.string()},       {"b", options.b.string()},        {"equal", report.differences.empty()},
            {"variables", report.variables}, {"compared_bytes", report.bytes}, {"differences", Json::array()}};
  for (const Difference& difference : report.differences) {
    json["differences"].push_back(difference_json(difference));
  }
  return json;
}

DifferenceReport compare(const Options& options) {
  Progress progress("comparing");
  return find_differences(options.a, options.b, [&](auto done, auto total) { progress.update(done, total); });
}

int run(const Options& options) {
  for (const auto& file : {options.a, options.b}) {
    require_file(file);
    require_sound(file);
  }
  const DifferenceReport report = compare(options);
  if (options.json) {
    print_json(std::cout, report_json(options, report));
  } else {
    print_text(options, report);
  }
  return report.differences.empty() ? kGood : kBad;
}

}  // namespace

void add(CLI::App& app, int& exit_code) {
  add_command<Options>(app, exit_code, "diff", "Compare the state in two checkpoints", kFooter, define, run);
}

}  // namespace reprieve::tool::diff_command
