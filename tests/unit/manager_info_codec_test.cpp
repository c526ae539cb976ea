// SPDX-License-Identifier: BSD-3-Clause
// CheckpointInfo on its way from rank 0 to the other ranks.

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "core/message.hpp"
#include "manager/checkpoint_list.hpp"

namespace reprieve::manager {
namespace {

using Infos = std::vector<CheckpointInfo>;

Infos sent(const Infos& infos) { return core::from_message<Infos>(core::to_message(infos)); }

TEST(InfoCodec, EverythingArrives) {
  CheckpointInfo info;
  info.path = "/some/where/ckpt-12.h5";
  info.number = 12;
  info.run = 3;
  info.save = 18'446'744'073'709'551'614U;
  info.directory_id = "0123456789abcdef01234567";
  info.run_calls = 18'446'744'073'709'551'615U;
  info.world_size = 4;
  info.time = std::chrono::system_clock::time_point(std::chrono::microseconds(1'700'000'000'123'456));
  info.size_bytes = 99;
  info.reason = {SaveReason::Kind::preemption, 3, "node7", "signal SIGTERM", "maintenance"};
  info.files_directory = "/some/where/ckpt-12.files";

  const auto decoded = sent({info, CheckpointInfo{}});
  ASSERT_EQ(decoded.size(), 2U);
  EXPECT_EQ(decoded[0].path, info.path);
  EXPECT_EQ(decoded[0].number, info.number);
  EXPECT_EQ(decoded[0].run_calls, info.run_calls);
  EXPECT_EQ(decoded[0].world_size, info.world_size);
  EXPECT_EQ(decoded[0].time, info.time);
  EXPECT_EQ(decoded[0].size_bytes, info.size_bytes);
  EXPECT_EQ(decoded[0].reason.kind, info.reason.kind);
  EXPECT_EQ(decoded[0].reason.rank, info.reason.rank);
  EXPECT_EQ(decoded[0].reason.host, info.reason.host);
  EXPECT_EQ(decoded[0].reason.source, info.reason.source);
  EXPECT_EQ(decoded[0].reason.message, info.reason.message);
  EXPECT_EQ(decoded[0].files_directory, info.files_directory);
  EXPECT_EQ(decoded[0].run, info.run);
  EXPECT_EQ(decoded[0].save, info.save);
  EXPECT_EQ(decoded[0].directory_id, info.directory_id);
  EXPECT_EQ(decoded[1].files_directory, std::nullopt);
  EXPECT_EQ(decoded[1].run_calls, std::nullopt);
}

TEST(InfoCodec, NoCheckpoints) { EXPECT_TRUE(sent({}).empty()); }

TEST(InfoCodec, TextNeedNotBeUtf8) {
  CheckpointInfo info;
  info.path = "/latin\xe9/ckpt-1.h5";
  info.reason.message = "\xff\xfe";
  const auto decoded = sent({info});
  EXPECT_EQ(decoded.at(0).path, info.path);
  EXPECT_EQ(decoded.at(0).reason.message, info.reason.message);
}

TEST(SaveReasons, HaveNames) {
  EXPECT_STREQ(to_string(SaveReason::Kind::user), "user");
  EXPECT_STREQ(to_string(SaveReason::Kind::periodic), "periodic");
  EXPECT_STREQ(to_string(SaveReason::Kind::preemption), "preemption");
}

}  // namespace
}  // namespace reprieve::manager
