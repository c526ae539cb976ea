// SPDX-License-Identifier: BSD-3-Clause
// Names of dimensions: which datasets stand for them, and who refers to them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/hdf5/dimension_scales.hpp"

namespace reprieve::storage {
namespace {

using state::Distribution;
using testing::ElementsAre;
using testing::IsEmpty;

class Scales : public testing::Test {
 protected:
  StoredVariable& add(std::string name, Extents shape, std::vector<std::string> dims = {},
                      Distribution distribution = Distribution::distributed) {
    StoredVariable& variable = index_.variables.emplace_back();
    variable.name = std::move(name);
    variable.distribution = distribution;
    variable.type = {ElementClass::floating, 8};
    variable.shape = std::move(shape);
    variable.annotation = Annotation{.dims = std::move(dims)};
    return variable;
  }

  /// "path[length]: variable.dimension ..."; a `*` for those that have coordinates. Variables are added in order.
  [[nodiscard]] std::vector<std::string> plan() const {
    std::vector<std::string> lines;
    for (const DimensionScale& scale : plan_scales(index_)) {
      std::string line = scale.path + (scale.is_variable ? "*" : "") + "[" + std::to_string(scale.length) + "]:";
      for (const auto& use : scale.uses) {
        line += " " + index_.variables[use.variable].name + "." + std::to_string(use.dimension);
      }
      lines.push_back(line);
    }
    return lines;
  }

  FileIndex index_;
};

TEST_F(Scales, AreThereOnlyWhereDimensionsHaveNames) {
  add("a", {3, 4});
  add("scalar", {});
  EXPECT_THAT(plan(), IsEmpty());
}

TEST_F(Scales, AreSharedByAllThatNameThem) {
  add("p", {3, 4}, {"y", "x"});
  add("t", {4, 3}, {"x", "y"});
  EXPECT_THAT(plan(), ElementsAre("x[4]: p.1 t.0", "y[3]: p.0 t.1"));
}

TEST_F(Scales, OfAVariableOfThatNameHasCoordinates) {
  add("fields/t", {3, 4}, {"y", "x"});
  add("x", {4}, {}, Distribution::replicated);
  add("y", {3}, {"y"});
  EXPECT_THAT(plan(), ElementsAre("x*[4]: fields/t.1", "y*[3]: fields/t.0"));
}

TEST_F(Scales, AreNotVariablesThatMeanSomethingElse) {
  add("n", {4}, {"i"});                             // on another dimension itself
  add("rank", {4}, {}, Distribution::per_rank);     // every rank's own
  add("t", {4, 4, 4, 5}, {"n", "rank", "w", "x"});  // `w` has two dimensions, `x` another length
  add("w", {4, 4});
  add("x", {6});
  EXPECT_THAT(plan(), ElementsAre("i[4]: n.0", "n_4[4]: t.0", "rank_4[4]: t.1", "w_4[4]: t.2", "x_5[5]: t.3"));
}

TEST_F(Scales, OfOneNameAndSeveralLengthsAreSeveral) {
  add("cells", {4}, {"x"});
  add("nodes", {5}, {"x"});
  add("x_5", {2});
  EXPECT_THAT(plan(), ElementsAre("x[4]: cells.0", "x_5_[5]: nodes.0"));
}

TEST_F(Scales, BelongToAComponent) {
  add("air/t", {4}, {"x"});
  add("air/x/velocity", {4}, {"x"});
  add("sea/t", {7}, {"x"});
  EXPECT_THAT(plan(), ElementsAre("air/x/x[4]: air/x/velocity.0", "air/x_4[4]: air/t.0", "sea/x[7]: sea/t.0"));
}

TEST_F(Scales, OfListsOfRanksAreOnlyThoseOfOneDimension) {
  add("flat", {12}, {"item", "xyz"}, Distribution::per_rank).piece_dimensions = 2;
  add("list", {12}, {"item"}, Distribution::per_rank).piece_dimensions = 1;
  add("text", {5}, {"letter"}, Distribution::replicated).type = {ElementClass::text, 1};
  EXPECT_THAT(plan(), ElementsAre("item[12]: list.0"));
}

}  // namespace
}  // namespace reprieve::storage
