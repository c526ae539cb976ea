// SPDX-License-Identifier: BSD-3-Clause
// Names of checkpoint files.

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "manager/checkpoint_list.hpp"

namespace reprieve::manager {
namespace {

TEST(FileNames, FormatAndParseAreInverse) {
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{100}, std::numeric_limits<std::uint64_t>::max()}) {
    for (const std::string prefix : {"ckpt", "a-1", "run.2", "x y"}) {
      EXPECT_EQ(parse_name(prefix, format_name(prefix, number, ".h5"), ".h5"), number);
    }
  }
  EXPECT_EQ(format_name("ckpt", 12, ".h5"), "ckpt-12.h5");
}

class OtherName : public testing::TestWithParam<std::string> {};

TEST_P(OtherName, IsNotACheckpoint) { EXPECT_EQ(parse_name("ckpt", GetParam(), ".h5"), std::nullopt); }

INSTANTIATE_TEST_SUITE_P(FileNames, OtherName,
                         testing::Values("", "ckpt", "ckpt-", "ckpt-.h5", "-12.h5", "ckpt12.h5", "ckpt-12", "ckpt-12.h",
                                         "ckpt-12.h5.corrupt", "ckpt-12.h5~", ".ckpt-12.h5", "xckpt-12.h5",
                                         "ckpt-a-12.h5", "ckpt-+12.h5", "ckpt--12.h5", "ckpt-012.h5", "ckpt-00.h5",
                                         "ckpt-1x.h5", "ckpt- 1.h5", "ckpt-12.34.h5", "ckpt-18446744073709551616.h5",
                                         "ckpt-99999999999999999999999.h5"));

TEST(FileNames, StagedNamesCarryNumberAndTime) {
  const StagedName staged{12, 1'700'000'000'000'000};
  EXPECT_EQ(format_staged_name("ckpt", staged, ".files"), "ckpt-12.1700000000000000.files");
  EXPECT_EQ(parse_staged_name("ckpt", "ckpt-12.1700000000000000.files", ".files"), staged);
}

TEST(FileNames, OtherNamesAreNotStaged) {
  for (const char* name : {"ckpt-12.files", "ckpt-12..files", "ckpt-.5.files", "ckpt-12.x.files", "ckpt-12.-5.files",
                           "ckpt-12.5.6.files", "ckpt-12.5.h5", "files", ""}) {
    EXPECT_EQ(parse_staged_name("ckpt", name, ".files"), std::nullopt) << name;
  }
}

TEST(FileNames, KnowsWhatAnotherPrefixHasStaged) {
  for (const char* name : {"other-1.5.h5", "other-1.5.files", "ckpt-2-1.5.h5", "ckp-1.5.h5"}) {
    EXPECT_TRUE(is_staged_under_another_prefix("ckpt", name)) << name;
  }
  for (const char* name : {"ckpt-1.5.h5", "ckpt-1.5.files", "left behind", "other-1.h5", "other-1.5.txt", "-", ""}) {
    EXPECT_FALSE(is_staged_under_another_prefix("ckpt", name)) << name;
  }
}

TEST(FileNames, AStagedNameIsNotThatOfACommittedCheckpoint) {
  EXPECT_EQ(parse_name("ckpt", format_staged_name("ckpt", {12, 5}, ".h5"), ".h5"), std::nullopt);
}

TEST(FileNames, KnowsWhatWasQuarantined) {
  const auto name = parse_quarantined_name("my-run-12.h5.corrupt.3");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "my-run");
  EXPECT_EQ(name->number, 12U);
  EXPECT_EQ(name->suffix, ".corrupt.3");
  EXPECT_EQ(name->file, "my-run-12.h5.corrupt.3");
  EXPECT_EQ(parse_quarantined_name("ckpt-1.h5.corrupt").value().suffix, ".corrupt");
  for (const char* other : {"ckpt-1.h5", "ckpt-1.files.corrupt", "ckpt-x.h5.corrupt", "ckpt-1.h5.corrupt.", "corrupt",
                            "ckpt-1.h5.corrupt.2.txt", "ckpt-01.h5.corrupt", ".corrupt", ""}) {
    EXPECT_FALSE(parse_quarantined_name(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace reprieve::manager
