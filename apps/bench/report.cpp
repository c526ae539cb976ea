// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iostream>

namespace reprieve::bench {

namespace {

std::vector<apps::Table::Column> columns_of(const std::vector<std::string>& titles) {
  std::vector<apps::Table::Column> columns;
  for (const std::string& title : titles) {
    columns.push_back({title, columns.empty() ? apps::Table::Align::left : apps::Table::Align::right});
  }
  return columns;
}

}  // namespace

Table::Table(std::string title, const std::vector<std::string>& columns)
    : apps::Table(columns_of(columns)), title_(std::move(title)) {}

void Table::print() const {
  std::cout << '\n' << title_ << '\n';
  apps::Table::print(std::cout, "  ");
  std::cout << std::flush;
}

void Report::add(nlohmann::json record) {
  record["benchmark"] = benchmark_;
  records_.push_back(std::move(record));
}

void Report::print_json() const { fmt::print("{}\n", records_.dump(2)); }

std::string format_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size < 1e-6) {
    return fmt::format("{:.3g} ns", seconds * 1e9);
  }
  if (size < 1e-3) {
    return fmt::format("{:.3g} us", seconds * 1e6);
  }
  if (size < 1) {
    return fmt::format("{:.3g} ms", seconds * 1e3);
  }
  return fmt::format("{:.3g} s", seconds);
}

std::string format_percent(double share) { return fmt::format("{:.2g} %", share * 100); }

}  // namespace reprieve::bench
