// SPDX-License-Identifier: BSD-3-Clause
// What is in memory after a restore that passed a checkpoint over, or failed: one checkpoint or none, never a mixture.

#include <array>
#include <cstring>
#include <utility>

#include "core/log.hpp"
#include "manager_fixture.hpp"

namespace reprieve::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kMarker = 1234.56789;

/// A program in two versions: the newer one has a variable that the older one lacks.
class HalfRestored : public ManagerTest {
 protected:
  struct Program {
    explicit Program(bool is_newer) {
      checkpoint.add_replicated("step", step);
      if (is_newer) {
        checkpoint.add_replicated("extra", extra);
        checkpoint.allow_missing("extra");
      }
      checkpoint.add_distributed("field", field.data(),
                                 {{kPart * static_cast<std::uint64_t>(world_size())},
                                  {kPart * static_cast<std::uint64_t>(world_rank())},
                                  {kPart}});
    }
    void set(int value) {
      step = value;
      extra = value;
      field.fill(value + kMarker);
    }

    static constexpr std::uint64_t kPart = 64;
    Checkpoint checkpoint;
    int step = -1;
    int extra = -1;
    std::array<double, kPart> field{};
  };

  CheckpointManager manage(Program& program) const {
    return {MPI_COMM_WORLD, program.checkpoint, directory, {.max_to_keep = 0}};
  }

  void save(Program& program, int number) const {
    CheckpointManager manager = manage(program);
    program.set(number);
    CheckpointManager::SaveRequest request;
    request.number = static_cast<std::uint64_t>(number);
    request.run_calls = static_cast<std::uint64_t>(10 * number);
    manager.save(request);
  }

  /// Checkpoint 1 of the older version, 2 of the newer one.
  void save_both_versions() const {
    Program older(false);
    save(older, 1);
    Program newer(true);
    save(newer, 2);
  }

  /// A restore that fails when it has overwritten the values; the next one does not.
  static void half_restore(CheckpointManager& manager, Program& program) {
    program.checkpoint.when_values_restored([failed = false]() mutable {
      if (!std::exchange(failed, true)) {
        throw std::runtime_error("not yet");
      }
    });
    EXPECT_THAT(same_error_on_all_ranks([&] { manager.restore_or_initialize(); }).message, HasSubstr("overwritten"));
  }
  void half_restore(Program& program) const {
    CheckpointManager manager = manage(program);
    half_restore(manager, program);
  }

  /// Makes one element of the field wrong, which is stored by the last rank.
  void corruption_field(int number) const {
    on_rank_0([&] {
      const std::filesystem::path file = directory / ("ckpt-" + std::to_string(number) + ".h5");
      std::string content = read_text(file);
      const double value = number + kMarker;
      std::string element(sizeof value, '\0');
      std::memcpy(element.data(), &value, sizeof value);
      const auto place = content.rfind(element);
      ASSERT_NE(place, std::string::npos);
      content[place] = static_cast<char>(~content[place]);
      std::ofstream(file, std::ios::binary) << content;
    });
  }

  [[nodiscard]] std::string events() const {
    MPI_Barrier(MPI_COMM_WORLD);
    return read_text(directory / "events.jsonl");
  }

  /// Checkpoint 1 has a variable that the program no longer has; 2 is corrupt.
  void save_after_another_state(bool is_newer) const {
    Program older(false);
    double surplus = 0;
    older.checkpoint.add_replicated("surplus", surplus);
    save(older, 1);
    Program newer(is_newer);
    save(newer, 2);
    corruption_field(2);
  }

  void SetUp() override { core::log::set_level("off"); }
  void TearDown() override { core::log::set_level("info"); }  // other tests look at what is logged
};

TEST_F(HalfRestored, AVariableThatTheOlderOneLacksKeepsItsInitialValue) {
  save_both_versions();
  corruption_field(2);
  Program restarted(true);
  CheckpointManager manager = manage(restarted);
  const auto info = manager.restore_or_initialize();
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->number, 1U);
  EXPECT_EQ(restarted.step, 1);
  EXPECT_EQ(restarted.extra, -1);
  EXPECT_THAT(events(), AllOf(HasSubstr(R"("fallback")"), HasSubstr(R"("steps_lost":10)"),
                              HasSubstr(R"("instead_of":"ckpt-2.h5")")));
}

TEST_F(HalfRestored, AMismatchOfTheOlderOneTouchesNothing) {
  save_after_another_state(true);
  Program restarted(true);
  CheckpointManager manager = manage(restarted);
  const SeenError error = same_error_on_all_ranks([&] { manager.restore_or_initialize(); });
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message, AllOf(HasSubstr("surplus"), Not(HasSubstr("overwritten"))));
  EXPECT_EQ(restarted.step, -1);
  EXPECT_EQ(restarted.extra, -1);
  EXPECT_EQ(restarted.field[0], 0.0);
}

