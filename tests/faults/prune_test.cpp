// SPDX-License-Identifier: BSD-3-Clause
// `reprieve prune` while the calls that it makes to the file system fail, one after the other.

#include <filesystem>

#include "faults/field_test.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;

class Prune : public FieldTest {
 protected:
  static constexpr int kNewest = 25;

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
      EXPECT_THAT(code, AnyOf(0, 2)) << error;
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
