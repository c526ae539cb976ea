// SPDX-License-Identifier: BSD-3-Clause
// Memory runs out once, at every place in turn: for each operation, on rank 0 and on another rank, the first
// allocation fails, then the second, and so on. Wherever it is: all ranks have the same outcome, no rank is left alone
// in a collective call, no checkpoint is lost or corrupt, and the next operation works.
//
// Of the thousands of places only some are tried, evenly spread; REPRIEVE_EVERY_ALLOCATION=1 tries all.

#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <tuple>

#include "core/log.hpp"
#include "faults/injector/faulty_memory.hpp"
#include "large_state.hpp"
#include "mpi/handler_fixture.hpp"
#include "mpi/manager_fixture.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;

/// Of the places of one operation on one rank.
constexpr std::uint64_t kMostPlaces = 40;
/// In every second round so many allocations fail in a row: there is no memory to tell of it either.
constexpr std::uint64_t kRow = 12;

struct MemoryCase {
  std::string name;
  ManagerOptions options;
  enum class What { save, background, with_files, restore, list, start, start_in_new } what = What::save;
  bool scattered = false;  ///< the ranks' parts of the large array lie in small pieces, which they exchange

  [[nodiscard]] bool is_start() const { return what == What::start || what == What::start_in_new; }
  [[nodiscard]] bool saves() const {
    return what == What::save || what == What::background || what == What::with_files;
  }
};

std::ostream& operator<<(std::ostream& stream, const MemoryCase& one) { return stream << one.name; }

std::vector<MemoryCase> memory_cases() {
  using What = MemoryCase::What;
  ManagerOptions direct{.max_to_keep = 3, .io = FileIo::direct};
  direct.io_timeout = std::chrono::seconds(50);
  ManagerOptions recycling = direct;
  recycling.max_to_keep = 1;
  ManagerOptions cached = direct;
  cached.io = FileIo::page_cache;
  return {{.name = "Save", .options = direct},
          {.name = "SaveInSmallPieces", .options = cached, .scattered = true},
          {.name = "SaveIntoARecycledFile", .options = recycling},
          {.name = "SaveInTheBackground", .options = direct, .what = What::background},
          {.name = "SaveWithFiles", .options = cached, .what = What::with_files},
          {.name = "Restore", .options = cached, .what = What::restore},
          {.name = "List", .options = cached, .what = What::list},
          {.name = "Start", .options = cached, .what = What::start},
          {.name = "StartInANewDirectory", .options = cached, .what = What::start_in_new}};
}

/// How an operation ended on this rank.
struct MemoryEnd {
  bool failed = false;
  ErrorCode code = ErrorCode::internal;
  int origin_rank = -1;
  std::string text;
};

MemoryEnd end_of(const std::exception_ptr& error) {
  if (!error) {
    return {};
  }
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return {true, known.code(), known.origin_rank(), known.what()};
  } catch (const std::exception& other) {
    return {true, ErrorCode::internal, -1, std::string("no reprieve::Error: ") + other.what()};
  }
}

class EveryAllocation : public testing::TestWithParam<std::tuple<MemoryCase, int>> {
 protected:
  void SetUp() override {
    REPRIEVE_NEEDS_RANKS(2);
    core::log::set_level("off");
    if (now().what != MemoryCase::What::start_in_new) {
      open();
      save();
      save();
    }
    if (now().is_start()) {
      manager_.reset();
    }
  }

  static const MemoryCase& now() { return std::get<0>(GetParam()); }
  static int victim() { return std::get<1>(GetParam()); }

  void open() { manager_.emplace(MPI_COMM_WORLD, state_.checkpoint(), directory_, now().options); }

  void save() {
    state_.set(next_ % 1000);
    manager_->save(next_);
    committed_ = next_++;
  }

