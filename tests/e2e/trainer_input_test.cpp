// SPDX-License-Identifier: BSD-3-Clause
// Directories, checkpoints and settings that are not as they should be: a clear message, a non-zero exit code of every
// rank, and nothing lost.

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>

#include "trainer_test.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

void write_text(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

class TrainerInput : public TrainerTest {
 protected:
  /// Every rank must end with this code, and the job with this on standard error.
  void expect_refusal(MpiCommand job, int code, const ::testing::Matcher<std::string>& message) const {
    const fs::path codes = directory_ / "codes";
    fs::remove(codes);
    // Each rank stays until all have noted their codes, or else mpirun would kill those that are later than the first.
    const Options note_code{"sh", "-c", R"("$@"; code=$?; echo $code >> "$CODES"
        while [ $(wc -l < "$CODES") -lt $OMPI_COMM_WORLD_SIZE ]; do sleep 0.05; done; exit $code)",
                            "sh"};
    job.rank_prefix.insert(job.rank_prefix.begin(), note_code.begin(), note_code.end());
    job.environment["CODES"] = codes.string();
    const Result result = finish(*start(job));
    EXPECT_EQ(result.code, code) << result.out;
    EXPECT_THAT(result.err, message);
    EXPECT_TRUE(result.summary.is_null());
    std::string expected;
    for (int rank = 0; rank < job.ranks; ++rank) {
      expected += std::to_string(code) + "\n";
    }
    EXPECT_EQ(read_text(codes), expected);
  }
  void expect_refusal(const Options& options, int code, const ::testing::Matcher<std::string>& message) const {
    expect_refusal(command(3, options), code, message);
  }

  /// Trains to the end, with checkpoints after 160, 180 and 200 steps.
  void make_checkpoints() const {
    ASSERT_EQ(run(3, {"--checkpoint-every", "20", "--max-to-keep", "3"}).code, 0);
    ASSERT_EQ(checkpoint_files().size(), 3U);
  }

  /// Resumes after the newest checkpoint was corrupt: the one before it must be taken.
  void expect_fallback() const {
    const Result result = run(3);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.summary["restored_from"], "ckpt-180.h5");
    EXPECT_EQ(result.summary["state_digest"], undisturbed_digest(3));
    EXPECT_THAT(result.err, AllOf(HasSubstr("ckpt-200.h5"), HasSubstr("corrupt")));
    EXPECT_TRUE(fs::exists(checkpoints_ / "ckpt-200.h5.corrupt"));
    expect_tidy_directory();
  }

  /// Every checkpoint with a hash of its content, to see that none is touched.
  [[nodiscard]] std::vector<std::string> contents() const {
    std::vector<std::string> all;
    for (const fs::path& file : checkpoint_files()) {
      all.push_back(file.filename().string() + " " + std::to_string(std::hash<std::string>{}(read_text(file))));
    }
    return all;
  }
};

// ---------------------------------------------------------------------------------------------------------------------
// Directories

TEST_F(TrainerInput, DirectoryThatCannotBeMade) {
  write_text(directory_ / "file", "");
  checkpoints_ = directory_ / "file" / "checkpoints";  // not even root can
  expect_refusal(Options{}, 1, AllOf(HasSubstr(checkpoints_), HasSubstr("Not a directory")));
}

/// Whether this user may mount in a namespace of its own; the options of unshare for it.
std::optional<Options> private_mounts() {
  for (const Options& options : {Options{"unshare", "-m", "--propagation", "private"}, Options{"unshare", "-Urm"}}) {
    Command attempt{options};
    attempt.arguments.insert(attempt.arguments.end(), {"mount", "-t", "tmpfs", "none", "/mnt"});
    if (Process(attempt).wait(kHang) == 0) {
      return options;
    }
  }
  return std::nullopt;
}

TEST_F(TrainerInput, DirectoryThatFillsUp) {
  const auto unshare = private_mounts();
  if (!unshare) {
    GTEST_SKIP() << "a small file system needs the right to mount one: run as root, or allow user namespaces";
  }
  fs::create_directories(checkpoints_);
  const fs::path survivors = directory_ / "survivors";
  MpiCommand job = command(3, {"--checkpoint-every", "10", "--max-to-keep", "0"});
  job.launch_prefix = *unshare;
  job.launch_prefix.insert(job.launch_prefix.end(), {"sh", "-c",
                                                     R"(mount -t tmpfs -o size=1m none "$DISK" || exit 99
                               "$@"; code=$?
                               cp -a "$DISK" "$SURVIVORS"; exit $code)",
                                                     "sh"});
  job.environment = {{"DISK", checkpoints_.string()}, {"SURVIVORS", survivors.string()}};
  expect_refusal(job, 1, AllOf(HasSubstr(checkpoints_), HasSubstr("No space left on device")));

  checkpoints_ = survivors;
  ASSERT_GE(checkpoint_files().size(), 2U);
  expect_sound_checkpoints();
  expect_same_end(3);
}

