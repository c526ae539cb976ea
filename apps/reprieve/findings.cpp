// SPDX-License-Identifier: BSD-3-Clause
#include "findings.hpp"

#include <algorithm>

namespace reprieve::tool {

namespace {

using supervisor::Finding;

/// For lines on a terminal.
constexpr std::size_t kWidth = 110;
/// The width of a mark.
constexpr std::size_t kIndent = 8;

const char* mark_of(Finding::Grade grade) {
  switch (grade) {
    case Finding::Grade::good:
      return "ok      ";
    case Finding::Grade::warning:
      return "look at ";
    case Finding::Grade::problem:
      return "PROBLEM ";
    case Finding::Grade::unknown:
      break;
  }
  return "unknown ";
}

/// Breaks at blanks; lines after the first are indented by @p indent.
std::string wrap(const std::string& text, std::size_t indent) {
  std::string result;
  std::size_t column = indent;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column > indent && column + 1 + length > kWidth) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += text.substr(begin, length);
    column += length;
    begin = end + 1;
  }
  return result;
}

}  // namespace

void print_findings(std::ostream& out, const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    out << mark_of(finding.grade) << wrap(printable(finding.text), kIndent) << '\n';
    if (!finding.advice.empty()) {
      out << std::string(kIndent, ' ') << wrap("-> " + printable(finding.advice), kIndent) << '\n';
    }
  }
}

Json to_json(const std::vector<Finding>& findings) {
  Json all = Json::array();
  for (const Finding& finding : findings) {
    all.push_back(
        {{"grade", to_string(finding.grade)}, {"id", finding.id}, {"text", finding.text}, {"advice", finding.advice}});
  }
  return all;
}

}  // namespace reprieve::tool
