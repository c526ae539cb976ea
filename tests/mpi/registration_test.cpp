// SPDX-License-Identifier: BSD-3-Clause
// What is registered is compared when the handler is made, before anything else happens.

#include "handler_fixture.hpp"
#include "manager_fixture.hpp"

namespace reprieve::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class RegistrationTest : public testing::Test {
 protected:
  [[nodiscard]] SeenError error_of_start() {
    return same_error_on_all_ranks([this] { const PreemptionCheckpointHandler handler = make(); });
  }
  [[nodiscard]] PreemptionCheckpointHandler make() {
    TerminationConfig config;
    config.peer_timeout = std::chrono::seconds(30);
    return PreemptionCheckpointHandler(MPI_COMM_WORLD, checkpoint, directory, config);
  }
  static std::uint64_t rank() { return static_cast<std::uint64_t>(world_rank()); }
  static std::uint64_t ranks() { return static_cast<std::uint64_t>(world_size()); }
  static bool is_last() { return world_rank() == world_size() - 1; }

  const SharedTemporaryDirectory temporary;
  const fs::path directory = temporary / "run";
  Checkpoint checkpoint;
  int number = 1;
  float real = 1;
  std::array<double, 4> field{};
};

TEST_F(RegistrationTest, NamesKindsAndTypesThatDifferAreTold) {
  REPRIEVE_NEEDS_RANKS(2);
  checkpoint.add_replicated("same", number);
  if (is_last()) {
    checkpoint.add_replicated("extra", number);
  }
  SeenError error = error_of_start();
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message, AllOf(HasSubstr("variable 'extra'"), HasSubstr("rank 0 did not register it")));

  checkpoint = Checkpoint();
  if (is_last()) {
    checkpoint.add_per_rank("kind", number);
    checkpoint.add_replicated("type", real);
  } else {
    checkpoint.add_replicated("kind", number);
    checkpoint.add_replicated("type", number);
  }
  error = error_of_start();
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message, AllOf(HasSubstr("'kind'"), HasSubstr("'type'"), HasSubstr("per_rank")));
}

TEST_F(RegistrationTest, SharedElementsThatOneRankAllowsAreTold) {
  REPRIEVE_NEEDS_RANKS(2);
  for (const int allows : {0, world_size() - 1}) {
    checkpoint = Checkpoint();
    checkpoint.add_distributed("field", field.data(), DistributedLayout{{4 * ranks()}, {4 * rank()}, {4}});
    if (world_rank() == allows) {
      checkpoint.allow_shared("field");
    }
    const SeenError error = error_of_start();
    EXPECT_EQ(error.code, ErrorCode::mismatch);
    EXPECT_THAT(error.message, AllOf(HasSubstr("variable 'field'"), HasSubstr("(allow_shared)")));
  }
}

TEST_F(RegistrationTest, GlobalShapesThatDifferAreTold) {
  REPRIEVE_NEEDS_RANKS(2);
  checkpoint.add_distributed(
      "field", field.data(),
      {.global_shape = {4 * ranks() + (is_last() ? 1 : 0)}, .offset = {4 * rank()}, .extent = {4}});
  const SeenError error = error_of_start();
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message, AllOf(HasSubstr("'field'"), HasSubstr("shape")));
}

TEST_F(RegistrationTest, BoxesThatOverlapAreTold) {
  REPRIEVE_NEEDS_RANKS(2);
  checkpoint.add_distributed("field", field.data(),
                             {.global_shape = {4 * ranks()}, .offset = {3 * rank()}, .extent = {4}});
  const SeenError error = error_of_start();
  EXPECT_EQ(error.code, ErrorCode::usage);
  EXPECT_THAT(error.message, AllOf(HasSubstr("'field'"), HasSubstr("overlap"), HasSubstr("rank 1")));
}

TEST_F(RegistrationTest, NothingIsTouchedBefore) {
  REPRIEVE_NEEDS_RANKS(2);
  checkpoint.add_replicated("same", number);
  {
    PreemptionCheckpointHandler handler = make();
    number = 7;
    handler.manager().save();
  }
  number = 1;
  if (is_last()) {
    checkpoint.add_replicated("extra", real);
  }
  EXPECT_EQ(error_of_start().code, ErrorCode::mismatch);
  EXPECT_EQ(number, 1) << "nothing was restored";
}

TEST_F(RegistrationTest, NothingCanBeRegisteredWhileAHandlerIsThere) {
  checkpoint.add_replicated("same", number);
  {
    PreemptionCheckpointHandler handler = make();
    const auto refused = [](const std::function<void()>& registration) {
      try {
        registration();
        ADD_FAILURE() << "registered";
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("'late'"), HasSubstr("before the handler is made")));
      }
    };
    const DistributedLayout layout{.global_shape = {4 * ranks()}, .offset = {4 * rank()}, .extent = {4}};
    std::vector<double> values(4);
    refused([&] { checkpoint.add_replicated("late", real); });
    refused([&] { checkpoint.add_per_rank("late", real); });
    refused([&] { checkpoint.add_distributed("late", field.data(), layout); });
    refused([&] { checkpoint.add_distributed("late", values, layout); });
    refused([&] { checkpoint.add_distributed("late", [] { return DistributedArray{}; }); });
    refused([&] { checkpoint.add_component("late", Checkpoint()); });
    refused([&] { checkpoint.add_constant("late", 1); });
    handler.manager().save();
  }
  checkpoint.add_replicated("later", real);
  EXPECT_TRUE(checkpoint.contains("later"));
}

/// What a vector's registration says of its array is compared before any variable is touched.
TEST_F(RegistrationTest, VectorsOfAnotherShapeAreNoticedBeforeTheRestore) {
  std::vector<double> values(4, 1.0);
  checkpoint.add_replicated("number", number);
  checkpoint.add_distributed("values", values, {.global_shape = {4 * ranks()}, .offset = {4 * rank()}, .extent = {4}});
  {
    PreemptionCheckpointHandler handler = make();
    number = 7;
    handler.manager().save();
  }
  number = 1;
  checkpoint = Checkpoint();
  values.resize(5);
  checkpoint.add_replicated("number", number);
  checkpoint.add_distributed("values", values, {.global_shape = {5 * ranks()}, .offset = {5 * rank()}, .extent = {5}});
  const SeenError error = error_of_start();
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message, HasSubstr("'values'"));
  EXPECT_EQ(number, 1) << "nothing was restored";
}

/// Only after a restore, which calls it as well: before, it may not be able to tell.
TEST_F(RegistrationTest, WhatFunctionsDescribeIsComparedAfterARestore) {
  REPRIEVE_NEEDS_RANKS(2);
  bool overlaps = false;
  int calls = 0;
  checkpoint.add_distributed("field", [&] {
    ++calls;
    DistributedArray array{element_type_of<double>(), {4 * ranks()}, {}};
    array.boxes.push_back({reinterpret_cast<std::byte*>(field.data()), {overlaps ? 3 * rank() : 4 * rank()}, {4}, {}});
    return array;
  });
  {
    PreemptionCheckpointHandler handler = make();
    EXPECT_EQ(calls, 0);
    handler.manager().save();
  }
  overlaps = true;
  const SeenError error = error_of_start();
  EXPECT_EQ(error.code, ErrorCode::usage);
  EXPECT_THAT(error.message, HasSubstr("overlap"));
}

}  // namespace
}  // namespace reprieve::test
