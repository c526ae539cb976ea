// SPDX-License-Identifier: BSD-3-Clause
// What a run is about: a checkpoint of another problem is an error before anything is touched.

#include <cstdlib>

#include "handler_fixture.hpp"
#include "manager_fixture.hpp"

namespace reprieve::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

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
    on_chief([&] { std::ofstream(file) << text; });
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
  on_chief([&] { fs::remove(input); });
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

}  // namespace
}  // namespace reprieve::test
