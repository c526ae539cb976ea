// SPDX-License-Identifier: BSD-3-Clause
// The heat equation on one rank: the split, the scheme, and the analytic solution that it is checked against.

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "heat/grid.hpp"
#include "heat/simulation.hpp"
#include "reprieve/error.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace heat {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HeatGrid, BoxesCoverEveryPointOnce) {
  const Index points{7, 5, 11};
  const Index ranks{2, 3, 4};
  std::map<Index, int> visits;
  for_each_point(ranks, [&](const Index& rank) {
    const Box box = box_of(points, ranks, rank);
    for_each_point(box.extent, [&](const Index& i) {
      ++visits[{box.offset[0] + i[0], box.offset[1] + i[1], box.offset[2] + i[2]}];
    });
  });
  EXPECT_EQ(visits.size(), 7U * 5 * 11);
  for (const auto& [index, count] : visits) {
    EXPECT_EQ(count, 1);
    EXPECT_TRUE(index[0] < 7 && index[1] < 5 && index[2] < 11);
  }
}

TEST(HeatGrid, BoxesDifferByOnePointAtMost) {
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const std::size_t extent = box_of({1, 1, 11}, {1, 1, 4}, {0, 0, rank}).extent[2];
    EXPECT_TRUE(extent == 2 || extent == 3) << extent;
  }
}

TEST(HeatGrid, TheLongestDimensionIsCutMostOften) {
  EXPECT_THAT(matched_to({10, 30, 20}, {3, 2, 1}), ElementsAre(1, 3, 2));
  EXPECT_THAT(matched_to({5, 5, 5}, {1, 2, 1}), ElementsAre(2, 1, 1));
}

TEST(HeatGrid, DirichletPointsLieInsideAndPeriodicOnesBeginOnTheSurface) {
  const Grid inside{{3, 3, 3}, Boundary::dirichlet};
  EXPECT_EQ(inside.coordinate(0, 0), 0.25);
  EXPECT_EQ(inside.coordinate(0, 2), 0.75);
  const Grid around{{4, 4, 4}, Boundary::periodic};
  EXPECT_EQ(around.coordinate(0, 0), 0);
  EXPECT_EQ(around.coordinate(0, 3), 0.75);
}

class InnerAndSurface : public testing::TestWithParam<Index> {};
INSTANTIATE_TEST_SUITE_P(Heat, InnerAndSurface,
                         testing::Values(Index{1, 1, 1}, Index{2, 2, 2}, Index{3, 3, 3}, Index{1, 4, 2}, Index{5, 1, 6},
                                         Index{4, 5, 6}));

TEST_P(InnerAndSurface, CoverEveryPointOnceAndTheInnerOneTouchesNoSurface) {
  const Index extent = GetParam();
  const std::vector<Box> parts = inner_and_surface(extent);
  std::map<Index, int> visits;
  for (const Box& part : parts) {
    for_each_point(part.extent, [&](const Index& i) {
      ++visits[{part.offset[0] + i[0], part.offset[1] + i[1], part.offset[2] + i[2]}];
    });
  }
  EXPECT_EQ(visits.size(), extent[0] * extent[1] * extent[2]);
  for (const auto& [index, count] : visits) {
    EXPECT_EQ(count, 1);
  }
  const Box& inner = parts.front();
  if (inner.size() > 0) {
    for (std::size_t d = 0; d < kDimensions; ++d) {
      EXPECT_GE(inner.offset[d], 1U);
      EXPECT_LE(inner.offset[d] + inner.extent[d], extent[d] - 1);
    }
  }
}

// The neighbours are told apart by their values, the dimensions by their weights.
TEST(HeatField, TheStencilTakesTheSixNeighbours) {
  Field from({3, 3, 3});
  for_each_point(from.extent(), [&](const Index& i) { from[i] = 1000; });
  from[{1, 1, 1}] = 1;
  from[{0, 1, 1}] = 10, from[{2, 1, 1}] = 20;
  from[{1, 0, 1}] = 3, from[{1, 2, 1}] = 4;
  from[{1, 1, 0}] = 5, from[{1, 1, 2}] = 6;
  Field to({3, 3, 3});
  advance(from, to, {{1, 1, 1}, {1, 1, 1}}, {0.5, 0.25, 0.125});
  EXPECT_EQ((to[{1, 1, 1}]), 1 + 0.5 * (30 - 2) + 0.25 * (7 - 2) + 0.125 * (11 - 2));
  EXPECT_EQ((to[{0, 0, 0}]), 0) << "outside of the box";
}

/// Solves with zero boundaries on one rank, and returns the greatest error.
double error_of(const Grid& grid, const SineMode& mode, const Vector& weights, double time_step, std::uint64_t steps) {
  Field present(grid.points);
  Field next(grid.points);
  for_each_point(grid.points, [&](const Index& i) { present[i] = mode.initial(i); });
  for (std::uint64_t step = 0; step < steps; ++step) {
    advance(present, next, {{}, grid.points}, weights);
    std::swap(present, next);
  }
  const double decay = mode.decay(1, static_cast<double>(steps) * time_step);
  double greatest = 0;
  for_each_point(grid.points, [&](const Index& i) {
    greatest = std::max(greatest, std::abs(present[i] - decay * mode.initial(i)));
  });
  return greatest;
}