  /// The operation, with one fault on the victim. What it needs is made before: that is not the library's memory.
  MemoryEnd run(const MemoryFault& fault, MemoryHits& hits) {
    using What = MemoryCase::What;
    if (now().what == What::start_in_new) {
      remove_directory();
    }
    CheckpointManager::SaveRequest request;
    request.number = next_;
    if (now().what == What::with_files) {
      request.save_fn = [](const SaveFnContext& context) {
        std::ofstream(context.write_directory / "notes.txt") << context.number;
      };
    }
    ManagerOptions options = now().options;
    fs::path directory = directory_;
    state_.set((now().saves() ? next_ : next_ + 7) % 1000);
    std::exception_ptr error;
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == victim()) {
      arm_memory(fault);
    }
    try {
      switch (now().what) {
        case What::save:
        case What::with_files:
          manager_->save(request);
          break;
        case What::background:
          manager_->save_in_background(request);
          manager_->finish_background_save();
          break;
        case What::restore:
          manager_->restore_or_initialize();
          break;
        case What::list:
          static_cast<void>(manager_->checkpoints());
          break;
        case What::start:
        case What::start_in_new:
          manager_.emplace(MPI_COMM_WORLD, state_.checkpoint(), std::move(directory), std::move(options));
          break;
      }
    } catch (...) {
      error = std::current_exception();
    }
    hits = disarm_memory();
    std::array<std::uint64_t, 2> victims{hits.seen, hits.failed};
    MPI_Bcast(victims.data(), 2, MPI_UINT64_T, victim(), MPI_COMM_WORLD);
    hits = {victims[0], victims[1]};
    return end_of(error);
  }

  void remove_directory() {
    manager_.reset();
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 0) {
      fs::remove_all(directory_);
    }
    committed_ = 0;
  }

  /// @param with_text  there was memory for it everywhere
  void expect_same_everywhere(const MemoryEnd& ended, bool hit, bool with_text) {
    std::array<int, 4> chiefs{ended.failed ? 1 : 0, static_cast<int>(ended.code), ended.origin_rank,
                              static_cast<int>(ended.text.size())};
    MPI_Bcast(chiefs.data(), 4, MPI_INT, 0, MPI_COMM_WORLD);
    std::string text = ended.text;
    text.resize(static_cast<std::size_t>(chiefs[3]));
    MPI_Bcast(text.data(), chiefs[3], MPI_CHAR, 0, MPI_COMM_WORLD);
    EXPECT_EQ(ended.failed ? 1 : 0, chiefs[0]);
    EXPECT_EQ(static_cast<int>(ended.code), chiefs[1]) << ended.text << "\nchief: " << text;
    EXPECT_TRUE(hit || !ended.failed) << ended.text;
    if (ended.failed && ended.code == ErrorCode::no_memory) {
      EXPECT_EQ(ended.origin_rank, victim()) << ended.text;
    }
    if (ended.failed && with_text) {
      EXPECT_EQ(ended.text, text);
    }
    // The program's own function may say it in its own way.
    const bool is_own = ended.text.starts_with("the save function failed: ");
    if (ended.failed && with_text && !is_own) {
      EXPECT_EQ(ended.code, ErrorCode::no_memory) << ended.text;
      EXPECT_NE(ended.text.find("ran out of memory"), std::string::npos) << ended.text;
    }
  }

  /// The newest committed file is valid, and is the last one that was said to be committed, or the one after.
  void expect_sound_checkpoints() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 0 && fs::exists(directory_)) {
      std::uint64_t newest = 0;
      for (const auto& entry : fs::directory_iterator(directory_)) {
        const std::string name = entry.path().filename().string();
        EXPECT_EQ(name.find(".corrupt"), std::string::npos) << name;
        if (name.starts_with("ckpt-") && name.ends_with(".h5")) {
          newest = std::max<std::uint64_t>(newest, std::stoull(name.substr(5)));
        }
      }
      EXPECT_TRUE(newest == committed_ || newest + 1 == next_) << newest << " is the newest, not " << committed_;
      if (newest > 0) {
        EXPECT_TRUE(storage::verify_file(directory_ / ("ckpt-" + std::to_string(newest) + ".h5")).empty());
      }
      committed_ = newest;
    }
    MPI_Bcast(&committed_, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  }

  /// There is memory again.
  void keep_running() {
    if (now().is_start()) {
      manager_.reset();
      open();
      const auto info = manager_->restore_or_initialize();
      EXPECT_EQ(info ? info->number : 0, committed_);
      manager_.reset();
      return;
    }
    if (now().saves()) {
      save();
    }
    state_.set((next_ + 5) % 1000);
    const auto info = manager_->restore_or_initialize();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->number, committed_);
    state_.expect(committed_ % 1000);
  }

  /// One round; returns how many allocations there were.
  std::uint64_t round(const MemoryFault& fault) {
    SCOPED_TRACE("on rank " + std::to_string(victim()) + ", allocation " + std::to_string(fault.occurrence) + " and " +
                 std::to_string(fault.count - 1) + " more");
    MemoryHits hits;
    const MemoryEnd ended = run(fault, hits);
    SCOPED_TRACE(ended.failed ? ended.text : "no error");
    expect_same_everywhere(ended, hits.failed > 0, fault.count == 1);
    if (now().saves()) {
      committed_ = ended.failed ? committed_ : next_;
      ++next_;
    }
    expect_sound_checkpoints();
    keep_running();
    failures_ += ended.failed ? 1 : 0;
    return hits.seen;
  }

  const SharedTemporaryDirectory temporary_;
  const fs::path directory_ = temporary_ / "run";
  LargeState state_{1024, 96, now().scattered};  // two ranks have less than what lies in chunks
  std::optional<CheckpointManager> manager_;
  std::uint64_t next_ = 1;
  std::uint64_t committed_ = 0;
  int failures_ = 0;
};

