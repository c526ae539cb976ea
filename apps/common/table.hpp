// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Tables as people read them.

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace apps {

/// Rows of text under a header, in columns as wide as needed.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell per column.
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// @param indent  what each line begins with
  void print(std::ostream& out, const std::string& indent = "") const {
    std::vector<std::string> titles;
    std::vector<std::size_t> widths;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      titles.push_back(columns_[column].title);
      widths.push_back(titles.back().size());
      for (const auto& row : rows_) {
        widths.back() = std::max(widths.back(), width_of(row.at(column)));
      }
    }
    print_row(out, indent, titles, widths);
    for (const auto& row : rows_) {
      print_row(out, indent, row, widths);
    }
  }

 private:
  /// Without what colours it: from ESC to m.
  static std::size_t width_of(const std::string& cell) {
    bool is_colour = false;
    return static_cast<std::size_t>(std::ranges::count_if(cell, [&](char letter) {
      const bool counts = !is_colour && letter != '\x1b';
      is_colour = letter == '\x1b' || (is_colour && letter != 'm');
      return counts;
    }));
  }

  void print_row(std::ostream& out, const std::string& indent, const std::vector<std::string>& cells,
                 const std::vector<std::size_t>& widths) const {
    std::string line = indent;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::string filling(widths[column] - width_of(cells[column]), ' ');
      line += columns_[column].align == Align::right ? filling + cells[column] : cells[column] + filling;
      line += "  ";
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
  }

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace apps
