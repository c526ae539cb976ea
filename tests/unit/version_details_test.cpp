// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/version_details.hpp"

#include <gmock/gmock.h>

#include <string>

#include "reprieve/version.hpp"

namespace {

TEST(VersionDetails, TellWhatIsRunning) {
  const reprieve::VersionDetails details = reprieve::version_details();
  EXPECT_EQ(details.version, REPRIEVE_VERSION);
  EXPECT_THAT(details.commit, ::testing::MatchesRegex("unknown|[0-9a-f]{12,40}(-dirty)?"));
  EXPECT_THAT(details.mpi, ::testing::HasSubstr("MPI"));
  EXPECT_EQ(details.mpi.find('\0'), std::string::npos);
  EXPECT_THAT(details.hdf5, ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+.*"));
  EXPECT_THAT(details.options, ::testing::ContainsRegex("Release|RelWithDebInfo|Debug"));
}

TEST(VersionDetails, AreFiveLines) {
  EXPECT_EQ(reprieve::to_text({"1.2.3", "abc", "Open MPI", "1.10.8", "Release, failpoints"}),
            "reprieve 1.2.3\ncommit   abc\nMPI      Open MPI\nHDF5     1.10.8\noptions  Release, failpoints\n");
}

}  // namespace