TEST(HeatScheme, TheErrorIsTheExpectedOneAndFallsWithTheSquareOfTheSpacing) {
  const Modes modes{1, 2, 1};
  double before = 0;
  for (const std::size_t intervals : {8U, 16U, 32U}) {
    const Grid grid{{intervals - 1, intervals - 1, intervals - 1}, Boundary::dirichlet};
    const SineMode mode(grid, modes);
    const double h = grid.spacing(0);
    const double time_step = 0.9 * greatest_stable_time_step(grid, 1);
    const Vector weights{time_step / (h * h), time_step / (h * h), time_step / (h * h)};
    const std::uint64_t steps = intervals * intervals / 8;  // the same time on every grid
    const double time = static_cast<double>(steps) * time_step;
    const double error = error_of(grid, mode, weights, time_step, steps);
    const double expected =
        mode.greatest_initial() * std::abs(mode.decay_of_scheme(weights, steps) - mode.decay(1, time));
    EXPECT_NEAR(error, expected, 1e-13);
    if (before > 0) {
      EXPECT_NEAR(before / error, 4, 0.6) << intervals << " intervals";
    }
    before = error;
  }
}

TEST(HeatScheme, DecaysAtTheLongestStableTimeStepAndGrowsBeyondIt) {
  const Grid grid{{5, 7, 9}, Boundary::dirichlet};
  const SineMode fastest(grid, {5, 7, 9});
  const auto growth = [&](double fraction) {
    Vector weights{};
    for (std::size_t d = 0; d < kDimensions; ++d) {
      weights[d] = fraction * greatest_stable_time_step(grid, 1) / (grid.spacing(d) * grid.spacing(d));
    }
    return std::abs(fastest.decay_of_scheme(weights, 1));
  };
  EXPECT_LE(growth(1), 1);
  EXPECT_GT(growth(1.1), 1);
}

TEST(HeatMode, RefusesWavesThatTheGridCannotShow) {
  EXPECT_NO_THROW(SineMode({{4, 4, 4}, Boundary::dirichlet}, {4, 4, 4}));
  EXPECT_THROW(SineMode({{4, 4, 4}, Boundary::dirichlet}, {1, 1, 5}), reprieve::ConfigError);
  EXPECT_NO_THROW(SineMode({{5, 5, 5}, Boundary::periodic}, {2, 2, 2}));
  EXPECT_THROW(SineMode({{4, 4, 4}, Boundary::periodic}, {2, 1, 1}), reprieve::ConfigError);
  EXPECT_THROW(SineMode({{1, 1, 1}, Boundary::periodic}, {1, 1, 1}), reprieve::ConfigError);
}

Options parse(std::vector<std::string> arguments) {
  std::vector<const char*> argv{"reprieve-heat"};
  for (const std::string& argument : arguments) {
    argv.push_back(argument.c_str());
  }
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

std::string heat_config_error_of(const std::vector<std::string>& arguments) {
  return reprieve::test::error_text<reprieve::ConfigError>([&] { static_cast<void>(parse(arguments)); });
}

TEST(HeatOptions, ThreeNumbersAreXYZ) {
  const Options options = parse({"--grid", "10,20,30", "--modes", "1,2,3", "--ranks", "4,0,1"});
  EXPECT_THAT(options.points, ElementsAre(30, 20, 10));
  EXPECT_THAT(options.modes, ElementsAre(3, 2, 1));
  EXPECT_THAT(options.ranks, ElementsAre(1, 0, 4));
}

TEST(HeatOptions, OfANumberTheLastOneCounts) { EXPECT_EQ(parse({"--steps", "5", "--steps", "6"}).steps, 6U); }

TEST(HeatOptions, FromAFile) {
  const reprieve::test::TemporaryDirectory directory;
  const auto file = directory / "heat.json";
  std::ofstream(file) << R"({"directory": "there", "heat": {"grid": [8, 9, 10], "boundary": "periodic",
    "time_step": 0.5, "progress": 7, "steps": 12}})";
  const Options options = parse({"--config", file.string(), "--steps", "13"});
  EXPECT_THAT(options.points, ElementsAre(10, 9, 8));
  EXPECT_EQ(options.boundary, Boundary::periodic);
  EXPECT_EQ(options.time_step_fraction, 0.5);
  EXPECT_EQ(options.progress_interval, std::chrono::seconds(7));
  EXPECT_EQ(options.steps, 13U) << "the command line goes first";
  EXPECT_EQ(options.settings.directory, "there");
}

TEST(HeatOptions, WrongOnesAreErrorsThatNameThem) {
  EXPECT_THAT(heat_config_error_of({"--grid", "10,20"}), HasSubstr("--grid"));
  EXPECT_THAT(heat_config_error_of({"--grid", "10,20,30,40"}), HasSubstr("--grid"));
  EXPECT_THAT(heat_config_error_of({"--grid", "10,20,0"}), HasSubstr("--grid"));
  EXPECT_THAT(heat_config_error_of({"--boundary", "open"}), HasSubstr("--boundary"));
  EXPECT_THAT(heat_config_error_of({"--time-step", "1.5"}), HasSubstr("--time-step"));
  EXPECT_THAT(heat_config_error_of({"--steps", "0"}), HasSubstr("--steps"));
  EXPECT_THAT(heat_config_error_of({"--no-such"}), HasSubstr("reprieve-heat --help"));
}

TEST(HeatOptions, HelpAndVersionAreAnswers) {
  EXPECT_THAT(parse({"--help"}).answer, HasSubstr("--grid"));
  EXPECT_THAT(parse({"--version"}).answer, HasSubstr("reprieve-heat"));
}

}  // namespace
}  // namespace heat
