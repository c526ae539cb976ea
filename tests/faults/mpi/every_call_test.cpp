// SPDX-License-Identifier: BSD-3-Clause
// Every call to the file system fails once: for each operation, on rank 0 and on another rank, for each kind of call
// the first such call fails, in each way in which it can, then the second, and so on until there is none left. However
// it fails: all ranks have the same outcome, no checkpoint is lost or corrupt, the next save works, and the next start
// leaves nothing behind.

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <sstream>
#include <system_error>

#include "core/log.hpp"
#include "faults/injector/faulty_calls.hpp"
#include "large_state.hpp"
#include "mpi/manager_fixture.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;

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

/// How an operation ended on this rank.
struct Ended {
  bool failed = false;
  std::string text;  ///< code, origin and message
};

Ended run(const std::function<void()>& operation) {
  try {
    operation();
    return {};
  } catch (const Error& error) {
    return {true, std::string(to_string(error.code())) + " of rank " + std::to_string(error.origin_rank()) + ": " +
                      error.what()};
  } catch (const std::exception& error) {
    return {true, std::string("no reprieve::Error: ") + error.what()};
  }
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

std::string broadcast(std::string text, int root) {
  int size = static_cast<int>(text.size());
  MPI_Bcast(&size, 1, MPI_INT, root, MPI_COMM_WORLD);
  text.resize(static_cast<std::size_t>(size));
  MPI_Bcast(text.data(), size, MPI_CHAR, root, MPI_COMM_WORLD);
  return text;
}

/// What is done while calls fail.
struct Operation {
  std::string name;
  ManagerOptions options;
  /// The state of the directory before it: so many checkpoints, with a manager open or, if the operation is the start,
  /// none.
  int checkpoints = 1;
  bool is_start = false;
  bool scattered = false;  ///< the ranks' parts of the large array lie in small pieces, which they exchange
  bool is_new = false;     ///< the directory is not there before it
  bool changes_nothing = false;
  std::map<Call, std::vector<int>> errors = kErrors;
  std::function<void(CheckpointManager&, std::uint64_t next)> run;
};

std::ostream& operator<<(std::ostream& stream, const Operation& operation) { return stream << operation.name; }

SaveFn file_writer() {
  return [](const SaveFnContext& context) {
    std::ofstream(context.write_directory / "notes.txt") << "of checkpoint " << context.number;
  };
}

CheckpointManager::SaveRequest request(std::uint64_t number) {
  CheckpointManager::SaveRequest wanted;
  wanted.number = number;
  return wanted;
}

std::vector<Operation> operations() {
  const auto save = [](CheckpointManager& manager, std::uint64_t next) { manager.save(next); };
  const ManagerOptions to_disk{.max_to_keep = 3, .io = FileIo::direct};
  ManagerOptions one = to_disk;
  one.max_to_keep = 1;
  ManagerOptions without_recycled = one;
  without_recycled.recycle = false;
  ManagerOptions cached = to_disk;
  cached.io = FileIo::page_cache;
  ManagerOptions reserving = one;
  reserving.reserve = true;
  std::vector<Operation> all{
      {.name = "Save", .options = to_disk, .run = save},
      {.name = "SaveInSmallPieces", .options = to_disk, .scattered = true, .run = save},
      {.name = "SaveThroughThePageCache", .options = cached, .run = save},
      {.name = "SaveIntoARecycledFile", .options = one, .checkpoints = 3, .run = save},
      {.name = "SaveThatPrunes", .options = without_recycled, .run = save},
      {.name = "SaveInTheBackground",
       .options = to_disk,
       .run =
           [](CheckpointManager& manager, std::uint64_t next) {
             manager.save_in_background(request(next));
             manager.finish_background_save();
           }},
      {.name = "SaveWithFiles",
       .options = without_recycled,
       .run =
           [](CheckpointManager& manager, std::uint64_t next) {
             auto wanted = request(next);
             wanted.save_fn = file_writer();
             manager.save(wanted);
           }},
      {.name = "Reserve",
       .options = reserving,
       .changes_nothing = true,
       .run = [](CheckpointManager& manager, auto) { manager.restore_or_initialize(); }},
      {.name = "Restore",
       .options = to_disk,
       .checkpoints = 2,
       .changes_nothing = true,
       .run = [](CheckpointManager& manager, auto) { manager.restore_or_initialize(); }},
      {.name = "List",
       .options = to_disk,
       .checkpoints = 2,
       .changes_nothing = true,
       .run = [](CheckpointManager& manager, auto) { static_cast<void>(manager.checkpoints()); }},
      {.name = "StartInANewDirectory",
       .options = to_disk,
       .checkpoints = 0,
       .is_start = true,
       .is_new = true,
       .changes_nothing = true,
       .run = {}},
      {.name = "Start", .options = to_disk, .is_start = true, .changes_nothing = true, .run = {}},
  };
  return all;
}

class EveryCall : public testing::TestWithParam<std::tuple<Operation, int>> {
 protected:
  void SetUp() override {
    REPRIEVE_NEEDS_RANKS(2);
    core::log::set_level("off");
  }

  static const Operation& operation() { return std::get<0>(GetParam()); }
  static int victim() { return std::get<1>(GetParam()); }

  [[nodiscard]] std::unique_ptr<CheckpointManager> open() {
    ManagerOptions options = operation().options;
    options.io_timeout = std::chrono::seconds(50);
    return std::make_unique<CheckpointManager>(MPI_COMM_WORLD, state_.checkpoint(), directory_, options);
  }

  void save(CheckpointManager& manager) {
    state_.set(next_);
    manager.save(next_);
    committed_ = next_++;
  }

  /// All that an earlier run can leave: a save cut short before its commit, another one after it, a checkpoint half
  /// retired, a directory of another rank, a recycled file.
  void leave_things_behind() {
    auto manager = open();
    state_.set(next_);
    auto wanted = request(next_);
    wanted.save_fn = file_writer();
    const auto report = manager->save(wanted);
    committed_ = next_++;
    const auto info = manager->latest();
    manager.reset();
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 0) {
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
    }
    MPI_Barrier(MPI_COMM_WORLD);
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
    const std::size_t descriptors = open_descriptors();
    std::unique_ptr<CheckpointManager> manager = set_the_stage();
    if (!operation().changes_nothing) {
      state_.set(next_);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == victim()) {
      arm(fault);
    }
    const Ended ended = run([&] {
      if (operation().is_start) {
        manager = open();
      } else {
        operation().run(*manager, next_);
      }
    });
    const Hits hits = world_rank() == victim() ? disarm() : Hits{};
    const bool hit = broadcast(hits.failed > 0 ? "hit" : "", victim()) == "hit";
    SCOPED_TRACE("at " + broadcast(hits.path, victim()) + (ended.failed ? ": " + ended.text : ": no error"));
    expect_same_everywhere(ended, hit);
    if (world_rank() == victim()) {
      expect_right_outcome(fault, hits, ended);
    }
    const std::uint64_t before = committed_;
    if (!operation().changes_nothing) {
      committed_ = ended.failed ? committed_ : next_;
      ++next_;
    }
    expect_sound_checkpoints(before);
    keep_running(std::move(manager));
    EXPECT_EQ(open_descriptors(), descriptors) << "descriptors are left open";
    failures_ += ended.failed ? 1 : 0;
    return hit;
  }

  void remove_directory() {
    if (world_rank() == 0) {
      fs::remove_all(directory_);
    }
    committed_ = 0;
    next_ = 1;
    MPI_Barrier(MPI_COMM_WORLD);
  }

  std::unique_ptr<CheckpointManager> set_the_stage() {
    if (operation().is_new) {
      remove_directory();
      return nullptr;
    }
    if (operation().is_start) {
      leave_things_behind();
      return nullptr;
    }
    auto manager = open();
    for (int i = 0; i < operation().checkpoints; ++i) {
      save(*manager);
    }
    return manager;
  }

  void expect_same_everywhere(const Ended& ended, bool hit) {
    EXPECT_EQ(ended.text, broadcast(ended.text, 0));
    EXPECT_TRUE(hit || !ended.failed);
    if (ended.failed) {
      EXPECT_NE(ended.text.find("of rank " + std::to_string(victim()) + ":"), std::string::npos);
      EXPECT_EQ(ended.text.find("no reprieve::Error"), std::string::npos);
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
        !operation().is_start && hits.path.find(".chieftemp/") != std::string::npos && hits.path.ends_with(".h5");
    // The file of a retired checkpoint has its space already.
    const bool has_space = operation().options.recycle && fault.call == Call::allocate && fault.error == ENOSPC;
    if (!passes && new_file && !has_space && fault.call != Call::close) {
      EXPECT_TRUE(ended.failed);
    }
  }

  /// Every committed file is valid, and the newest is the last one that was said to be committed, or the one after.
  void expect_sound_checkpoints(std::uint64_t before) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 0 && fs::exists(directory_)) {
      std::uint64_t newest = 0;
      for (const auto& entry : fs::directory_iterator(directory_)) {
        const std::string name = entry.path().filename().string();
        EXPECT_EQ(name.find(".corrupt"), std::string::npos) << name;
        if (name.starts_with("ckpt-") && name.ends_with(".h5")) {
          newest = std::max<std::uint64_t>(newest, std::stoull(name.substr(5)));
          for (const auto& corruption : storage::verify_file(entry.path())) {
            ADD_FAILURE() << name << ": " << corruption.variable << " " << corruption.region << " "
                          << corruption.problem;
          }
        }
      }
      EXPECT_GE(newest, before);
      EXPECT_TRUE(newest == committed_ || newest + 1 == next_) << newest << " is the newest";
      committed_ = newest;
    }
    MPI_Bcast(&committed_, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  }

  /// The fault is gone: the same run can save again, and the next one finds everything, and nothing else.
  void keep_running(std::unique_ptr<CheckpointManager> manager) {
    if (manager && !operation().changes_nothing) {
      save(*manager);
    }
    manager.reset();
    manager = open();
    expect_tidy();
    state_.set(next_ + 5);
    const auto info = manager->restore_or_initialize();
    EXPECT_EQ(info ? info->number : 0, committed_);
    state_.expect(info ? committed_ : next_ + 5);
    save(*manager);
    save(*manager);
    manager.reset();
    expect_tidy();
  }

  void expect_tidy() const {
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 0) {
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
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  static bool has_checkpoint(const fs::path& files) {
    return files.extension() == ".files" && fs::exists(fs::path(files).replace_extension(".h5"));
  }

  const SharedTemporaryDirectory temporary_;
  const fs::path directory_ = temporary_ / "run";
  /// 1 MiB, not a whole number of pages; two ranks have less than what lies in chunks.
  LargeState state_{243, 533, operation().scattered};
  std::uint64_t next_ = 1;
  std::uint64_t committed_ = 0;
  std::uint64_t files_of_ = 0;  ///< rank 0: the checkpoint whose files must be there
  int failures_ = 0;
};

TEST_P(EveryCall, FailsOnce) {
  int trials = 0;
  std::ostringstream figures;
  for (const auto& [call, errors] : operation().errors) {
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

INSTANTIATE_TEST_SUITE_P(Faults, EveryCall, testing::Combine(testing::ValuesIn(operations()), testing::Values(0, 1)),
                         [](const auto& parameters) {
                           return std::get<0>(parameters.param).name +
                                  (std::get<1>(parameters.param) == 0 ? "OnTheChief" : "OnAnotherRank");
                         });

}  // namespace
}  // namespace reprieve::test
