#include "report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace reprieve::bench {

Table::Table(std::string title, std::vector<std::string> columns) : title_(std::move(title)) {
  rows_.push_back(std::move(columns));
}

void Table::add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

void Table::print() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  fmt::print("\n{}\n", title_);
  for (const auto& row : rows_) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      // The first column names the row; the others are figures.
      if (column == 0) {
        fmt::print("  {:<{}}", row[column], widths[column]);
      } else {
        fmt::print("  {:>{}}", row[column], widths[column]);
      }
    }
    fmt::print("\n");
  }
  std::fflush(stdout);
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