TEST_P(EveryAllocation, HasTheSameOutcomeOnAllRanksAndLosesNothing) {
  const std::uint64_t places = round({.occurrence = UINT64_MAX});
  ASSERT_FALSE(has_failed_anywhere());
  const bool all = std::getenv("REPRIEVE_EVERY_ALLOCATION") != nullptr;
  const std::uint64_t step = all ? 1 : std::max<std::uint64_t>(1, places / kMostPlaces);
  int rounds = 0;
  for (std::uint64_t place = 1; place <= places; place += step, ++rounds) {
    const bool in_a_row = rounds % 2 == 1;
    round({.occurrence = place, .count = in_a_row ? kRow : 1});
    if (has_failed_anywhere()) {
      FAIL() << "at allocation " << place << " of " << places;
    }
  }
  RecordProperty("allocations", static_cast<int>(places));
  RecordProperty("errors", failures_);
  EXPECT_GE(failures_, rounds / 3) << "errors come through";
}

std::string name_of_memory_case(const testing::TestParamInfo<EveryAllocation::ParamType>& info) {
  return std::get<0>(info.param).name + (std::get<1>(info.param) == 0 ? "OnTheChief" : "OnAnotherRank");
}

INSTANTIATE_TEST_SUITE_P(Operations, EveryAllocation,
                         testing::Combine(testing::ValuesIn(memory_cases()), testing::Values(0, 1)),
                         name_of_memory_case);

// Memory runs out once, at every place in turn, in a handler that makes a notice known, saves and leaves: on rank 0
// and on another rank, with both ways to agree. Wherever it is, all ranks end, no rank leaves as preempted while
// another one failed, and the next start continues with what was committed.
//
// Of the places only some are tried, evenly spread; REPRIEVE_EVERY_ALLOCATION=1 tries all.

using namespace std::chrono_literals;

constexpr std::uint64_t kMostPlacesOfHandler = 40;
constexpr int kStepsBeforeNotice = 3;
constexpr int kStepsWithoutNotice = 100'000;

