// SPDX-License-Identifier: BSD-3-Clause
// The run record, from its writer to its reader.

#include <gmock/gmock.h>
#include <stdlib.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/run_record.hpp"
#include "supervisor/supervised_run.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::supervisor {
namespace {

namespace fs = std::filesystem;

TEST(RunRecord, WhatIsWrittenIsReadOnce) {
  const test::TemporaryDirectory directory;
  ASSERT_EQ(::setenv(core::kRunDirectoryVariable, directory.path().c_str(), 1), 0);
  core::RunRecord record = core::open_run_record("n1");
  ASSERT_EQ(::unsetenv(core::kRunDirectoryVariable), 0);
  RunRecordReader reader(directory.path());
  EXPECT_TRUE(reader.read_new().empty());
  record.write(events::Ready{.run_calls = 3});
  const auto first = reader.read_new();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(std::get<events::Ready>(first[0].logged.event).run_calls, 3U);
  EXPECT_TRUE(reader.read_new().empty());
  record.write(events::Finished{});
  EXPECT_EQ(reader.read_new().size(), 1U);
}

/// A model of two parts has a manager for each, in the same process or not.
TEST(RunRecord, ManagersThatAreOpenAtOnceHaveOneEach) {
  const test::TemporaryDirectory directory;
  ASSERT_EQ(::setenv(core::kRunDirectoryVariable, directory.path().c_str(), 1), 0);
  const auto files = [&] { return std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()); };
  core::RunRecord first = core::open_run_record("n1");
  first.write(events::Start{});
  {
    core::RunRecord second = core::open_run_record("n1");
    second.write(events::Start{});
    EXPECT_EQ(files(), 2);
  }
  core::open_run_record("n1").write(events::Start{});
  EXPECT_EQ(files(), 2) << "what was closed leaves its place to the next one";
  ASSERT_EQ(::unsetenv(core::kRunDirectoryVariable), 0);
}

TEST(RunRecord, NoSupervisorNoRecord) {
  ASSERT_EQ(::unsetenv(core::kRunDirectoryVariable), 0);
  core::open_run_record("n1").write(events::Ready{});  // goes nowhere
}

TEST(RunRecord, LinesAreReadWhenTheyAreComplete) {
  const test::TemporaryDirectory directory;
  RunRecordReader reader(directory.path());
  std::ofstream file(directory / "n1.7.jsonl");
  file << R"({"event": "sta)" << std::flush;
  EXPECT_TRUE(reader.read_new().empty());
  file << R"(rt"})" << '\n'
       << "torn {\n\n"
       << R"({"event": "ready"})" << '\n'
       << std::flush;
  std::ofstream(directory / "notes.txt") << R"({"event": "ready"})" << '\n';
  const auto events = reader.read_new();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<events::Start>(events[0].logged.event));
  EXPECT_TRUE(std::holds_alternative<events::Ready>(events[1].logged.event));
  EXPECT_EQ(events[1].record, "n1.7.jsonl");
}

TEST(RunDirectory, IsPrivateAndVanishes) {
  const test::TemporaryDirectory parent;
  fs::path made;
  {
    const RunDirectory directory(parent.path(), {});
    made = directory.make(1);
    EXPECT_TRUE(fs::is_directory(made));
    EXPECT_EQ(fs::status(made.parent_path()).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(made.parent_path()));
}

/// They are killed with SIGKILL, and nothing of them is to stay for ever.
TEST(RunDirectory, WhatKilledSupervisorsLeftIsRemoved) {
  const test::TemporaryDirectory parent;
  const std::string of_this_host = ".reprieve-run-" + core::host_name() + '-';
  const fs::path dead = parent / (of_this_host + "0123456789abcdef");
  const fs::path young = parent / (of_this_host + "0123456789abcde0");
  const fs::path foreign = parent / "something-else";
  // Whether its supervisor lives cannot be seen from here: locks of directories may be those of one node.
  const fs::path of_another_host = parent / ".reprieve-run-elsewhere-0123456789abcdef";
  const fs::path of_a_similar_host = parent / (of_this_host + "x-0123456789abcdef");
  for (const fs::path& path : {dead, young, foreign, of_another_host, of_a_similar_host}) {
    fs::create_directory(path);
    std::ofstream(path / "1.jsonl") << "x";
  }
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const fs::path& path : {dead, foreign, of_another_host, of_a_similar_host}) {
    fs::last_write_time(path, long_ago);
  }
  const RunDirectory living(parent.path(), {});
  fs::last_write_time(living.path(), long_ago);
  const RunDirectory next(parent.path(), {});
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(young));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_TRUE(fs::exists(of_another_host));
  EXPECT_TRUE(fs::exists(of_a_similar_host));
  EXPECT_TRUE(fs::exists(living.path()));
  EXPECT_TRUE(next.has_room());
}

TEST(RunDirectory, BelowAnotherSupervisorsItIsThatOnes) {
  const test::TemporaryDirectory outer;
  std::ofstream(outer / core::kDrillOrdersName) << "orders";
  ASSERT_EQ(::setenv(core::kRunDirectoryVariable, outer.path().c_str(), 1), 0);
  fs::path made;
  {
    const RunDirectory directory("/nonexistent", {});
    EXPECT_TRUE(directory.is_dry_run());
    made = directory.make(1);
    std::ofstream(made / "n1.7.jsonl") << R"({"event":"ready"})" << std::endl;
  }
  ASSERT_EQ(::unsetenv(core::kRunDirectoryVariable), 0);
  std::ifstream orders(made / core::kDrillOrdersName);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(orders), {}), "orders");
  const auto events = RunRecordReader(outer.path()).read_new();
  ASSERT_EQ(events.size(), 1U) << "the outer supervisor reads it, also when the inner one is gone";
  EXPECT_TRUE(std::holds_alternative<events::Ready>(events[0].logged.event));
}

}  // namespace
}  // namespace reprieve::supervisor
