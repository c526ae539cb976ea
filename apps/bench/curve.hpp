// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Costs as functions of a size, and how they grow.

#include <string>
#include <vector>

#include "report.hpp"

namespace reprieve::bench {

/// What is measured at each point of a curve: seconds, or bytes.
struct Cost {
  std::string name;
  bool is_bytes = false;
};

struct Point {
  double x = 0;
  std::vector<double> values;  ///< one for each cost
};

struct Curve {
  std::string title;
  std::string x_name;
  std::vector<Cost> costs;
  std::vector<Point> points;
};

/// A table: the costs of each point, and under each of them the exponents of its growth.
void print(const Curve& curve);
/// A record for each cost. @param facts  that each of them has beside
void add(Report& report, const Curve& curve, const nlohmann::json& facts = nlohmann::json::object());

}  // namespace reprieve::bench
