// SPDX-License-Identifier: BSD-3-Clause
#include "curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/text.hpp"
#include "statistics.hpp"

namespace reprieve::bench {

namespace {

/// How a cost grows: exponents over the whole curve, and from its last but one point to its last.
struct Growth {
  double fitted = 0;
  double at_the_end = 0;
};

/// Nothing where there is no power law: a cost of 0, or a single point.
std::optional<Growth> growth_of(const Curve& curve, std::size_t cost) {
  std::vector<double> sizes;
  std::vector<double> values;
  for (const Point& point : curve.points) {
    sizes.push_back(point.x);
    values.push_back(point.values[cost]);
  }
  const auto last_two = [](const std::vector<double>& all) { return std::vector<double>(all.end() - 2, all.end()); };
  if (sizes.size() < 2 || std::ranges::any_of(values, [](double value) { return value <= 0; })) {
    return std::nullopt;
  }
  return Growth{fitted_exponent(sizes, values), fitted_exponent(last_two(sizes), last_two(values))};
}

std::string text_of(const Cost& cost, double value) {
  return cost.is_bytes ? core::size_text(static_cast<std::uint64_t>(value)) : format_seconds(value);
}

}  // namespace

void print(const Curve& curve) {
  std::vector<std::string> header{curve.x_name};
  for (const Cost& cost : curve.costs) {
    header.push_back(cost.name);
  }
  Table table(curve.title, header);
  for (const Point& point : curve.points) {
    std::vector<std::string> row{fmt::format("{:.12g}", point.x)};
    for (std::size_t cost = 0; cost < curve.costs.size(); ++cost) {
      row.push_back(text_of(curve.costs[cost], point.values[cost]));
    }
    table.add_row(std::move(row));
  }
  if (curve.points.size() >= 2) {
    std::vector<std::string> fitted{"exponent"};
    std::vector<std::string> at_the_end{"of the last two"};
    for (std::size_t cost = 0; cost < curve.costs.size(); ++cost) {
      const auto growth = growth_of(curve, cost);
      fitted.push_back(growth ? fmt::format("{:.2f}", growth->fitted) : "-");
      at_the_end.push_back(growth ? fmt::format("{:.2f}", growth->at_the_end) : "-");
    }
    table.add_row(std::move(fitted));
    table.add_row(std::move(at_the_end));
  }
  table.print();
}

void add(Report& report, const Curve& curve, const nlohmann::json& facts) {
  for (std::size_t cost = 0; cost < curve.costs.size(); ++cost) {
    nlohmann::json record = facts;
    record["over"] = curve.x_name;
    record["cost"] = curve.costs[cost].name;
    for (const Point& point : curve.points) {
      record["points"].push_back(
          {{"x", point.x}, {curve.costs[cost].is_bytes ? "bytes" : "median_s", point.values[cost]}});
    }
    if (const auto growth = growth_of(curve, cost)) {
      record["exponent"] = growth->fitted;
      record["exponent_of_last_two"] = growth->at_the_end;
    }
    report.add(std::move(record));
  }
}

}  // namespace reprieve::bench
