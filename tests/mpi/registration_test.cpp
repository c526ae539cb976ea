// SPDX-License-Identifier: BSD-3-Clause
// What is registered is compared when the handler is made, before anything else happens.

#include <algorithm>
#include <cstdlib>
#include <variant>

#include "core/events.hpp"
#include "handler_fixture.hpp"
#include "manager_fixture.hpp"

namespace reprieve::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
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

TEST_F(RegistrationTest, NamesKindsAndTypesThatDifferAreReported) {
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

TEST_F(RegistrationTest, SharedElementsThatOneRankAllowsAreReported) {
  REPRIEVE_NEEDS_RANKS(2);
  for (const int allows : {0, world_size() - 1}) {
    checkpoint = Checkpoint();
    checkpoint.add_distributed("field", field.data(), DistributedLayout{{4 * ranks()}, {4 * rank()}, {4}});
    if (world_rank() == allows) {
      checkpoint.allow_shared("field");
    }
    EXPECT_THAT(error_of_start(), is_error(ErrorCode::mismatch, "variable 'field'", "(allow_shared)"));
  }
}

TEST_F(RegistrationTest, BoxesThatOverlapAreReported) {
  REPRIEVE_NEEDS_RANKS(2);
  checkpoint.add_distributed("field", field.data(),
                             {.global_shape = {4 * ranks()}, .offset = {3 * rank()}, .extent = {4}});
  const SeenError error = error_of_start();
  EXPECT_EQ(error.code, ErrorCode::usage);
  EXPECT_THAT(error.message, AllOf(HasSubstr("'field'"), HasSubstr("overlap"), HasSubstr("rank 1")));
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
  EXPECT_THAT(error_of_start(),
              is_error(ErrorCode::mismatch, "'values'", "-> a checkpoint of another input or program"));
  EXPECT_EQ(number, 1) << "nothing was restored";
  checkpoint = Checkpoint();
  checkpoint.add_replicated("other", number);
  EXPECT_THAT(error_of_start().message, HasSubstr("does not fit the registered state: it is of another program, and "));
}

/// The first save, which would see it too, may be the one for a notice.
TEST_F(RegistrationTest, AVectorThatWasResizedIsFoundAtTheStart) {
  std::vector<double> values(4);
  checkpoint.add_distributed("values", values, {.global_shape = {4 * ranks()}, .offset = {4 * rank()}, .extent = {4}});
  values.resize(world_rank() + 1 == world_size() ? 5 : 4);
  EXPECT_THAT(error_of_start(), is_error(ErrorCode::usage, "'values'", "its memory has 5 now"));
}

TEST_F(RegistrationTest, ReplicatedValuesThatDifferAreNamedAtTheStart) {
  REPRIEVE_NEEDS_RANKS(2);
  double other = 0.5 * world_rank();
  double same = 3;
  number = world_rank() == 1 ? 4 : 3;
  checkpoint.add_replicated("number", number);
  checkpoint.add_replicated("other", other);
  checkpoint.add_replicated("same", same);
  testing::internal::CaptureStderr();
  PreemptionCheckpointHandler handler = make();
  const std::string warning = "'number', 'other' are registered as replicated, but they are not equal on all ranks";
  EXPECT_EQ(testing::internal::GetCapturedStderr().find(warning) != std::string::npos, world_rank() == 0);
}

/// When the values are restored: before, it may not be able to tell. Later, the arrays would be overwritten.
TEST_F(RegistrationTest, WhatFunctionsDescribeIsComparedBeforeArraysAreRestored) {
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
  std::fill(field.begin(), field.end(), -1.0);
  testing::internal::CaptureStderr();
  const SeenError error = error_of_start();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("restored ")));
  EXPECT_EQ(error.code, ErrorCode::usage);
  EXPECT_THAT(error.message, AllOf(HasSubstr("overlap"), HasSubstr("correct the offsets"),
                                   HasSubstr("allow_shared(\"field\")"), HasSubstr("shared=True")));
  EXPECT_THAT(field, testing::Each(-1.0));
}

// Arrays by the variables that point to them.

/// Two time levels that change places: once before the save, and once more before the restore.
TEST(Pointers, ThatChangePlacesAreFoundAtASaveAndAtARestore) {
  const SharedTemporaryDirectory directory;
  constexpr std::size_t kPoints = 6;
  const auto rank = static_cast<std::uint64_t>(world_rank());
  std::vector<double> memory(kPoints + 2, 1.0 + world_rank());
  std::vector<double> other(kPoints + 2, 2.0);
  double* now = memory.data();
  std::unique_ptr<double[]> before(new double[kPoints + 2]());
  const auto layout = with_ghost_layers({kPoints * static_cast<std::uint64_t>(world_size())}, {kPoints * rank},
                                        {kPoints}, {1}, sizeof(double));
  Checkpoint state;
  state.add_distributed("now", &now, layout);
  state.add_distributed("before", before, layout);
  now = other.data();
  before.reset(new double[kPoints + 2]());
  std::fill_n(before.get(), kPoints + 2, 3.0 + world_rank());
  CheckpointManager manager(MPI_COMM_WORLD, state, directory / "run");
  manager.save(7);
  now = memory.data();
  before.reset(new double[kPoints + 2]());
  ASSERT_TRUE(manager.restore_or_initialize().has_value());
  const double ghost = 1.0 + world_rank();
  EXPECT_THAT(memory, testing::ElementsAre(ghost, 2, 2, 2, 2, 2, 2, ghost));
  EXPECT_THAT(std::span(before.get(), kPoints + 2), testing::Contains(3.0 + world_rank()).Times(kPoints));
}

