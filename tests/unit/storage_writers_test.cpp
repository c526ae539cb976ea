// SPDX-License-Identifier: BSD-3-Clause
// The ways to write a file, as two tables have them.

#include <gtest/gtest.h>

#include "storage/write/writers.hpp"

namespace reprieve::storage {
namespace {

TEST(Writers, BothTablesSayTheSameOfThem) { EXPECT_TRUE(tables_of_writers_agree()); }

TEST(Writers, EachKindHasARow) {
  for (const WriterRow& row : kWriterRows) {
    EXPECT_EQ(row_of(row.kind).make, row.make);
  }
}

}  // namespace
}  // namespace reprieve::storage
