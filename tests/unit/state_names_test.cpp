// SPDX-License-Identifier: BSD-3-Clause
// Names of variables, and the tree that they form.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reprieve/checkpoint.hpp"
#include "reprieve/error.hpp"
#include "state/registry.hpp"

namespace reprieve {
namespace {

class GoodName : public testing::TestWithParam<std::string> {};

TEST_P(GoodName, IsAccepted) { EXPECT_NO_THROW(state::check_name(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Names, GoodName,
                         testing::Values("a", "step", "optimizer/momentum", "a/b/c/d", "...", "..a", "a..", "a b",
                                         "T\xc3\xa4glich", "x[3]", std::string(255, 'n')));

class BadName : public testing::TestWithParam<std::string> {};

TEST_P(BadName, IsAUsageError) { EXPECT_THROW(state::check_name(GetParam()), UsageError); }

INSTANTIATE_TEST_SUITE_P(Names, BadName,
                         testing::Values("", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "./a", "../a",
                                         "tab\there", "line\n", std::string("nul\0here", 8), "del\x7f",
                                         std::string(256, 'n')));

TEST(VariableNames, MessageOfALongNameStaysShort) {
  try {
    state::check_name(std::string(100'000, 'n'));
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_LT(std::string(error.what()).size(), 1000U);
  }
}

class Registration : public testing::Test {
 protected:
  std::string message_of_adding(const std::string& name) {
    try {
      checkpoint.add_replicated(name, value);
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  }

  double value = 0;
  Checkpoint checkpoint;
};

TEST_F(Registration, CountsAndFindsVariables) {
  EXPECT_EQ(checkpoint.size(), 0U);
  checkpoint.add_replicated("optimizer/momentum", value);
  checkpoint.add_per_rank("engine", value);
  EXPECT_EQ(checkpoint.size(), 2U);
  EXPECT_TRUE(checkpoint.contains("engine"));
  EXPECT_FALSE(checkpoint.contains("optimizer"));
}

TEST_F(Registration, RefusesASecondVariableOfTheSameName) {
  checkpoint.add_per_rank("x", value);
  EXPECT_NE(message_of_adding("x").find("registered already"), std::string::npos);
  EXPECT_EQ(checkpoint.size(), 1U);
}

TEST_F(Registration, RefusesAVariableBelowAVariable) {
  checkpoint.add_replicated("a/b", value);
  EXPECT_NE(message_of_adding("a/b/c/d").find("'a/b'"), std::string::npos);
}

TEST_F(Registration, RefusesAVariableAboveAVariable) {
  checkpoint.add_replicated("a/b/c", value);
  EXPECT_NE(message_of_adding("a").find("'a/b/c'"), std::string::npos);
  EXPECT_NE(message_of_adding("a/b").find("'a/b/c'"), std::string::npos);
}

TEST_F(Registration, AcceptsNamesThatShareABeginning) {
  checkpoint.add_replicated("a/b", value);
  EXPECT_EQ(message_of_adding("a-b"), "");  // sorts before "a/b"
  EXPECT_EQ(message_of_adding("a/bc"), "");
  EXPECT_EQ(message_of_adding("ab"), "");
  EXPECT_EQ(message_of_adding("a/c"), "");
}

TEST_F(Registration, ARefusedNameRegistersNothing) {
  EXPECT_NE(message_of_adding("a/../b"), "");
  EXPECT_EQ(checkpoint.size(), 0U);
}

TEST_F(Registration, RefusesMissingParts) {
  EXPECT_THROW(checkpoint.add_replicated_value("x", nullptr), UsageError);
  EXPECT_THROW(checkpoint.add_per_rank_value("x", nullptr, {}), UsageError);
  EXPECT_THROW(checkpoint.add_distributed("x", std::function<DistributedArray()>{}), UsageError);
}

TEST_F(Registration, VariablesAreSortedByName) {
  for (const char* name : {"c", "a/z", "b", "a/a"}) {
    checkpoint.add_replicated(name, value);
  }
  std::vector<std::string> names;
  for (const auto& [name, variable] : checkpoint.registry().variables) {
    names.push_back(name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a/a", "a/z", "b", "c"}));
}

TEST_F(Registration, AMovedCheckpointKeepsItsVariables) {
  checkpoint.add_replicated("x", value);
  const Checkpoint moved = std::move(checkpoint);
  EXPECT_TRUE(moved.contains("x"));
}

}  // namespace
}  // namespace reprieve
