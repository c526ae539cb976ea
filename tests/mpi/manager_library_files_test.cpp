// SPDX-License-Identifier: BSD-3-Clause
// State of a library that writes and reads files together on all ranks, restored on other numbers of ranks.

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "manager_fixture.hpp"

namespace reprieve::test {
namespace {

/// A library of the kind: numbers that are spread over the ranks, written into two files, of which one is that of rank
/// 0 alone.
class Mesh {
 public:
  Mesh(MPI_Comm comm, int count) : comm_(comm), count_(count) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    own_.assign(static_cast<std::size_t>(end() - begin()), -1);
  }
  void fill() { std::iota(own_.begin(), own_.end(), begin()); }
  [[nodiscard]] bool is_filled() const {
    std::vector<int> expected(own_.size());
    std::iota(expected.begin(), expected.end(), begin());
    return own_ == expected;
  }

  void save(const std::string& prefix) const {
    if (rank_ == 0) {
      std::ofstream(prefix + ".info") << count_;
    }
    MPI_File file = MPI_FILE_NULL;
    ASSERT_EQ(MPI_File_open(comm_, (prefix + ".data").c_str(), MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file),
              MPI_SUCCESS);
    const auto offset = static_cast<MPI_Offset>(sizeof(int)) * begin();
    MPI_File_write_at_all(file, offset, own_.data(), end() - begin(), MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
  }
  void load(const std::string& prefix) {
    int count = 0;
    std::ifstream(prefix + ".info") >> count;
    EXPECT_EQ(count, count_);
    MPI_File file = MPI_FILE_NULL;
    ASSERT_EQ(MPI_File_open(comm_, (prefix + ".data").c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_SUCCESS);
    const auto offset = static_cast<MPI_Offset>(sizeof(int)) * begin();
    MPI_File_read_at_all(file, offset, own_.data(), end() - begin(), MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
  }

 private:
  [[nodiscard]] int begin() const { return rank_ * count_ / size_; }
  [[nodiscard]] int end() const { return (rank_ + 1) * count_ / size_; }

  MPI_Comm comm_;
  int count_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<int> own_;
};

void add(Checkpoint& state, MPI_Comm comm, Mesh& mesh, const std::filesystem::path& directory) {
  add_files(state, "mesh", comm, directory,
            {.write = [&](const std::string& prefix) { mesh.save(prefix); },
             .read = [&](const std::string& prefix) { mesh.load(prefix); }});
}

class LibraryFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    on_rank_0([&] { std::filesystem::create_directory(scratch()); });
  }
  /// All files are in the checkpoint, and no folder is left.
  void TearDown() override { EXPECT_TRUE(std::filesystem::is_empty(scratch())); }

  [[nodiscard]] std::filesystem::path scratch() const { return directory_ / "scratch"; }
  void save(int ranks, int count) {
    on_first_ranks(ranks, [&](MPI_Comm comm) {
      Mesh mesh(comm, count);
      Checkpoint state;
      add(state, comm, mesh, scratch());
      mesh.fill();
      CheckpointManager(comm, state, directory_ / "checkpoints").save(1);
    });
  }
  void restore(int ranks, int count) {
    on_first_ranks(ranks, [&](MPI_Comm comm) {
      Mesh mesh(comm, count);
      Checkpoint state;
      add(state, comm, mesh, scratch());
      EXPECT_TRUE(CheckpointManager(comm, state, directory_ / "checkpoints").restore_or_initialize().has_value());
      EXPECT_TRUE(mesh.is_filled());
    });
  }
  /// The error of a save of what @p write makes.
  SeenError error_of_save(std::function<void(const std::string&)> write, const std::filesystem::path& scratch) {
    Checkpoint state;
    add_files(state, "library", MPI_COMM_WORLD, scratch,
              {.write = std::move(write), .read = [](const std::string&) {}});
    CheckpointManager manager(MPI_COMM_WORLD, state, directory_ / "checkpoints");
    return same_error_on_all_ranks([&] { manager.save(1); });
  }

  const SharedTemporaryDirectory directory_;
};

TEST_F(LibraryFilesTest, AreRestoredOnAnyNumberOfRanks) {
  for (int saved = 1; saved <= world_size(); ++saved) {
    save(saved, 1000);
    for (int ranks = 1; ranks <= world_size(); ++ranks) {
      restore(ranks, 1000);
    }
    on_rank_0([&] { std::filesystem::remove_all(directory_ / "checkpoints"); });
  }
}

TEST_F(LibraryFilesTest, MayBeSmallerThanTheNumberOfRanks) {
  save(world_size(), 0);
  restore(1, 0);
  restore(world_size(), 0);
}

TEST_F(LibraryFilesTest, AVariableThatIsNewIsNotRead) {
  std::int64_t step = 7;
  {
    Checkpoint state;
    state.add_replicated("step", step);
    CheckpointManager(MPI_COMM_WORLD, state, directory_ / "checkpoints").save(1);
  }
  Mesh mesh(MPI_COMM_WORLD, 10);
  Checkpoint state;
  state.add_replicated("step", step);
  add(state, MPI_COMM_WORLD, mesh, scratch());
  state.allow_missing("mesh");
  mesh.fill();
  EXPECT_TRUE(CheckpointManager(MPI_COMM_WORLD, state, directory_ / "checkpoints").restore_or_initialize());
  EXPECT_TRUE(mesh.is_filled());
}

TEST_F(LibraryFilesTest, WhatTheLibraryCannotDoIsAnErrorOnAllRanks) {
  const auto nothing = [](const std::string&) {};
  EXPECT_THAT(error_of_save(nothing, scratch()), is_error(ErrorCode::usage, "wrote no file"));
  const auto fails = [](const std::string&) { throw std::runtime_error("the mesh is not there"); };
  EXPECT_THAT(error_of_save(fails, scratch()).message, testing::HasSubstr("the mesh is not there"));
  const auto directory = [](const std::string& prefix) {
    on_rank_0([&] { std::filesystem::create_directory(prefix); });
  };
  EXPECT_THAT(error_of_save(directory, scratch()), is_error(ErrorCode::usage, "is no file"));
  on_rank_0([&] { std::filesystem::create_directory(directory_ / "none"); });
  const auto removes = [&](const std::string&) {
    on_rank_0([&] { std::filesystem::remove_all(directory_ / "none"); });
  };
  EXPECT_THAT(error_of_save(removes, directory_ / "none").message, testing::HasSubstr("none"));
  EXPECT_THAT(same_error_on_all_ranks([&] {
                Checkpoint state;
                add_files(state, "library", MPI_COMM_WORLD, directory_ / "none", {.write = nothing, .read = nothing});
              }).message,
              testing::HasSubstr("none"));
  Checkpoint state;
  EXPECT_THAT(error_of([&] { add_files(state, "library", MPI_COMM_WORLD, scratch(), {}); }),
              is_error(ErrorCode::usage, "'library'", "write and read"));
}

TEST_F(LibraryFilesTest, WhatDiffersBetweenRanksShowsAtTheRegistration) {
  REPRIEVE_NEEDS_RANKS(2);
  const auto nothing = [](const std::string&) {};
  const auto error_of_add = [&](const std::string& name, const std::filesystem::path& directory) {
    Checkpoint state;
    return same_error_on_all_ranks(
        [&] { add_files(state, name, MPI_COMM_WORLD, directory, {.write = nothing, .read = nothing}); });
  };
  const std::string own = world_rank() == 0 ? "first" : "second";
  EXPECT_THAT(error_of_add(own, scratch()), is_error(ErrorCode::usage, "different orders: 'first' and 'second'"));
  std::filesystem::create_directory(directory_ / own);
  EXPECT_THAT(error_of_add("library", directory_ / own).message, testing::HasSubstr("all ranks must see"));
}

}  // namespace
}  // namespace reprieve::test
