// SPDX-License-Identifier: BSD-3-Clause
// Every call to the file system fails once: for each operation, on rank 0 and on another rank, for each kind of call
// the first such call fails, in each way in which it can, then the second, and so on until there is none left. However
// it fails: all ranks have the same outcome, no checkpoint is lost or corrupt, the next save works, and the next start
// leaves nothing behind.

#include <cerrno>
#include <cstdlib>
#include <map>
#include <sstream>
#include <system_error>

#include "faults/injector/faulty_calls.hpp"
#include "operations.hpp"

namespace reprieve::test {
namespace {

/// How each kind of call can fail.
const std::map<Call, std::vector<int>> kErrors{
    {Call::open, {EIO, ENOSPC, EDQUOT, EROFS, EACCES, EMFILE, EINTR}},
    {Call::read, {EIO, EINTR, kShort}},
    {Call::write, {EIO, ENOSPC, EDQUOT, EROFS, EINTR, kShort}},
    {Call::fsync, {EIO, ENOSPC, EDQUOT, EINTR}},
    {Call::rename, {EIO, ENOSPC, EDQUOT, EROFS, EACCES}},
    {Call::mkdir, {EIO, ENOSPC, EDQUOT, EROFS, EACCES}},
    {Call::unlink, {EIO, EROFS, EACCES}},
    {Call::truncate, {EIO, ENOSPC, EINTR}},
    {Call::allocate, {EIO, ENOSPC, EDQUOT, EINTR, EOPNOTSUPP}},
    {Call::close, {EIO, ENOSPC, EDQUOT, EINTR}},
    {Call::stat, {EIO, EACCES}},
    {Call::list, {EIO, EACCES}},
    {Call::thread, {EAGAIN}},
};
/// No operation makes as many calls of a kind.
constexpr std::uint64_t kMostOccurrences = 2000;

std::string text_of(const Fault& fault) {
  const std::string error = fault.error == kShort ? "a short transfer" : std::generic_category().message(fault.error);
  return std::string(to_string(fault.call)) + " " + std::to_string(fault.occurrence) + ": " + error;
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

class EveryCall : public OperationTest {
 protected:
  /// All that an earlier run can leave: a save cut short before its commit, another one after it, a checkpoint half
  /// retired, a directory of another rank, a recycled file.
  void leave_things_behind() {
    open();
    state_.set(next_);
    CheckpointManager::SaveRequest wanted;
    wanted.number = next_;
    wanted.save_fn = file_writer();
    manager_->save(wanted);
    committed_ = next_++;
    const auto info = manager_->latest();
    manager_.reset();
    on_rank_0([&] {
      const auto us = std::chrono::duration_cast<std::chrono::microseconds>(info->time.time_since_epoch()).count();
      const std::string name = "ckpt-" + std::to_string(committed_);
      const fs::path staging = directory_ / ".chieftemp";
      fs::create_directory(staging);
      fs::rename(directory_ / (name + ".files"), staging / (name + "." + std::to_string(us) + ".files"));
      std::ofstream(staging / "ckpt-999.1.h5") << "half written";
      fs::create_directory(directory_ / "ckpt-998.files");
      std::ofstream(directory_ / "ckpt-998.files/notes.txt") << "of nothing";
      fs::create_directories(temporary_ / "workertemp_1/run");
      std::ofstream(temporary_ / "workertemp_1/run/scratch") << "x";
      std::ofstream(directory_ / ".reprieve.recycled") << "not even a checkpoint";
      files_of_ = committed_;
    });
  }

  /// The first call of a kind fails in every way that it can, those after it in one way each, by turns, unless
  /// REPRIEVE_EVERY_WAY is set.
  static std::vector<int> ways(const std::vector<int>& errors, std::uint64_t occurrence) {
    if (occurrence == 1 || std::getenv("REPRIEVE_EVERY_WAY") != nullptr) {
      return errors;
    }
    return {errors[occurrence % errors.size()]};
  }

  /// One operation with one fault. False if there is no such call any more.
  bool fails(const Fault& fault) {
    SCOPED_TRACE("on rank " + std::to_string(victim()) + ", " + text_of(fault));
    set_the_stage();
    prepare();
    if (world_rank() == victim()) {
      arm(fault);
    }
    const Ended ended = ended_by(perform());
    const Hits hits = world_rank() == victim() ? disarm() : Hits{};
    const bool hit = broadcast(hits.failed > 0 ? "hit" : "", victim()) == "hit";
    SCOPED_TRACE("at " + broadcast(hits.path, victim()) + (ended.failed ? ": " + ended.text : ": no error"));
    expect_same_everywhere(ended, hit);
    if (world_rank() == victim()) {
      expect_right_outcome(fault, hits, ended);
    }
    expect_sound_checkpoints(ended);
    keep_running();
    return hit;
  }

  /// With the manager of the trial before, which has saved.
  void set_the_stage() {
    if (operation().is_start()) {
      if (!operation().is_new) {
        leave_things_behind();
      }
    } else if (!manager_) {
      open();
      save_some();
    }
  }
  void save_some() {
    for (int i = 0; i < operation().checkpoints; ++i) {
      save();
    }
  }

  static void expect_same_everywhere(const Ended& ended, bool hit) {
    const std::string all = std::string(to_string(ended.code)) + std::to_string(ended.origin_rank) + ended.text;
    EXPECT_EQ(all, broadcast(all, 0));
    EXPECT_TRUE(hit || !ended.failed);
    if (ended.failed) {
      EXPECT_EQ(ended.origin_rank, victim());
      EXPECT_NE(ended.code, ErrorCode::internal);
      EXPECT_EQ(ended.text.find("internal"), std::string::npos);
    }
  }

  /// A signal is no error; whatever happens to the new file is one.
  static void expect_right_outcome(const Fault& fault, const Hits& hits, const Ended& ended) {
    const bool passes = fault.error == kShort || fault.error == EINTR || fault.error == EOPNOTSUPP ||
                        fault.call == Call::thread;  // work is done by fewer threads, or by none
    const bool by_the_standard_library = fault.call == Call::open || fault.call == Call::stat;
    if (passes && !by_the_standard_library) {
      EXPECT_FALSE(ended.failed);
    }
    // What a start finds in the staging directory is a left-over: it stays for the next start if it cannot be removed.
    const bool new_file =
        !operation().is_start() && hits.path.find(".chieftemp/") != std::string::npos && hits.path.ends_with(".h5");
    // The file of a retired checkpoint has its space already.
    const bool has_space = operation().options.recycle && fault.call == Call::allocate && fault.error == ENOSPC;
    if (!passes && new_file && !has_space && fault.call != Call::close) {
      EXPECT_TRUE(ended.failed);
    }
  }

  /// The fault is gone: the same run can save again, and the next one finds everything, and nothing else.
  void keep_running() {
    if (manager_ && operation().saves) {
      save();
    }
    manager_.reset();
    const std::size_t descriptors = open_descriptors();
    EXPECT_LE(descriptors, descriptors_) << "descriptors are left open";
    descriptors_ = descriptors;
    open();
    expect_tidy();
    expect_restored();
    save_some();
    if (operation().is_start() || operation().options.reserve) {  // the first restore makes a reserve
      manager_.reset();
    }
    expect_tidy();
  }

  void expect_tidy() const {
    on_rank_0([this] {
      EXPECT_FALSE(fs::exists(temporary_ / "workertemp_1"));
      for (const auto& entry : fs::directory_iterator(directory_)) {
        const std::string name = entry.path().filename().string();
        const bool is_checkpoint = name.starts_with("ckpt-") && name.ends_with(".h5");
        EXPECT_TRUE(is_checkpoint || name == ".reprieve.lock" || name.starts_with(".reprieve.directory") ||
                    name == ".reprieve.workers" || name == "events.jsonl" || name == ".reprieve.recycled" ||
                    has_checkpoint(entry.path()))
            << name << " is left behind";
      }
      const fs::path notes = directory_ / ("ckpt-" + std::to_string(files_of_) + ".files/notes.txt");
      EXPECT_TRUE(files_of_ == 0 || !fs::exists(directory_ / ("ckpt-" + std::to_string(files_of_) + ".h5")) ||
                  fs::exists(notes))
          << notes << " is lost";
    });
  }

  static bool has_checkpoint(const fs::path& files) {
    return files.extension() == ".files" && fs::exists(fs::path(files).replace_extension(".h5"));
  }

  std::uint64_t files_of_ = 0;          ///< rank 0: the checkpoint whose files must be there
  std::size_t descriptors_ = SIZE_MAX;  ///< open after the trial before, between two managers
};

TEST_P(EveryCall, FailsOnce) {
  ASSERT_FALSE(fails({.occurrence = kAlways}));
  int trials = 0;
  std::ostringstream figures;
  for (const auto& [call, errors] : kErrors) {
    if (operation().looks_as_save && (call == Call::stat || call == Call::list)) {
      continue;
    }
    Fault fault{.call = call, .error = 0, .path = temporary_.path().string()};
    for (bool is_there = true; is_there && fault.occurrence < kMostOccurrences; ++fault.occurrence) {
      for (const int error : ways(errors, fault.occurrence)) {
        fault.error = error;
        is_there = fails(fault);
        trials += is_there ? 1 : 0;
        ASSERT_FALSE(has_failed_anywhere());
      }
    }
    figures << ' ' << to_string(call) << ' ' << fault.occurrence - 2;
  }
  if (world_rank() == 0) {
    std::cout << operation().name << " on rank " << victim() << ": " << trials << " faults, " << failures_
              << " errors; calls:" << figures.str() << std::endl;
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryCall, all_operations, name_of_operation);

}  // namespace
}  // namespace reprieve::test