// ---------------------------------------------------------------------------------------------------------------------
// Checkpoints

TEST_F(TrainerInput, NewestCheckpointWithFlippedBits) {
  make_checkpoints();
  const fs::path newest = checkpoints_ / "ckpt-200.h5";
  std::string content = read_text(newest);
  for (std::size_t i = content.size() / 2; i < content.size(); i += 997) {
    content[i] = static_cast<char>(content[i] ^ 4);
  }
  write_text(newest, content);
  expect_fallback();
}

TEST_F(TrainerInput, NewestCheckpointCutShort) {
  make_checkpoints();
  const fs::path newest = checkpoints_ / "ckpt-200.h5";
  fs::resize_file(newest, fs::file_size(newest) / 2);
  expect_fallback();
}

TEST_F(TrainerInput, NewestCheckpointEmpty) {
  make_checkpoints();
  fs::resize_file(checkpoints_ / "ckpt-200.h5", 0);
  expect_fallback();
}

TEST_F(TrainerInput, NoValidCheckpointAtAll) {
  make_checkpoints();
  for (const fs::path& file : checkpoint_files()) {
    fs::resize_file(file, fs::file_size(file) / 2);
  }
  const auto before = contents();
  expect_refusal(Options{}, 1,
                 AllOf(HasSubstr("none of the checkpoints"), HasSubstr("ckpt-160.h5"), HasSubstr("ckpt-200.h5")));
  EXPECT_EQ(contents(), before);
}

TEST_F(TrainerInput, CheckpointOfAnotherProgram) {
  Mpirun writer({.ranks = 2, .arguments = {program("e2e_writer"), checkpoints_.string(), "plain", "7"}});
  ASSERT_EQ(writer.wait(kHang), 0) << writer.err();
  const auto before = contents();
  expect_refusal(Options{}, 1, AllOf(HasSubstr("ckpt-7.h5"), HasSubstr("field"), HasSubstr("progress/step")));
  EXPECT_EQ(contents(), before);
}

TEST_F(TrainerInput, Hdf5FileThatIsNoCheckpoint) {
  fs::create_directories(checkpoints_);
  Process writer({{program("e2e_plain_hdf5"), checkpoints_ / "ckpt-7.h5"}});
  ASSERT_EQ(writer.wait(kHang), 0) << writer.err();
  const auto before = contents();
  expect_refusal(Options{}, 1, AllOf(HasSubstr("ckpt-7.h5"), HasSubstr("checkpoint")));
  EXPECT_EQ(contents(), before);
}

TEST_F(TrainerInput, CheckpointOfAnotherNetwork) {
  make_checkpoints();
  const auto before = contents();
  expect_refusal({"--hidden", "32"}, 1,
                 AllOf(HasSubstr("ckpt-200.h5"), HasSubstr("model/layer1/weights"), HasSubstr("model/layer1/biases"),
                       HasSubstr("model/layer2/weights"), HasSubstr("optimizer/first_moment"),
                       HasSubstr("optimizer/second_moment")));
  EXPECT_EQ(contents(), before);
}

// ---------------------------------------------------------------------------------------------------------------------
// Settings

TEST_F(TrainerInput, ConfigWithAnUnknownKey) {
  const fs::path config = directory_ / "config.json";
  const auto expect_refusal_of = [&](const std::string& text, const std::string& key) {
    write_text(config, text);
    expect_refusal({"--config", config.string()}, 2, HasSubstr(key));
  };
  expect_refusal_of(R"({"termination": {"grace_perod_s": 3}})", "grace_perod_s");
  expect_refusal_of(R"({"trainer": {"epoch": 3}})", "epoch");
  expect_refusal_of(R"({"checkpoint": {"max_to_keep": 3}})", "checkpoint");
  expect_refusal_of(R"({"termination": {"grace_period_s": "3"}})", "grace_period_s");
  expect_refusal_of(R"({"termination": )", config);
  EXPECT_FALSE(fs::exists(checkpoints_));
}

// Only one rank meets the wrong setting; all must leave with its message.
TEST_F(TrainerInput, EnvironmentWrongOnOneRank) {
  MpiCommand job = command(3);
  job.rank_prefix = {"sh", "-c", R"([ "$OMPI_COMM_WORLD_RANK" = 1 ] && export REPRIEVE_LOG_LEVEL=loud; exec "$@")",
                     "sh"};
  expect_refusal(job, 2, HasSubstr("REPRIEVE_LOG_LEVEL"));
}

TEST_F(TrainerInput, UnknownOption) { expect_refusal({"--epoch", "3"}, 2, HasSubstr("--epoch")); }

}  // namespace
}  // namespace reprieve::test