TEST_F(HalfRestored, OnePassIsEnoughWhereNothingOptionalIsRegistered) {
  Program program(false);
  save(program, 1);
  save(program, 2);
  {
    Program restarted(true);
    EXPECT_EQ(manage(restarted).restore_or_initialize()->number, 2U);
    EXPECT_THAT(events(), AllOf(HasSubstr(R"("pass":"verified")"), Not(HasSubstr(R"("pass":"single")"))));
  }
  {
    Program restarted(false);
    EXPECT_EQ(manage(restarted).restore_or_initialize()->number, 2U);
    EXPECT_THAT(events(), HasSubstr(R"("pass":"single")"));
  }
  corruption_field(2);
  Program restarted(false);
  EXPECT_EQ(manage(restarted).restore_or_initialize()->number, 1U);
  EXPECT_EQ(restarted.step, 1);
  EXPECT_EQ(restarted.field[0], 1 + kMarker);
}

/// The one pass has found the corrupt block when variables were overwritten already.
TEST_F(HalfRestored, AnOlderOneOfAnotherStateIsFinalAfterOnePass) {
  save_after_another_state(false);
  Program restarted(false);
  CheckpointManager manager = manage(restarted);
  EXPECT_THAT(same_error_on_all_ranks([&] { manager.restore_or_initialize(); }),
              is_error(ErrorCode::mismatch, "surplus", "overwritten"));
  EXPECT_EQ(same_error_on_all_ranks([&] { manager.save(3); }).code, ErrorCode::usage);
}

/// To look where a vector lies is no function of the user's that must not see a corrupt file.
TEST_F(HalfRestored, OnePassIsEnoughForVectors) {
  const auto rank = static_cast<std::uint64_t>(world_rank());
  const DistributedLayout layout{
      .global_shape = {3 * static_cast<std::uint64_t>(world_size())}, .offset = {3 * rank}, .extent = {3}};
  std::vector<double> values(3, 7.5);
  Program program(false);
  program.checkpoint.add_distributed("values", values, layout);
  save(program, 1);
  save(program, 2);
  std::vector<double> restored(3);
  Program restarted(false);
  restarted.checkpoint.add_distributed("values", restored, layout);
  EXPECT_EQ(manage(restarted).restore_or_initialize()->number, 2U);
  EXPECT_THAT(events(), HasSubstr(R"("pass":"single")"));
  EXPECT_EQ(restored, values);
}

TEST_F(HalfRestored, WhatIsLeftOfTheOnlyOneIsNeitherInitialisedNorSaved) {
  Program program(true);
  save(program, 1);
  corruption_field(1);
  Program restarted(true);
  CheckpointManager manager = manage(restarted);
  const auto never = [] { ADD_FAILURE() << "initialized over a part of a checkpoint"; };
  EXPECT_THAT(same_error_on_all_ranks([&] { manager.restore_or_initialize(never); }),
              is_error(ErrorCode::corrupt, "ckpt-1.h5", "overwritten", "start the program"));
  EXPECT_EQ(same_error_on_all_ranks([&] { manager.save(2); }).code, ErrorCode::usage);
  CheckpointManager::SaveRequest request;
  request.number = 2;
  EXPECT_EQ(same_error_on_all_ranks([&] { manager.save_in_background(request); }).code, ErrorCode::usage);
  on_rank_0([&] { std::filesystem::remove(directory / "ckpt-1.h5"); });
  EXPECT_EQ(same_error_on_all_ranks([&] { manager.restore_or_initialize(never); }).code, ErrorCode::usage);
  EXPECT_EQ(names(), Names{});
}

TEST_F(HalfRestored, AFunctionOfTheUserThatThrowsIsFinal) {
  Program program(true);
  save(program, 1);
  save(program, 2);
  Program restarted(true);
  const int last = world_size() - 1;
  restarted.checkpoint.when_values_restored([&] {
    if (world_rank() == last) {
      throw CorruptError("my mesh makes no sense");
    }
  });
  CheckpointManager manager = manage(restarted);
  const SeenError error = same_error_on_all_ranks([&] { manager.restore_or_initialize(); });
  EXPECT_EQ(error.origin_rank, last);
  EXPECT_THAT(error.message, AllOf(HasSubstr("my mesh makes no sense"), HasSubstr("overwritten")));
  EXPECT_EQ(restarted.step, 2);
  EXPECT_EQ(same_error_on_all_ranks([&] { manager.save(3); }).code, ErrorCode::usage);
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5"}));
}

