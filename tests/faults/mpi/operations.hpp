// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The operations of a manager in which tests let something fail on one rank, and what must hold then.

#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/log.hpp"
#include "faults/valid_checkpoints.hpp"
#include "large_state.hpp"
#include "mpi/manager_fixture.hpp"

namespace reprieve::test {

namespace fs = std::filesystem;

/// What is done while something fails.
struct Operation {
  std::string name;
  ManagerOptions options;
  int checkpoints = 1;     ///< in the directory before it
  bool scattered = false;  ///< the ranks' parts of the large array lie in small pieces, which they exchange
  bool has_files = false;  ///< of a save function
  bool saves = true;
  bool looks_as_save = false;  ///< it finds its way in the directory by the calls that Save makes
  bool is_new = false;         ///< a start in a directory that is not there before it
  /// With a manager that is open; none: the operation is the start.
  std::function<void(CheckpointManager&, const CheckpointManager::SaveRequest&)> run = {};

  [[nodiscard]] bool is_start() const { return run == nullptr; }
};

inline std::ostream& operator<<(std::ostream& stream, const Operation& operation) { return stream << operation.name; }

inline std::vector<Operation> operations() {
  const auto save = [](CheckpointManager& manager, const auto& request) { manager.save(request); };
  const auto save_in_background = [](CheckpointManager& manager, const auto& request) {
    manager.save_in_background(request);
    manager.finish_background_save();
  };
  const auto restore = [](CheckpointManager& manager, const auto&) { manager.restore_or_initialize(); };
  const auto list = [](CheckpointManager& manager, const auto&) { static_cast<void>(manager.checkpoints()); };
  ManagerOptions to_disk{.max_to_keep = 3, .io = FileIo::direct};
  to_disk.io_timeout = std::chrono::seconds(50);
  ManagerOptions one = to_disk;
  one.max_to_keep = 1;
  ManagerOptions without_recycled = one;
  without_recycled.recycle = false;
  ManagerOptions cached = to_disk;
  cached.io = FileIo::page_cache;
  ManagerOptions reserving = one;
  reserving.reserve = true;
  return {{.name = "Save", .options = to_disk, .run = save},
          {.name = "SaveInSmallPieces", .options = to_disk, .scattered = true, .looks_as_save = true, .run = save},
          {.name = "SaveThroughThePageCache", .options = cached, .looks_as_save = true, .run = save},
          {.name = "SaveIntoARecycledFile", .options = one, .checkpoints = 3, .run = save},
          {.name = "SaveThatPrunes", .options = without_recycled, .run = save},
          {.name = "SaveInTheBackground", .options = to_disk, .looks_as_save = true, .run = save_in_background},
          {.name = "SaveWithFiles", .options = without_recycled, .has_files = true, .run = save},
          {.name = "Reserve", .options = reserving, .saves = false, .run = restore},
          {.name = "Restore", .options = to_disk, .checkpoints = 2, .saves = false, .run = restore},
          {.name = "List", .options = to_disk, .checkpoints = 2, .saves = false, .run = list},
          {.name = "StartInANewDirectory", .options = to_disk, .saves = false, .is_new = true},
          {.name = "Start", .options = to_disk, .saves = false}};
}

/// How an operation ended on this rank.
struct Ended {
  bool failed = false;
  ErrorCode code = ErrorCode::internal;
  int origin_rank = -1;
  std::string text = {};
};

inline Ended ended_by(const std::exception_ptr& error) {
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

inline std::string broadcast(std::string text, int root) {
  int size = static_cast<int>(text.size());
  MPI_Bcast(&size, 1, MPI_INT, root, MPI_COMM_WORLD);
  text.resize(static_cast<std::size_t>(size));
  MPI_Bcast(text.data(), size, MPI_CHAR, root, MPI_COMM_WORLD);
  return text;
}

/// One operation in which something fails on a rank, the victim.
class OperationTest : public testing::TestWithParam<std::tuple<Operation, int>> {
 protected:
  void SetUp() override {
    REPRIEVE_NEEDS_RANKS(2);
    core::log::set_level("off");
  }

  static const Operation& operation() { return std::get<0>(GetParam()); }
  static int victim() { return std::get<1>(GetParam()); }

  void open() { manager_.emplace(MPI_COMM_WORLD, state_.checkpoint(), directory_, operation().options); }

  void save() {
    state_.set(next_);
    manager_->save(next_);
    committed_ = next_++;
  }

  static SaveFn file_writer() {
    return [](const SaveFnContext& context) {
      std::ofstream(context.write_directory / "notes.txt") << "of checkpoint " << context.number;
    };
  }

  /// Makes what the operation needs: its memory is none of the library's.
  void prepare() {
    if (operation().is_new) {
      remove_directory();
    }
    request_.number = next_;
    request_.save_fn = operation().has_files ? file_writer() : SaveFn();
    start_directory_ = directory_;
    start_options_ = operation().options;
    state_.set(operation().saves ? next_ : next_ + 7);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  std::exception_ptr perform() {
    try {
      if (operation().is_start()) {
        manager_.emplace(MPI_COMM_WORLD, state_.checkpoint(), std::move(start_directory_), std::move(start_options_));
      } else {
        operation().run(*manager_, request_);
      }
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void remove_directory() {
    manager_.reset();
    on_rank_0([this] { fs::remove_all(directory_); });
    committed_ = 0;
    next_ = 1;
  }

  /// The operation has ended so: every committed file is valid, and the newest is the last one that was said to be
  /// committed, or the one after.
  void expect_sound_checkpoints(const Ended& ended) {
    if (operation().saves) {
      committed_ = ended.failed ? committed_ : next_;
      ++next_;
    }
    failures_ += ended.failed ? 1 : 0;
    on_rank_0([this] {
      if (fs::exists(directory_)) {
        const std::vector<std::uint64_t> numbers = expect_valid_checkpoints(directory_);
        const std::uint64_t newest = numbers.empty() ? 0 : numbers.back();
        EXPECT_TRUE(newest == committed_ || newest + 1 == next_) << newest << " is the newest, not " << committed_;
        committed_ = newest;
      }
    });
    MPI_Bcast(&committed_, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  }

  /// The newest is restored, or none where there is none.
  void expect_restored() {
    state_.set(next_ + 5);
    const auto info = manager_->restore_or_initialize();
    EXPECT_EQ(info ? info->number : 0, committed_);
    state_.expect(info ? committed_ : next_ + 5);
  }

  const SharedTemporaryDirectory temporary_;
  const fs::path directory_ = temporary_ / "run";
  /// 1 MiB, not a whole number of pages; two ranks have less than what lies in chunks.
  LargeState state_{243, 533, operation().scattered};
  std::optional<CheckpointManager> manager_;
  std::uint64_t next_ = 1;
  std::uint64_t committed_ = 0;
  int failures_ = 0;

 private:
  CheckpointManager::SaveRequest request_;
  fs::path start_directory_;
  ManagerOptions start_options_;
};

inline std::string name_of_operation(const testing::TestParamInfo<OperationTest::ParamType>& info) {
  return std::get<0>(info.param).name + (std::get<1>(info.param) == 0 ? "OnRank0" : "OnAnotherRank");
}

inline const auto all_operations = testing::Combine(testing::ValuesIn(operations()), testing::Values(0, 1));

}  // namespace reprieve::test
