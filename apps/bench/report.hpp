// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a benchmark prints: a table for people, or JSON for programs.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/table.hpp"

namespace reprieve::bench {

/// A table with a title. The first column names the rows, the others are figures.
class Table : private apps::Table {
 public:
  Table(std::string title, const std::vector<std::string>& columns);
  using apps::Table::add_row;
  void print() const;

 private:
  std::string title_;
};

/// Collects the results of one benchmark: each record becomes a JSON object.
class Report {
 public:
  /// @param benchmark  its name, kept in every JSON record
  explicit Report(std::string benchmark) : benchmark_(std::move(benchmark)) {}
  void add(nlohmann::json record);
  /// Prints all records as one JSON array.
  void print_json() const;

 private:
  std::string benchmark_;
  nlohmann::json records_ = nlohmann::json::array();
};

/// A duration with three significant digits and a unit: "1.23 us".
std::string format_seconds(double seconds);
/// A share as a percentage: "0.042 %".
std::string format_percent(double share);

}  // namespace reprieve::bench
