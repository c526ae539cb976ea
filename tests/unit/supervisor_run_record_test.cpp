// The run record, from its writer to its reader.

#include <gmock/gmock.h>
#include <stdlib.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/run_record.hpp"
#include "supervisor/run_directory.hpp"
#include "supervisor/run_record_reader.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::supervisor {
namespace {

namespace fs = std::filesystem;

TEST(RunRecord, WhatIsWrittenIsReadOnce) {
  const test::TemporaryDirectory directory;
  ASSERT_EQ(::setenv(core::kRunDirectoryVariable, directory.path().c_str(), 1), 0);
  core::EventLog record = core::open_run_record("n1");
  ASSERT_EQ(::unsetenv(core::kRunDirectoryVariable), 0);
  RunRecordReader reader(directory.path());
  EXPECT_TRUE(reader.read_new().empty());
  record.record("ready", {{"run_calls", 3}});
  const auto first = reader.read_new();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].event["event"], "ready");
  EXPECT_EQ(first[0].event["run_calls"], 3);
  EXPECT_TRUE(reader.read_new().empty());
  record.record("finished", nlohmann::json::object());
  EXPECT_EQ(reader.read_new().size(), 1U);
}

TEST(RunRecord, NoSupervisorNoRecord) {
  ASSERT_EQ(::unsetenv(core::kRunDirectoryVariable), 0);
  core::open_run_record("n1").record("ready", nlohmann::json::object());  // goes nowhere
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
  EXPECT_EQ(events[0].event["event"], "start");
  EXPECT_EQ(events[1].event["event"], "ready");
  EXPECT_EQ(events[1].record, "n1.7.jsonl");
}

TEST(RunDirectory, IsPrivateAndVanishes) {
  const test::TemporaryDirectory parent;
  fs::path made;
  {
    const RunDirectory directory(parent.path());
    made = directory.make(1);
    EXPECT_TRUE(fs::is_directory(made));
    EXPECT_EQ(fs::status(made.parent_path()).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(made.parent_path()));
}

}  // namespace
}  // namespace reprieve::supervisor
