// SPDX-License-Identifier: BSD-3-Clause
// Units, descriptions and names of dimensions: compared between the ranks, kept in the file, no part of a restore.
// What other programs see of them: tests/python.

#include "handler_fixture.hpp"
#include "manager_fixture.hpp"
#include "storage_fixture.hpp"

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;

class Annotated : public StorageTest, public testing::WithParamInterface<WriterKind> {
 protected:
  Annotated() {
    const auto rank = static_cast<std::uint64_t>(world_rank());
    const auto ranks = static_cast<std::uint64_t>(world_size());
    checkpoint.add_distributed("field", field, {.global_shape = {ranks, 4}, .offset = {rank, 0}, .extent = {1, 4}});
    checkpoint.add_replicated("time", time);
    checkpoint.add_per_rank("list", list);
  }

  std::vector<double> field = std::vector<double>(4, world_rank());
  double time = 0.5;
  std::vector<int> list{1, 2};
  Checkpoint checkpoint;
};

TEST_P(Annotated, IsInTheFileAndItsVariablesComeBack) {
  const std::string description = "temperature of the air, \"2 m\" above\nthe ground: 20 \xC2\xB0";
  checkpoint.annotate("field", {.units = "K", .description = description, .dims = {"y", "x"}});
  checkpoint.annotate("list", {.dims = {"item"}});
  checkpoint.annotate("time", {.units = "s"});
  save(world, checkpoint, GetParam());
  on_rank_0([&] {
    EXPECT_TRUE(verify_file(file).empty());
    const auto variables = list_variables(file);
    EXPECT_EQ(*variables[0].annotation, (Annotation{"K", description, {"y", "x"}}));
    EXPECT_EQ(*variables[1].annotation, (Annotation{"", "", {"item"}}));
    EXPECT_EQ(*variables[2].annotation, (Annotation{"s", "", {}}));
  });
  field.assign(4, -1);
  list.clear();
  restore(world, checkpoint);
  EXPECT_EQ(field, std::vector<double>(4, world_rank()));
  EXPECT_EQ(list, (std::vector<int>{1, 2}));
}

TEST_P(Annotated, OtherUnitsAreRestoredWithAWarning) {
  checkpoint.annotate("time", {.units = "s", .description = "model time"});
  checkpoint.annotate("field", {.units = "K", .dims = {"y", "x"}});
  save(world, checkpoint, GetParam());
  checkpoint.annotate("time", {.units = "min", .description = "time"});
  checkpoint.annotate("field", {.dims = {"lat", "lon"}});
  time = 0;
  testing::internal::CaptureStderr();
  restore(world, checkpoint);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(time, 0.5);
  EXPECT_EQ(log.find("variable 'time': registered in units of 'min', stored in 's'") != std::string::npos,
            world_rank() == 0)
      << log;
  EXPECT_EQ(log.find("'field'"), std::string::npos) << log;
}

TEST_P(Annotated, AnotherOneIsInTheNextSave) {
  checkpoint.annotate("time", {.units = "s"});
  save(world, checkpoint, GetParam());
  checkpoint.annotate("time", {.units = "min"});
  save(world, checkpoint, GetParam());  // not with the layout of the first one
  on_rank_0([&] { EXPECT_EQ(list_variables(file)[2].annotation->units, "min"); });
}

/// So many that the list of those who are on the dimension is larger than HDF5's messages.
TEST_P(Annotated, ThousandsOfVariablesAreOnOneDimension) {
  if (GetParam() == WriterKind::mpio) {
    GTEST_SKIP() << "the layout is the same";
  }
  std::vector<std::array<float, 3>> values(4200);
  for (std::size_t v = 0; v < values.size(); ++v) {
    const std::string name = "many/" + std::to_string(v);
    checkpoint.add_replicated(name, values[v]);
    checkpoint.annotate(name, {.units = "m", .description = "number " + std::to_string(v), .dims = {"xyz"}});
  }
  save(world, checkpoint, WriterKind::direct);
  restore(world, checkpoint);
  on_rank_0([&] { EXPECT_TRUE(verify_file(file).empty()); });
}

INSTANTIATE_TEST_SUITE_P(Writers, Annotated, testing::Values(WriterKind::direct, WriterKind::mpio),
                         [](const auto& writer) { return writer.param == WriterKind::direct ? "direct" : "mpio"; });

using AnnotatedHandler = Annotated;

SeenError error_of_start(Checkpoint& checkpoint, const std::filesystem::path& directory) {
  return same_error([&] { const PreemptionCheckpointHandler handler(MPI_COMM_WORLD, checkpoint, directory, {}); });
}

TEST_P(AnnotatedHandler, RanksThatSayDifferentThingsAreReportedWhenItIsMade) {
  REPRIEVE_NEEDS_RANKS(2);
  checkpoint.annotate("time", {.units = world_rank() == 0 ? "s" : "min"});
  EXPECT_THAT(
      error_of_start(checkpoint, directory / "run"),
      is_error(ErrorCode::mismatch, "variable 'time': rank 1 annotated it with units 'min'", "rank 0 with units 's'"));
}

TEST_P(AnnotatedHandler, AWrongNumberOfDimensionsIsToldWhenItIsMade) {
  checkpoint.annotate("list", {.dims = {"item", "xyz"}});
  EXPECT_THAT(error_of_start(checkpoint, directory / "run"),
              is_error(ErrorCode::usage, "'list': 2 names of dimensions were given, but it has 1 dimensions"));
}

TEST_P(AnnotatedHandler, TextsThatAreNotUtf8AreToldWhenItIsMade) {
  checkpoint.annotate("list", {.description = "caf\xE9"});
  EXPECT_THAT(error_of_start(checkpoint, directory / "run"), is_error(ErrorCode::usage, "'list': the description"));
}

INSTANTIATE_TEST_SUITE_P(Writers, AnnotatedHandler, testing::Values(WriterKind::direct),
                         [](const auto&) { return "direct"; });

}  // namespace
}  // namespace reprieve::storage
