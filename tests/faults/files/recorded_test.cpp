// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints that other versions of HDF5 have written: the files in recorded/, with the values of the sample.

#include <gtest/gtest.h>

#include <cstdlib>

#include "faults/files/sample.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::test {
namespace {

class Recorded : public testing::TestWithParam<const char*> {};

TEST_P(Recorded, IsRestoredAndVerified) {
  const std::filesystem::path file = std::filesystem::path(REPRIEVE_RECORDED_DIR) / GetParam();
  const Tally tally = try_all(
      2, [] {},
      [&](std::size_t i) {
        if (i == 0) {
          return SampleReader().restore(file, GetParam());
        }
        return storage::verify_file(file).empty() ? Fate::unchanged : Fate::refused;
      });
  EXPECT_EQ(tally[Fate::unchanged], 2U) << testing::PrintToString(tally.bad);
}

INSTANTIATE_TEST_SUITE_P(By, Recorded, testing::Values("hdf5-1.10.h5", "hdf5-1.14.h5"),
                         [](const auto& file) { return file.index == 0 ? "Hdf5_1_10" : "Hdf5_1_14"; });

/// Makes such a file: REPRIEVE_RECORD=FILE file_tests --gtest_also_run_disabled_tests --gtest_filter='*Records*'
TEST(Recording, DISABLED_RecordsASample) {
  ASSERT_NE(std::getenv("REPRIEVE_RECORD"), nullptr);
  save_sample(std::getenv("REPRIEVE_RECORD"));
}

}  // namespace
}  // namespace reprieve::test