TEST_F(HalfRestored, ASecondTryDoesNotForgetWhatTheFirstHasOverwritten) {
  save_both_versions();
  Program restarted(true);
  CheckpointManager manager = manage(restarted);
  half_restore(manager, restarted);
  EXPECT_EQ(restarted.extra, 2);
  corruption_field(2);
  EXPECT_THAT(same_error_on_all_ranks([&] { manager.restore_or_initialize(); }),
              is_error(ErrorCode::mismatch, "'extra'", "ckpt-1.h5", "overwritten"));
  EXPECT_EQ(same_error_on_all_ranks([&] { manager.save(3); }).code, ErrorCode::usage);
}

TEST_F(HalfRestored, ASecondManagerKnowsWhatTheFirstHasOverwritten) {
  save_both_versions();
  Program restarted(true);
  half_restore(restarted);
  CheckpointManager elsewhere(MPI_COMM_WORLD, restarted.checkpoint, directory / "elsewhere");
  EXPECT_EQ(same_error_on_all_ranks([&] { elsewhere.save(1); }).code, ErrorCode::usage);
  EXPECT_EQ(same_error_on_all_ranks([&] { elsewhere.restore_or_initialize(); }).code, ErrorCode::usage);
  corruption_field(2);
  CheckpointManager second = manage(restarted);
  EXPECT_THAT(same_error_on_all_ranks([&] { second.restore_or_initialize(); }),
              is_error(ErrorCode::mismatch, "'extra'", "ckpt-1.h5", "overwritten"));
}

TEST_F(HalfRestored, AComponentBringsAlongWhatWasOverwritten) {
  Program program(true);
  save(program, 1);
  Program restarted(true);
  half_restore(restarted);
  Checkpoint whole;
  whole.add_component("part", std::move(restarted.checkpoint));
  CheckpointManager manager(MPI_COMM_WORLD, whole, directory / "elsewhere");
  EXPECT_EQ(same_error_on_all_ranks([&] { manager.save(1); }).code, ErrorCode::usage);
}

TEST_F(HalfRestored, AManagerThatRestoresAllOfItMakesTheStateWholeAgain) {
  Program program(true);
  save(program, 1);
  Program restarted(true);
  half_restore(restarted);
  EXPECT_EQ(manage(restarted).restore_or_initialize()->number, 1U);
  EXPECT_NO_THROW(manage(restarted).save(2));
}

TEST_F(HalfRestored, FunctionsRunOnlyWhenTheFileIsProven) {
  Program program(true);
  save(program, 1);
  save(program, 2);
  corruption_field(2);
  Program restarted(true);
  std::vector<int> steps;
  restarted.checkpoint.when_values_restored([&] { steps.push_back(restarted.step); });
  EXPECT_EQ(manage(restarted).restore_or_initialize()->number, 1U);
  EXPECT_THAT(steps, ElementsAre(1));
  EXPECT_THAT(events(), HasSubstr(R"("pass":"single")"));  // of the last one that there is
}

TEST_F(HalfRestored, AChosenFileThatIsCorruptTouchesNothing) {
  Program program(true);
  save(program, 1);
  corruption_field(1);
  Program restarted(true);
  CheckpointManager manager = manage(restarted);
  const SeenError error = same_error_on_all_ranks([&] { manager.restore(directory / "ckpt-1.h5"); });
  EXPECT_EQ(error.code, ErrorCode::corrupt);
  EXPECT_EQ(restarted.step, -1);
  EXPECT_EQ(restarted.extra, -1);
  restarted.set(5);
  EXPECT_EQ(manager.save(5).number, 5U);
}

/// The order in which a restore calls the functions of a program, with one more registered or not.
class RestoreOrder : public ManagerTest, public testing::WithParamInterface<bool> {
 protected:
  struct Program {
    explicit Program(bool with_other) {
      checkpoint.add_replicated("step", step);
      checkpoint.add_per_rank("mine", mine, [this](const PerRankPieces&, int, int, int&) { calls += "redistribute "; });
      checkpoint.add_distributed("array", [this] {
        calls += "describe ";
        DistributedArray array{element_type_of<double>(), {2}, {}};
        if (rank == 0) {
          array.boxes.push_back({reinterpret_cast<std::byte*>(field.data()), {0}, {2}, {}});
        }
        return array;
      });
      checkpoint.add_replicated("added", added);
      checkpoint.allow_missing("added");
      checkpoint.on_migration([this](const StoredState&) { calls += "migrate "; });
      if (with_other) {
        checkpoint.when_values_restored([this] { calls += "values "; });
      }
    }
    int rank = 0;
    int step = 0;
    int mine = 0;
    int added = 0;
    std::array<double, 2> field{};
    std::string calls;
    Checkpoint checkpoint;
  };
};

INSTANTIATE_TEST_SUITE_P(Manager, RestoreOrder, testing::Bool());