// What a run is about: a checkpoint of another problem is an error before anything is touched.

class ConstantsTest : public testing::Test {
 protected:
  using Register = std::function<void(Checkpoint&)>;

  /// A start that restores or begins, and saves.
  void run(const Register& add, ManagerOptions options = {}) {
    Checkpoint checkpoint;
    checkpoint.add_replicated("density", density);
    add(checkpoint);
    PreemptionCheckpointHandler handler(MPI_COMM_WORLD, checkpoint, directory, {}, std::move(options));
    handler.manager().save();
  }
  [[nodiscard]] std::string mismatch_of(const Register& add, const ManagerOptions& options = {}) {
    const SeenError error = same_error_on_all_ranks([&] { run(add, options); });
    EXPECT_EQ(error.code, ErrorCode::mismatch) << error.message;
    return error.message;
  }
  static void write_input(const fs::path& file, const std::string& text) {
    on_rank_0([&] { std::ofstream(file) << text; });
  }

  const SharedTemporaryDirectory temporary;
  const fs::path directory = temporary / "run";
  double density = 1;
};

TEST_F(ConstantsTest, AnotherValueIsAnErrorAndNothingIsTouched) {
  const auto with = [](double value, const char* name) {
    return [=](Checkpoint& checkpoint) {
      checkpoint.add_constant("input/density", value);
      checkpoint.add_constant("case", name);
      checkpoint.add_constant("cells", 100);
      checkpoint.add_constant("periodic", true);
    };
  };
  run(with(1.0, "tank"));
  run(with(1.0, "tank"));
  density = 5;
  EXPECT_THAT(mismatch_of(with(5.0, "tank")), AllOf(HasSubstr("'input/density': '1' when it was saved, '5' now"),
                                                    testing::Not(HasSubstr("'case'")), HasSubstr("ckpt-")));
  EXPECT_EQ(density, 5.0) << "nothing was restored";
  EXPECT_THAT(mismatch_of(with(2.0, "pipe")), AllOf(HasSubstr("'input/density'"), HasSubstr("'pipe' now")));
}

TEST_F(ConstantsTest, AnotherProblemIsNamedAlsoWhereItsVariablesDiffer) {
  int cells = 3;
  double mass = 3;
  run([&](Checkpoint& checkpoint) {
    checkpoint.add_constant("case", "tank");
    checkpoint.add_replicated("size", cells);
  });
  EXPECT_THAT(mismatch_of([&](Checkpoint& checkpoint) {
                checkpoint.add_constant("case", "pipe");
                checkpoint.add_replicated("size", mass);
              }),
              AllOf(HasSubstr("another problem"), HasSubstr("'tank' when it was saved, 'pipe' now")));
}

TEST_F(ConstantsTest, OlderFilesDoNotHaveThemAndThatIsNoError) {
  run([](Checkpoint&) {});
  run([](Checkpoint& checkpoint) { checkpoint.add_constant("case", std::string("tank")); });
  run([](Checkpoint&) {});
}

TEST_F(ConstantsTest, TheContentOfAFileCounts) {
  const fs::path input = temporary / "input.txt";
  const auto add = [&](Checkpoint& checkpoint) { checkpoint.add_constant_file("input", input); };
  write_input(input, "density 1.0\n");
  run(add);
  run(add);
  write_input(input, "density 5.0\n");
  EXPECT_THAT(mismatch_of(add), AllOf(HasSubstr("'input': 'xxh3:"), HasSubstr("of 12 bytes' now")));
  on_rank_0([&] { fs::remove(input); });
  EXPECT_EQ(same_error_on_all_ranks([&] { run(add); }).code, ErrorCode::io);
}

TEST_F(ConstantsTest, RanksMustAgree) {
  REPRIEVE_NEEDS_RANKS(2);
  EXPECT_THAT(
      mismatch_of([](Checkpoint& checkpoint) { checkpoint.add_constant("rank", world_rank() / (world_size() - 1)); }),
      HasSubstr("different constants"));
}

