// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "core/values.hpp"

namespace reprieve::core {
namespace {

TEST(Rare, TakesNothingForTheUsualValue) {
  const Rare<std::string> none;
  EXPECT_FALSE(none.is_set());
  EXPECT_EQ(*none, "");
  EXPECT_TRUE(none->empty());
  EXPECT_FALSE(Rare<std::string>(std::string()).is_set());
  EXPECT_EQ(none, Rare<std::string>(std::string()));
}

TEST(Rare, ACopyKeepsItsValueWhenTheOtherGetsAnotherOne) {
  Rare<std::string> value(std::string("units"));
  const Rare<std::string> copy = value;
  value = std::string("other");
  EXPECT_EQ(*copy, "units");
  EXPECT_EQ(value->size(), 5U);
  EXPECT_NE(value, copy);
  EXPECT_EQ(copy, Rare<std::string>(std::string("units")));
}

TEST(Rare, WhatWasMovedFromIsTheUsualValue) {
  Rare<std::string> value(std::string("units"));
  const Rare<std::string> taken = std::move(value);
  EXPECT_EQ(*taken, "units");
  EXPECT_EQ(*value, "");  // NOLINT(bugprone-use-after-move): that is what is asked
}

}  // namespace
}  // namespace reprieve::core