TEST_P(RestoreOrder, IsAlwaysTheSame) {
  REPRIEVE_NEEDS_RANKS(2);
  on_rank_0([&] {  // a checkpoint of one rank, without the variable that was added
    Program program(false);
    Checkpoint old;
    old.add_replicated("step", program.step);
    old.add_per_rank("mine", program.mine);
    old.add_distributed("array", program.field.data(), {{2}, {0}, {2}});
    CheckpointManager(MPI_COMM_SELF, old, directory).save(1);
  });
  Program program(GetParam());
  program.rank = world_rank();
  CheckpointManager manager(MPI_COMM_WORLD, program.checkpoint, directory);
  ASSERT_TRUE(manager.restore_or_initialize().has_value());
  EXPECT_EQ(program.calls, GetParam() ? "redistribute values describe migrate " : "redistribute describe migrate ");
}

TEST_P(RestoreOrder, AMismatchListsValuesAndArraysBeforeAnythingIsTouched) {
  std::array<double, 2> field{};
  const auto rank = static_cast<std::uint64_t>(world_rank());
  const auto layout = [&](std::uint64_t rows) { return DistributedLayout{{rows, 2}, {rank, 0}, {1, 2}}; };
  int step = 1;
  {
    Checkpoint old;
    old.add_replicated("step", step);
    old.add_distributed("field", field.data(), layout(static_cast<std::uint64_t>(world_size())));
    CheckpointManager(MPI_COMM_WORLD, old, directory).save(1);
  }
  Checkpoint checkpoint;
  double step_as_double = -1;
  checkpoint.add_replicated("step", step_as_double);
  checkpoint.add_distributed("field", field.data(), layout(static_cast<std::uint64_t>(world_size()) + 3));
  if (GetParam()) {
    checkpoint.when_values_restored([] { ADD_FAILURE() << "called for a checkpoint that does not fit"; });
  }
  CheckpointManager manager(MPI_COMM_WORLD, checkpoint, directory);
  const SeenError error = same_error_on_all_ranks([&] { manager.restore_or_initialize(); });
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message, AllOf(HasSubstr("'step'"), HasSubstr("'field'"), Not(HasSubstr("overwritten"))));
  EXPECT_EQ(step_as_double, -1);
}

class UnreachableTest : public ManagerTest {
 protected:
  void expect_refusal(CheckpointManager& manager, const std::string& name) {
    state.set(99);
    const SeenError error = same_error_on_all_ranks(
        [&] { manager.restore_or_initialize([] { ADD_FAILURE() << "began again beside a checkpoint"; }); });
    EXPECT_EQ(error.code, ErrorCode::io);
    EXPECT_THAT(error.message, AllOf(HasSubstr(name), HasSubstr("move it away")));
    expect_state(99);
  }
};

TEST_F(UnreachableTest, ALinkIntoAnArchiveThatIsNotMountedEndsTheStart) {
  CheckpointManager manager = open();
  on_rank_0([&] { std::filesystem::create_symlink(temporary / "archive/ckpt-7.h5", directory / "ckpt-7.h5"); });
  expect_refusal(manager, "ckpt-7.h5");
  save_each(manager, {1});
  expect_refusal(manager, "ckpt-7.h5");
  on_rank_0([&] { std::filesystem::remove(directory / "ckpt-7.h5"); });
  EXPECT_EQ(manager.restore_or_initialize()->number, 1U);
}

TEST_F(UnreachableTest, ALinkThatCanBeFollowedIsACheckpoint) {
  CheckpointManager manager = open();
  save_each(manager, {1, 2});
  on_rank_0([&] {
    std::filesystem::create_directory(temporary / "archive");
    std::filesystem::rename(directory / "ckpt-2.h5", temporary / "archive/ckpt-2.h5");
    std::filesystem::create_symlink(temporary / "archive/ckpt-2.h5", directory / "ckpt-2.h5");
  });
  state.set(99);
  EXPECT_EQ(manager.restore_or_initialize()->number, 2U);
  expect_state(2);
}

TEST_F(UnreachableTest, OnlyCorruptOnesThatWereQuarantinedAreNoNewRun) {
  CheckpointManager manager = open();
  on_rank_0([&] {
    write_text(directory / "other-3.h5.corrupt", "of another program");
    write_text(directory / "ckpt-x.h5.corrupt", "no checkpoint");
  });
  EXPECT_FALSE(manager.restore_or_initialize().has_value());
  on_rank_0([&] { write_text(directory / "ckpt-3.h5.corrupt.2", "corruption"); });
  EXPECT_THAT(same_error_on_all_ranks([&] { manager.restore_or_initialize(); }),
              is_error(ErrorCode::corrupt, "ckpt-3.h5.corrupt.2", "unquarantine"));
}

}  // namespace
}  // namespace reprieve::test