TEST_F(ConstantsTest, ATaskOfAnArrayDoesNotContinueFromAnother) {
  const auto none = [](Checkpoint&) {};
  ::setenv("SLURM_ARRAY_JOB_ID", "17", 1);
  ::setenv("SLURM_ARRAY_TASK_ID", "0", 1);
  run(none);
  ::setenv("SLURM_ARRAY_JOB_ID", "18", 1);
  run(none);
  ::setenv("SLURM_ARRAY_TASK_ID", "1", 1);
  EXPECT_THAT(mismatch_of(none), HasSubstr("'slurm array task': '0' when it was saved, '1' now"));
  ManagerOptions options;
  options.array_task_is_constant = false;
  run(none, options);
  ::unsetenv("SLURM_ARRAY_JOB_ID");
  ::unsetenv("SLURM_ARRAY_TASK_ID");
}

TEST_F(ConstantsTest, NamesAreChecked) {
  Checkpoint checkpoint;
  checkpoint.add_constant("a", 1);
  EXPECT_THROW(checkpoint.add_constant("a", 2), UsageError);
  EXPECT_THROW(checkpoint.add_constant("", 2), UsageError);
  checkpoint.add_replicated("a", density);  // other names
}

// A run that was finished makes no step twice, and can be given more steps.

class FinishedTest : public testing::Test {
 protected:
  /// Makes steps up to @p steps, saves at @p saved_at, and says that this was all.
  void finish(int steps, int saved_at) {
    Program program(directory);
    program.start();
    program.run(saved_at);
    program.handler->manager().save();
    program.run(steps);
    program.handler->finish();
  }
  const SharedTemporaryDirectory temporary;
  const fs::path directory = temporary / "run";
};

TEST_F(FinishedTest, WithItsLastStateThereIsNothingToDoButMoreSteps) {
  finish(10, 10);
  Program program(directory);
  program.start();
  EXPECT_EQ(program.handler->already_finished(), 10U);
  int calls = 0;
  program.run(10, [&](int) { ++calls; });
  EXPECT_EQ(calls, 0);
  program.run(15, [&](int) { ++calls; });
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(program.counter, 15);
}

TEST_F(FinishedTest, TheEndSavesTheLastStepUnlessACheckpointHoldsIt) {
  finish(12, 10);
  Program program(directory);
  program.start();
  EXPECT_EQ(program.handler->already_finished(), 12U);
  EXPECT_EQ(program.counter, 12);
  const auto saves = [&] { return program.handler->manager().latest().value().save; };
  const std::uint64_t before = saves();
  program.handler->finish();
  EXPECT_EQ(saves(), before) << "no step was made";
  program.handler.reset();
  program.start();
  program.run(14);
  program.handler->manager().save();
  program.handler->finish();
  EXPECT_EQ(saves(), before + 1);
}

TEST_F(FinishedTest, AStateThatIsTooLargeIsNotSavedAtTheEnd) {
  Program first(directory);
  first.config.save_at_finish = false;
  first.start();
  first.run(10);
  first.handler->manager().save();
  first.run(12);
  first.handler->finish();
  first.handler.reset();
  Program program(directory);
  program.start();
  EXPECT_FALSE(program.handler->already_finished().has_value());
  EXPECT_EQ(program.counter, 10);
  program.run(12);
  program.handler->finish();
}

TEST_F(FinishedTest, IsDecidedByAllHandlersOfADirectory) {
  {
    Program program(directory);
    program.start();
    PreemptionCheckpointHandler other(MPI_COMM_WORLD, program.handler->manager(), program.config);
    program.run(10);
    program.handler->finish();  // the other one has made no step
  }
  on_rank_0([&] {
    const auto log = core::read_events(directory / "events.jsonl");
    EXPECT_EQ(std::count_if(log.begin(), log.end(),
                            [](const auto& logged) { return std::holds_alternative<events::Finished>(logged.event); }),
              1);
  });
}

TEST_F(FinishedTest, ALaterSaveTakesTheMarkAway) {
  finish(10, 10);
  {
    Program program(directory);
    program.start();
    program.run(13);
    program.handler->manager().save();
    program.run(14);
  }
  Program program(directory);
  program.start();
  EXPECT_FALSE(program.handler->already_finished().has_value());
  EXPECT_EQ(program.handler->total_run_calls(), 13U);
}

TEST_F(FinishedTest, WhoRemovesTheNewestGoesBack) {
  finish(12, 10);
  on_rank_0([&] { fs::remove(directory / "ckpt-12.h5"); });
  Program program(directory);
  program.start();
  EXPECT_FALSE(program.handler->already_finished().has_value());
  EXPECT_EQ(program.handler->total_run_calls(), 10U);
}

TEST_F(FinishedTest, ASaveAfterTheEndStillHasTheCount) {
  Program program(directory);
  program.start();
  program.run(3);
  CheckpointManager& manager = program.handler->manager();
  EXPECT_EQ(manager.save().number, 3U);
  EXPECT_EQ(manager.latest().value().run_calls, 3U);
  program.handler->finish();
  EXPECT_EQ(manager.save(50).number, 50U) << "after the end the count is still known";
  EXPECT_EQ(manager.latest().value().run_calls, 3U);
}

}  // namespace
}  // namespace reprieve::test
