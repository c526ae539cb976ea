// SPDX-License-Identifier: BSD-3-Clause
// Saving, restoring, and falling back past corrupt checkpoints.

#include "manager_fixture.hpp"

namespace reprieve::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class EveryWriter : public ManagerTest, public testing::WithParamInterface<WriterKind> {
 protected:
  [[nodiscard]] CheckpointManager open_with_writer() {
    ManagerOptions options;
    options.writer = GetParam();
    return open(options);
  }
};

INSTANTIATE_TEST_SUITE_P(Manager, EveryWriter, testing::Values(WriterKind::direct, WriterKind::mpio),
                         [](const auto& param) { return param.param == WriterKind::direct ? "direct" : "mpio"; });

TEST_P(EveryWriter, EveryKindOfVariableComesBack) {
  CheckpointManager manager = open_with_writer();
  state.set(12);
  const SaveReport report = manager.save(12);
  EXPECT_EQ(report.number, 12U);
  EXPECT_EQ(report.path, directory / "ckpt-12.h5");
  EXPECT_GT(report.bytes, 0U);
  EXPECT_GT(report.seconds, 0.0);

  state.set(99);
  const auto info = manager.restore_or_initialize([] { ADD_FAILURE() << "initialized in spite of a checkpoint"; });
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->path, report.path);
  expect_state(12);
}

TEST_P(EveryWriter, TheNextRunContinues) {
  {
    CheckpointManager manager = open_with_writer();
    save_each(manager, {5, 6});
  }
  state.set(99);
  CheckpointManager manager = open_with_writer();
  const auto info = manager.restore_or_initialize();
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->number, 6U);
  expect_state(6);
}

class RestoreTest : public ManagerTest {};

TEST_F(RestoreTest, InfoTellsWhatWasSaved) {
  CheckpointManager manager = open();
  CheckpointManager::SaveRequest request;
  request.number = 3;
  request.run_calls = 77;
  request.reason = {SaveReason::Kind::preemption, 1, "node7", "signal SIGTERM", "maintenance"};
  const auto before = std::chrono::system_clock::now() - std::chrono::seconds(1);
  manager.save(request);
  const auto restored = manager.restore_or_initialize();
  const auto latest = manager.latest();
  ASSERT_TRUE(restored && latest);
  for (const CheckpointInfo& info : {*restored, *latest}) {
    EXPECT_EQ(info.path, directory / "ckpt-3.h5");
    EXPECT_EQ(info.number, 3U);
    EXPECT_EQ(info.run_calls, 77U);
    EXPECT_EQ(info.world_size, world_size());
    EXPECT_GE(info.time, before);
    EXPECT_LE(info.time, std::chrono::system_clock::now() + std::chrono::seconds(1));
    EXPECT_EQ(info.size_bytes, std::filesystem::file_size(info.path));
    EXPECT_EQ(info.reason.kind, SaveReason::Kind::preemption);
    EXPECT_EQ(info.reason.rank, 1);
    EXPECT_EQ(info.reason.host, "node7");
    EXPECT_EQ(info.reason.source, "signal SIGTERM");
    EXPECT_EQ(info.reason.message, "maintenance");
    EXPECT_FALSE(info.files_directory.has_value());
  }
}

TEST_F(RestoreTest, WithoutCheckpointsInitializes) {
  CheckpointManager manager = open();
  int calls = 0;
  EXPECT_FALSE(manager.restore_or_initialize([&] { ++calls; }).has_value());
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(manager.restore_or_initialize().has_value());
  EXPECT_FALSE(manager.latest().has_value());
  EXPECT_TRUE(manager.checkpoints().empty());
}

TEST_F(RestoreTest, AnInitializeThatFailsOnOneRankFailsOnAll) {
  CheckpointManager manager = open();
  const int last = world_size() - 1;
  const SeenError error = same_error_on_all_ranks([&] {
    manager.restore_or_initialize([&] {
      if (world_rank() == last) {
        throw std::runtime_error("no input data");
      }
    });
  });
  EXPECT_EQ(error.code, ErrorCode::cluster);
  EXPECT_EQ(error.origin_rank, last);
  EXPECT_THAT(error.message, HasSubstr("no input data"));
}

TEST_F(RestoreTest, ListIsSortedByTheSavesAndLeavesOutWhatCannotBeRead) {
  CheckpointManager manager = open({.max_to_keep = 0});
  save_each(manager, {2, 10, 9});
  on_chief([&] {
    write_text(directory / "ckpt-11.h5", "not HDF5");
    write_text(directory / "ckpt-x.h5", "another file");
    std::filesystem::create_directory(directory / "ckpt-12.h5");
    std::filesystem::create_symlink("nowhere", directory / "ckpt-13.h5");
  });
  std::vector<std::uint64_t> numbers;
  for (const CheckpointInfo& info : manager.checkpoints()) {
    numbers.push_back(info.number);
  }
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{2, 10, 9}));
  const auto latest = manager.latest();
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->number, 9U);
}