/// Made without memory.
struct Left {};

class HandlerMemory : public testing::TestWithParam<std::tuple<Agreement, int>> {
 protected:
  void SetUp() override {
    REPRIEVE_NEEDS_RANKS(2);
    if (std::get<0>(GetParam()) == Agreement::threads && !all_threads_may_use_mpi()) {
      GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
    }
    core::log::set_level("off");
  }

  static int victim() { return std::get<1>(GetParam()); }

  /// Continues where the last run ended, is given a notice, and is out of memory then. An error goes through the
  /// handler, as it does in a program that does not expect one.
  MemoryHits run(const MemoryFault& fault) {
    Program program(directory_ / "run");
    program.config.agreement = std::get<0>(GetParam());
    program.config.error_timeout = 3s;
    program.config.exit_fn = [](const ExitContext&) { throw Left{}; };
    program.step_time = 0us;
    program.start();
    EXPECT_EQ(program.counter, static_cast<int>(program.handler->total_run_calls()));
    EXPECT_GE(program.counter, committed_);
    try {
      program.run(program.counter + kStepsBeforeNotice);
      MPI_Barrier(MPI_COMM_WORLD);
      if (world_rank() == victim()) {
        arm_memory(fault);
        std::raise(SIGTERM);
      }
      program.run(program.counter + kStepsWithoutNotice);
    } catch (const Left&) {
      const MemoryHits hits = disarm_memory();
      committed_ = program.counter;
      return hits;
    }
    throw std::runtime_error("no notice came");
  }

  /// Returns how many allocations there were.
  std::uint64_t preempt(const MemoryFault& fault) {
    SCOPED_TRACE("on rank " + std::to_string(victim()) + ", allocation " + std::to_string(fault.occurrence));
    MemoryHits hits;
    std::string error;
    try {
      hits = run(fault);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    hits.seen += disarm_memory().seen;
    int any_failed = error.empty() ? 0 : 1;
    MPI_Allreduce(MPI_IN_PLACE, &any_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    EXPECT_EQ(error.empty(), any_failed == 0) << error;
    if (any_failed != 0) {
      ++failures_;
      run({.occurrence = UINT64_MAX});  // the notice may still be there
    }
    MPI_Bcast(&hits.seen, 1, MPI_UINT64_T, victim(), MPI_COMM_WORLD);
    return hits.seen;
  }

  const SharedTemporaryDirectory directory_;
  int committed_ = 0;
  int failures_ = 0;
};

TEST_P(HandlerMemory, AllRanksEndAlikeAndNothingIsLost) {
  const std::uint64_t places = preempt({.occurrence = UINT64_MAX});
  ASSERT_FALSE(has_failed_anywhere());
  const bool all = std::getenv("REPRIEVE_EVERY_ALLOCATION") != nullptr;
  const std::uint64_t step = all ? 1 : std::max<std::uint64_t>(1, places / kMostPlacesOfHandler);
  for (std::uint64_t place = 1; place <= places; place += step) {
    preempt({.occurrence = place});
    ASSERT_FALSE(has_failed_anywhere()) << "at allocation " << place << " of " << places;
  }
  preempt({.occurrence = UINT64_MAX});
  EXPECT_GT(failures_, 0) << "errors come through";
  RecordProperty("allocations", static_cast<int>(places));
}

INSTANTIATE_TEST_SUITE_P(Ways, HandlerMemory,
                         testing::Combine(testing::Values(Agreement::boundaries, Agreement::threads),
                                          testing::Values(0, 1)),
                         [](const auto& parameters) {
                           const bool threads = std::get<0>(parameters.param) == Agreement::threads;
                           return std::string(threads ? "Threads" : "Boundaries") +
                                  (std::get<1>(parameters.param) == 0 ? "OnTheChief" : "OnAnotherRank");
                         });

}  // namespace
}  // namespace reprieve::test
