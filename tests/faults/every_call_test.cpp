// SPDX-License-Identifier: BSD-3-Clause
// Every call to the file system fails once while MPI-IO writes. MPI-IO then may report it, hide it, or hang: the save
// succeeds or fails alike on all ranks, or the library ends the job and says where it hung. No checkpoint is corrupt.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>
#include <iostream>

#include "faults/field_test.hpp"
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
  /// A job in which one call after the other fails. True if there is no such call any more.
  bool live() {
    ByOrder job(run_, "mpio");
    EXPECT_EQ(job.opened(), "done");
    EXPECT_EQ(job("save " + std::to_string(++number_)), "done");
    EXPECT_EQ(job("hurry"), "done");
    const MpioFault& fault = GetParam();
    std::string outcome;
    for (bool lives = !HasFailure(); lives; ++calls_) {
      outcome = job(fmt::format("fail {} {} {} {} {}", ++number_, fault.rank, fault.call, fault.error, calls_ + 1));
      EXPECT_FALSE(outcome.starts_with("different")) << outcome;
      errors_ += outcome.starts_with("error ") ? 1 : 0;
      lives = outcome.starts_with("error ") || outcome == "done";
    }
    const bool at_end = outcome == "no such call";
    if (at_end) {
      EXPECT_EQ(job("quit"), "done");
    } else {
      ++hangs_;
      EXPECT_THAT(outcome, testing::HasSubstr("no answer from '"));
    }
    EXPECT_TRUE(job.has_left_nothing());
    return at_end;
  }

  TemporaryDirectory directory_;
  std::filesystem::path run_ = directory_ / "run";
  int number_ = 0;  ///< of the last checkpoint
  int calls_ = 0;   ///< that were to fail
  int errors_ = 0;
  int hangs_ = 0;
};

TEST_P(MpioEveryCall, FailsOnce) {
  for (bool at_end = false; !at_end;) {
    at_end = live();
    EXPECT_FALSE(expect_valid_checkpoints(run_).empty());
    ASSERT_FALSE(HasFailure());
  }
  std::cout << "mpio, " << GetParam() << ": " << calls_ - 1 << " faults, " << errors_ << " errors, " << hangs_
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

// `reprieve prune` while the calls that it makes to the file system fail, one after the other.

namespace fs = std::filesystem;
using ::testing::AnyOf;

class Prune : public FieldTest {
 protected:
  static constexpr int kNewest = 30;  ///< saved by finish()

  /// The same checkpoints again.
  void set_the_stage(const fs::path& original) const {
    fs::remove_all(checkpoints());
    fs::copy(original, checkpoints(), fs::copy_options::recursive);
  }

  [[nodiscard]] int prune(const Environment& environment, std::string& error) const {
    Process process({{program("reprieve"), "prune", checkpoints().string(), "--keep", "1"}, environment});
    const auto code = process.wait(kLimit);
    error = process.err();
    return code.value_or(-1);
  }
};

TEST_F(Prune, ACallThatFailsCostsNoCheckpointThatIsToStay) {
  const auto job = start(2, 30, 0, {"save_every=5", "keep=5"});
  ASSERT_EQ(job->wait(kLimit), 0) << job->err();
  const fs::path original = directory_ / "original";
  fs::rename(checkpoints(), original);
  int trials = 0;
  int told = 0;
  const fs::path mark = directory_ / "has_failed";
  for (const std::string call :
       {"open", "read", "write", "fsync", "rename", "mkdir", "unlink", "close", "stat", "list"}) {
    bool has_failed = true;  // else it makes no more calls of this kind
    for (int occurrence = 1; has_failed; ++occurrence) {
      const std::string fault = call + ":" + std::to_string(EIO) + ":" + std::to_string(occurrence) + ":1:";
      SCOPED_TRACE(fault);
      set_the_stage(original);
      std::string error;
      const int code = prune({{"LD_PRELOAD", REPRIEVE_LIB_DIR "/libfaults_injector.so"},
                              {"FAULTY_CALLS", fault + directory_.path().string()},
                              {"FAULTY_CALLS_MARK", mark.string()}},
                             error);
      has_failed = fs::remove(mark);
      EXPECT_THAT(code, AnyOf(0, 2, 3, 4, 5)) << error;  // whatever it takes the failure for
      EXPECT_TRUE(code == 0 || !error.empty()) << "an error without a word";
      EXPECT_TRUE(fs::exists(checkpoints() / ("ckpt-" + std::to_string(kNewest) + ".h5")));
      EXPECT_GE(expect_sound_checkpoints(), 1);
      trials += has_failed ? 1 : 0;
      told += code == 0 ? 0 : 1;

      EXPECT_EQ(prune({}, error), 0) << error;
      EXPECT_EQ(expect_sound_checkpoints(), 1);
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(trials, 40) << "it makes more calls than that";
  EXPECT_GT(told, 5) << "the faults did not reach the tool";
  std::cout << trials << " faults, " << told << " errors" << std::endl;
}

}  // namespace
}  // namespace reprieve::test
