// SPDX-License-Identifier: BSD-3-Clause
// Other libraries in the program of a user's. fmt and nlohmann/json are those that Reprieve itself uses, in "another
// version": Debian has one of each, so matrix.sh makes the other one, of copies of Debian's headers. Its namespace has
// the name of another version, and one of its classes has a member more. Code of the library that took such an object
// for its own would read the wrong bytes; so would this program with one of the library's.
#include <fmt/format.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <Eigen/Core>
#include <nlohmann/json.hpp>
#include <reprieve/eigen.hpp>
#include <reprieve/reprieve.hpp>
#include <sstream>

#include "check.hpp"

static_assert(sizeof(nlohmann::json) == 24, "the copy with a member more");
static_assert(sizeof(fmt::detail::buffer<char>) == 40, "the copy with a member more");

void neighbours() {
  const std::string text = fmt::format("{:>5}|{:.2f}|{}", 42, 0.125, "text");
  check(text == "   42|0.12|text", "fmt");

  nlohmann::json json = nlohmann::json::parse(R"({"a": [1, 2.5, null, "x"]})");
  json["b"] = {{"c", true}};
  check(json.dump() == R"({"a":[1,2.5,null,"x"],"b":{"c":true}})", "nlohmann");
  bool caught = false;
  try {
    json = nlohmann::json::parse("{");
  } catch (const nlohmann::json::parse_error&) {
    caught = true;
  }
  check(caught, "an error of nlohmann");

  std::ostringstream log;
  spdlog::logger logger("own", std::make_shared<spdlog::sinks::ostream_sink_mt>(log));
  logger.set_pattern("%v");
  logger.warn("{} of {}", 1, "spdlog");
  check(log.str() == "1 of spdlog\n", "spdlog");

  Eigen::Matrix2d matrix;
  matrix << 1, 2, 3, 4;
  check(matrix * Eigen::Vector2d(1, 1) == Eigen::Vector2d(3, 7), "Eigen");
}

void add_neighbours(reprieve::Checkpoint& state) {
  static Eigen::MatrixXd matrix = Eigen::MatrixXd::Identity(3, 2);
  state.add_distributed("matrix", reprieve::strided_view(matrix), {3, 2}, {0, 0});
}
