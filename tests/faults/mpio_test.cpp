// SPDX-License-Identifier: BSD-3-Clause
// Every call to the file system fails once while MPI-IO writes. MPI-IO then may report it, hide it, or hang: the save
// succeeds or fails alike on all ranks, or the library ends the job and says where it hung. No checkpoint is corrupt.

#include <gtest/gtest.h>

#include <cerrno>
#include <iostream>
#include <sstream>

#include "storage/read/inspect_file.hpp"
#include "support/process.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

struct MpioFault {
  std::string call;
  std::string name;
  int error;
  int rank;
};

std::ostream& operator<<(std::ostream& stream, const MpioFault& fault) {
  return stream << fault.call << " " << fault.name << " on rank " << fault.rank;
}

class MpioEveryCall : public testing::TestWithParam<MpioFault> {
 protected:
  struct Life {
    std::uint64_t trials = 0;  ///< begun
    bool at_end = false;       ///< no such call any more
  };

  Life live(std::uint64_t first) {
    const MpioFault& fault = GetParam();
    Mpirun job({.ranks = 2,
                .arguments = {program("faults_mpio_saver"), run_, std::to_string(fault.rank), fault.call,
                              std::to_string(fault.error), std::to_string(first)}});
    EXPECT_TRUE(job.wait(120s).has_value()) << "hangs\n" << job.out() << job.err();
    Life life;
    std::istringstream lines(job.out());
    for (std::string line; std::getline(lines, line);) {
      life.trials += line.starts_with("trial ") ? 1U : 0U;
      life.at_end = life.at_end || line == "end";
      errors_ += line.starts_with("error ") ? 1 : 0;
      EXPECT_FALSE(line.starts_with("different")) << line;
    }
    if (!life.at_end) {
      ++hangs_;
      EXPECT_NE(job.err().find("no answer from '"), std::string::npos) << job.out() << job.err();
    }
    EXPECT_TRUE(job.wait_for_descendants(60s));
    return life;
  }

  void expect_sound_checkpoints() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(run_)) {
      if (entry.path().extension() == ".h5") {
        ++count;
        EXPECT_EQ(storage::verify_file(entry.path()).size(), 0U) << entry.path();
      }
      EXPECT_EQ(entry.path().string().find(".corrupt"), std::string::npos) << entry.path();
    }
    EXPECT_GT(count, 0);
  }

  TemporaryDirectory directory_;
  std::filesystem::path run_ = directory_ / "run";
  int errors_ = 0;
  int hangs_ = 0;
};

TEST_P(MpioEveryCall, FailsOnce) {
  std::uint64_t done = 0;
  for (Life life; !life.at_end;) {
    life = live(done + 1);
    ASSERT_GT(life.trials, 0U);
    done += life.trials;
    expect_sound_checkpoints();
    ASSERT_FALSE(HasFailure());
  }
  std::cout << "mpio, " << GetParam() << ": " << done - 1 << " faults, " << errors_ << " errors, " << hangs_
            << " ended by the library\n";
}

INSTANTIATE_TEST_SUITE_P(Faults, MpioEveryCall,
                         testing::Values(MpioFault{"open", "Eio", EIO, 0}, MpioFault{"open", "Eio", EIO, 1},
                                         MpioFault{"write", "Enospc", ENOSPC, 0},
                                         MpioFault{"write", "Enospc", ENOSPC, 1}, MpioFault{"write", "Short", -1, 0},
                                         MpioFault{"write", "Short", -1, 1}, MpioFault{"fsync", "Eio", EIO, 0},
                                         MpioFault{"fsync", "Eio", EIO, 1}, MpioFault{"read", "Eio", EIO, 1},
                                         MpioFault{"close", "Eio", EIO, 0}),
                         [](const auto& parameters) {
                           const MpioFault& fault = parameters.param;
                           return fault.call + fault.name + "OnRank" + std::to_string(fault.rank);
                         });

}  // namespace
}  // namespace reprieve::test