TEST_F(RestoreTest, ListSeesCheckpointsThatWereReplaced) {
  CheckpointManager manager = open();
  save_each(manager, {1});
  const auto before = manager.checkpoints().at(0).time;
  save_each(manager, {1});
  EXPECT_GT(manager.checkpoints().at(0).time, before);
}

TEST_F(RestoreTest, RestoresAChosenFile) {
  CheckpointManager manager = open();
  save_each(manager, {1, 2, 3});
  const CheckpointInfo info = manager.restore(directory / "ckpt-2.h5");
  EXPECT_EQ(info.number, 2U);
  expect_state(2);
}

TEST_F(RestoreTest, AMissingFileIsAnError) {
  CheckpointManager manager = open();
  const SeenError error = same_error_on_all_ranks([&] { manager.restore(directory / "ckpt-2.h5"); });
  EXPECT_EQ(error.code, ErrorCode::io);
  EXPECT_THAT(error.message, HasSubstr("ckpt-2.h5"));
}

TEST_F(RestoreTest, ACheckpointThatDoesNotFitIsNotQuarantined) {
  {
    CheckpointManager manager = open();
    save_each(manager, {1, 2});
  }
  double surplus = 0;
  state.checkpoint.add_replicated("surplus", surplus);
  CheckpointManager manager = open();
  const SeenError error = same_error_on_all_ranks([&] { manager.restore_or_initialize(); });
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message, HasSubstr("surplus"));
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5"}));
}

/// Ways to corruption a checkpoint file.
struct Corruption {
  const char* name;
  std::function<void(const std::filesystem::path&)> apply;
};

/// Inverts @p count bytes from @p first on, as far as the file goes.
void flip_bytes(const std::filesystem::path& file, std::size_t first, std::size_t count) {
  std::ifstream stream(file, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(stream), {}};
  for (std::size_t i = first; i < std::min(first + count, content.size()); ++i) {
    content[i] = static_cast<char>(~content[i]);
  }
  std::ofstream(file, std::ios::binary) << content;
}

const std::vector<Corruption> kCorruptions{
    {"empty", [](const auto& file) { std::filesystem::resize_file(file, 0); }},
    {"truncated", [](const auto& file) { std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2); }},
    {"one_byte_short",
     [](const auto& file) { std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1); }},
    {"no_signature", [](const auto& file) { flip_bytes(file, 0, 8); }},
    {"all_flipped", [](const auto& file) { flip_bytes(file, 64, std::filesystem::file_size(file)); }},
};

class Fallback : public ManagerTest, public testing::WithParamInterface<Corruption> {};

INSTANTIATE_TEST_SUITE_P(Manager, Fallback, testing::ValuesIn(kCorruptions),
                         [](const auto& param) { return param.param.name; });

TEST_P(Fallback, TakesTheNewestValidCheckpoint) {
  {
    CheckpointManager manager = open({.max_to_keep = 0});
    save_each(manager, {1, 2, 3, 4});
  }
  on_chief([&] {
    GetParam().apply(directory / "ckpt-4.h5");
    GetParam().apply(directory / "ckpt-3.h5");
  });
  state.set(99);
  CheckpointManager manager = open({.max_to_keep = 0});
  const auto info = manager.restore_or_initialize([] { ADD_FAILURE() << "initialized in spite of a checkpoint"; });
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->number, 2U);
  expect_state(2);
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5", "ckpt-3.h5.corrupt", "ckpt-4.h5.corrupt"}));
}

TEST_F(RestoreTest, QuarantiningNeverReplacesWhatWasQuarantinedBefore) {
  CheckpointManager manager = open();
  for (int round = 0; round < 3; ++round) {
    save_each(manager, {1, 2});
    on_chief([&] { write_text(directory / "ckpt-2.h5", "corruption " + std::to_string(round)); });
    EXPECT_EQ(manager.restore_or_initialize()->number, 1U);
  }
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5.corrupt", "ckpt-2.h5.corrupt.2", "ckpt-2.h5.corrupt.3"}));
  EXPECT_EQ(read_text(directory / "ckpt-2.h5.corrupt"), "corruption 0");
  EXPECT_EQ(read_text(directory / "ckpt-2.h5.corrupt.3"), "corruption 2");
}

TEST_F(RestoreTest, WithNoValidCheckpointFailsEveryTime) {
  CheckpointManager manager = open();
  save_each(manager, {1, 2});
  on_chief([&] {
    write_text(directory / "ckpt-1.h5", "corruption");
    write_text(directory / "ckpt-2.h5", "corruption");
  });
  for (int round = 0; round < 2; ++round) {  // a restart must not start from the beginning either
    const SeenError error = same_error_on_all_ranks(
        [&] { manager.restore_or_initialize([] { ADD_FAILURE() << "initialized over corrupt checkpoints"; }); });
    EXPECT_EQ(error.code, ErrorCode::corrupt);
    EXPECT_THAT(error.message, AllOf(HasSubstr("ckpt-1.h5"), HasSubstr("ckpt-2.h5"), HasSubstr(directory.string())));
  }
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5"}));
}

}  // namespace
}  // namespace reprieve::test
