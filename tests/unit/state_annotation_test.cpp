// SPDX-License-Identifier: BSD-3-Clause
// What a registration says of a variable's meaning.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "reprieve/error.hpp"
#include "state/registry.hpp"

namespace reprieve {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class AnnotationTest : public testing::Test {
 protected:
  AnnotationTest() {
    checkpoint.add_replicated("time", time);
    checkpoint.add_distributed("field", field, {.global_shape = {2, 3}, .offset = {0, 0}, .extent = {2, 3}});
  }
  void expect_refused(const std::string& name, const Annotation& annotation, const std::string& problem) {
    EXPECT_THAT([&] { checkpoint.annotate(name, annotation); }, ThrowsMessage<UsageError>(HasSubstr(problem)));
  }
  [[nodiscard]] const Annotation& of(const std::string& name) const {
    return checkpoint.registry().variables.at(name).annotation;
  }

  double time = 0;
  std::array<double, 6> field{};
  Checkpoint checkpoint;
};

TEST_F(AnnotationTest, IsKeptAndReplaced) {
  checkpoint.annotate("field", {.units = "K", .description = "temperature", .dims = {"y", "x"}});
  EXPECT_EQ(of("field"), (Annotation{"K", "temperature", {"y", "x"}}));
  checkpoint.annotate("field", {.units = "degC"});
  EXPECT_EQ(of("field"), (Annotation{"degC", "", {}}));
}

TEST_F(AnnotationTest, GoesWithTheComponent) {
  checkpoint.annotate("time", {.units = "s"});
  Checkpoint whole;
  whole.add_component("part", std::move(checkpoint));
  EXPECT_EQ(whole.registry().variables.at("part/time").annotation->units, "s");
}

TEST_F(AnnotationTest, IsOfARegisteredVariable) { expect_refused("tme", {.units = "s"}, "'tme'"); }

TEST_F(AnnotationTest, NamesAllDimensionsOrNone) {
  expect_refused("field", {.dims = {"x"}}, "'field': 1 names of dimensions were given, but it has 2 dimensions");
}

TEST_F(AnnotationTest, NamesOfDimensionsAreNamesOfDatasets) {
  expect_refused("field", {.dims = {"y", ""}}, "must not be empty");
  expect_refused("field", {.dims = {"y", "grid/x"}}, "'grid/x' holds a '/'");
  expect_refused("field", {.dims = {"x", "x"}}, "two dimensions are called 'x'");
  expect_refused("field", {.dims = {"y", "x\n"}}, "control character");
}

TEST_F(AnnotationTest, TextsHaveALimit) {
  expect_refused("time", {.units = std::string(256, 'm')}, "at most 255");
  expect_refused("time", {.description = std::string(4097, 'm')}, "at most 4096");
  expect_refused("time", {.units = std::string("m\0s", 3)}, "null byte");
}

}  // namespace
}  // namespace reprieve
