// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "core/run_record.hpp"
#include "reprieve/error.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::core {
namespace {

TEST(DrillOrders, ComeBackAsTheyWereWritten) {
  for (const bool leave : {false, true}) {
    const DrillOrders orders{".drill-7", leave};
    EXPECT_EQ(parse_drill_orders(to_text(orders)), orders);
  }
  const DrillOrders replay{.subdirectory = ".drill-7", .save_at = 0, .leave_at = 12};
  EXPECT_EQ(parse_drill_orders(to_text(replay)), replay);
}

TEST(DrillOrders, WithoutStepsAreAsOlderVersionsReadThem) {
  EXPECT_EQ(to_text({".drill-7", true}), R"({"leave_at_once":true,"subdirectory":".drill-7"})");
  EXPECT_THROW(parse_drill_orders(R"({"leave_at_once":true,"subdirectory":"d","leave_at":"soon"})"), ConfigError);
}

TEST(DrillOrders, NoneOutsideOfADrill) {
  ASSERT_EQ(::unsetenv(kRunDirectoryVariable), 0);
  EXPECT_EQ(read_drill_orders(), "");
  EXPECT_EQ(parse_drill_orders(""), std::nullopt);
  // A supervisor's run is none either.
  const test::TemporaryDirectory directory;
  ASSERT_EQ(::setenv(kRunDirectoryVariable, directory.path().c_str(), 1), 0);
  EXPECT_EQ(read_drill_orders(), "");
  std::ofstream(directory / kDrillOrdersName) << to_text({".drill-7", true});
  EXPECT_EQ(parse_drill_orders(read_drill_orders()), (DrillOrders{".drill-7", true}));
  ASSERT_EQ(::unsetenv(kRunDirectoryVariable), 0);
}

TEST(DrillOrders, NeverLeadOutOfTheCheckpointDirectory) {
  for (const char* name : {"", ".", "..", "../elsewhere", "/tmp", "a/b", "a/"}) {
    EXPECT_THROW(parse_drill_orders(to_text({name, false})), ConfigError) << name;
  }
  EXPECT_THROW(parse_drill_orders("{}"), ConfigError);
  EXPECT_THROW(parse_drill_orders("no JSON"), ConfigError);
}

}  // namespace
}  // namespace reprieve::core
