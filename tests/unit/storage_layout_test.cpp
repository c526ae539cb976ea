// SPDX-License-Identifier: BSD-3-Clause
// From the descriptions of all ranks to the plan of a file, and the file's index as bytes.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "storage/format/file_index.hpp"
#include "storage/format/layout.hpp"

namespace reprieve::storage {
namespace {

using state::Distribution;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ThrowsMessage;

constexpr ElementType kDouble{ElementClass::floating, 8};
constexpr ElementType kInt{ElementClass::signed_integer, 4};

Description replicated(std::string name, Extents shape, ElementType type = kDouble) {
  return {{std::move(name), Distribution::replicated, type, std::move(shape)}};
}
Description per_rank(std::string name, Extents shape) {
  return {{std::move(name), Distribution::per_rank, kDouble, std::move(shape)}};
}
Description distributed(std::string name, Extents shape, std::vector<Box> boxes) {
  return {{std::move(name), Distribution::distributed, kDouble, std::move(shape)}, std::move(boxes)};
}

using ByRank = std::vector<std::vector<Description>>;

FileIndex plan(const ByRank& by_rank) { return plan_file(by_rank, {}); }

TEST(PlanOfAFile, WritesReplicatedVariablesOnce) {
  const FileIndex index = plan({{replicated("a", {3})}, {replicated("a", {3})}});
  ASSERT_EQ(index.variables.size(), 1U);
  ASSERT_EQ(index.boxes.size(), 1U);
  EXPECT_EQ(to_extents(index.row(index.variables[0], 0).extent), (Extents{3}));
  EXPECT_EQ(index.metadata.world_size, 2);
  EXPECT_EQ(index.metadata.format_version, 1) << "what older versions of the library read, they shall read";
  EXPECT_EQ(index.state_bytes(), 24U);
}

TEST(PlanOfAFile, LaysPerRankValuesOneAfterTheOther) {
  const FileIndex index = plan({{per_rank("p", {2, 3})}, {per_rank("p", {0, 3})}, {per_rank("p", {1, 3})}});
  const StoredVariable& variable = index.variables[0];
  EXPECT_EQ(variable.shape, (Extents{9}));
  EXPECT_EQ(variable.piece_dimensions, 2U);
  ASSERT_EQ(variable.box_count, 3U);
  EXPECT_EQ(to_extents(index.row(variable, 1).extent), (Extents{0, 3}));
  EXPECT_EQ(to_extents(index.row(variable, 2).offset), (Extents{6}));
  EXPECT_EQ(FileIndex::dataset_box(variable, index.row(variable, 2)), (Box{{6}, {3}}));
  EXPECT_EQ(index.checksums.size(), 2U);  // the empty value has no block
}

TEST(PlanOfAFile, CountsOneChecksumPerBlock) {
  const std::uint64_t elements = kMaxBlockBytes / 8 * 2 + 1;
  const FileIndex index = plan({{replicated("a", {elements}), replicated("b", {})}});
  EXPECT_EQ(index.checksums.size(), 4U);
  EXPECT_EQ(index.row(index.variables[1], 0).first_checksum, 3U);
}

TEST(PlanOfAFile, ListsEveryDifferenceBetweenTheRanks) {
  const ByRank by_rank{{replicated("a", {3}), replicated("b", {3}), replicated("c", {3}), per_rank("d", {1})},
                       {replicated("a", {4}), replicated("b", {3}, kInt), per_rank("c", {3}), per_rank("d", {})}};
  EXPECT_THAT([&] { plan(by_rank); },
              ThrowsMessage<MismatchError>(AllOf(
                  HasSubstr("'a': rank 1 has the shape [4], rank 0 has [3]"),
                  HasSubstr("'b': rank 1 has elements of type int32, rank 0 of float64"),
                  HasSubstr("'c': rank 1 registered it as per_rank, rank 0 as replicated"), HasSubstr("'d': rank 1"))));
}

TEST(PlanOfAFile, NamesTheRanksThatMissAVariable) {
  EXPECT_THAT(
      [] {
        plan({{replicated("a", {}), replicated("z", {})}, {replicated("z", {})}, {replicated("b", {})}});
      },
      ThrowsMessage<MismatchError>(AllOf(HasSubstr("'a': rank 1 did not"), HasSubstr("'a': rank 2 did not"),
                                         HasSubstr("'b': rank 0 did not"), HasSubstr("'z': rank 2 did not"),
                                         Not(HasSubstr("'z': rank 1")))));
}

TEST(PlanOfAFile, RefusesOverlappingBoxesInEachOfSeveralVariables) {
  for (const std::size_t corrupt : {0U, 1U, 2U}) {
    ByRank by_rank(2);
    for (const char* name : {"a", "b", "c"}) {
      by_rank[0].push_back(distributed(name, {8, 8}, {{{0, 0}, {4, 8}}}));
      by_rank[1].push_back(distributed(name, {8, 8}, {{{4, 0}, {2, 8}}}));
    }
    EXPECT_NO_THROW(plan(by_rank));
    by_rank[1][corrupt].boxes.push_back({{3, 6}, {1, 2}});
    EXPECT_THAT([&] { plan(by_rank); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr("'" + by_rank[0][corrupt].name + "'"),
                                                HasSubstr("[0:4, 0:8] of rank 0"), HasSubstr("[3:4, 6:8] of rank 1"),
                                                HasSubstr("overlap in [3:4, 6:8]"))));
  }
}

TEST(Gaps, AreWhatIsNotTaken) {
  EXPECT_THAT(gaps_between({{50, 10}, {20, 5}, {0, 0}, {60, 10}}, 10, 100),
              ElementsAre(testing::FieldsAre(10U, 10U), testing::FieldsAre(25U, 25U), testing::FieldsAre(70U, 30U)));
}

/// An index as it would be read from a file, to be corrupt on purpose.
class IndexOfAFile : public testing::Test {
 protected:
  IndexOfAFile() {
    FileMetadata metadata;
    metadata.number = 12;
    metadata.run_calls = 345;
    metadata.time_us = -5;
    metadata.reason = {SaveReason::Kind::preemption, 1, "node7", "signal SIGTERM", "bad \xff text"};
    index_ = plan_file({{distributed("grid", {8, 8}, {{{0, 0}, {4, 8}}}), per_rank("p", {2}), replicated("r", {})},
                        {distributed("grid", {8, 8}, {{{4, 0}, {4, 8}}}), per_rank("p", {3}), replicated("r", {})}},
                       metadata);
    index_.file_size = 10000;
    std::uint64_t offset = 5000;
    for (StoredVariable& variable : index_.variables) {
      variable.file_offset = offset;
      offset += variable.bytes();
    }
    manifest_ = nlohmann::json::parse(encode_manifest(index_));
    boxes_.assign(index_.boxes.words().begin(), index_.boxes.words().end());
    checksums_.assign(index_.checksums.begin(), index_.checksums.end());
  }

  [[nodiscard]] FileIndex parse(Rows rows = Rows::unknown) const {
    return parse_index({{index_.file_size, {}, {}, {}},
                        SharedWords(boxes_),
                        SharedWords(checksums_),
                        core::to_bytes(manifest_.dump())},
                       "x.h5", rows);
  }

  void expect_refused(const std::string& reason) const {
    EXPECT_THAT([&] { static_cast<void>(parse()); },
                ThrowsMessage<CorruptError>(AllOf(HasSubstr("x.h5"), HasSubstr(reason))));
  }

  FileIndex index_;
  nlohmann::json manifest_;
  std::vector<std::uint64_t> boxes_;
  std::vector<std::uint64_t> checksums_;
};

TEST_F(IndexOfAFile, SurvivesTheFile) {
  const FileIndex parsed = parse();
  EXPECT_EQ(parsed.metadata.number, 12U);
  EXPECT_EQ(parsed.metadata.run_calls, 345U);
  EXPECT_EQ(parsed.metadata.world_size, 2);
  EXPECT_EQ(parsed.metadata.time_us, -5);
  EXPECT_EQ(parsed.metadata.reason.kind, SaveReason::Kind::preemption);
  EXPECT_EQ(parsed.metadata.reason.host, "node7");
  EXPECT_EQ(parsed.metadata.reason.message, "bad \xef\xbf\xbd text");
  ASSERT_EQ(parsed.variables.size(), 3U);
  EXPECT_EQ(parsed.variables[0].shape, (Extents{8, 8}));
  EXPECT_EQ(parsed.variables[0].box_count, 2U);
  EXPECT_EQ(to_extents(parsed.row(parsed.variables[0], 1).offset), (Extents{4, 0}));
  EXPECT_EQ(to_extents(parsed.row(parsed.variables[1], 1).extent), (Extents{3}));
  ASSERT_NE(parsed.find("p"), nullptr);
  EXPECT_EQ(parsed.find("q"), nullptr);
}

TEST_F(IndexOfAFile, MustHaveSensibleVariables) {
  const auto corrupt = [&](const char* key, const nlohmann::json& value, const std::string& reason) {
    const auto valid = manifest_;
    manifest_["variables"][0][key] = value;
    expect_refused(reason);
    manifest_ = valid;
  };
  corrupt("file_offset", 9999, "outside of the file");
  corrupt("file_offset", 18446744073709551615ULL, "outside of the file");
  corrupt("file_offset", -1, "integer is expected");
  corrupt("file_offset", 1.5, "integer is expected");
  corrupt("file_offset", 5100, "share bytes");
  corrupt("shape", {4294967296, 4294967296}, "impossible shape");
  corrupt("shape", {8}, "more dimensions than the variable");
  corrupt("shape", {8, 7}, "not inside of its dataset");
  corrupt("shape", {1, 1, 1}, "more dimensions");
  corrupt("size_bytes", 0, "element size 0");
  corrupt("class", "imaginary", "unknown name 'imaginary'");
  corrupt("distribution", 7, "");
  corrupt("name", "zzz", "order of names");
  corrupt("piece_dimensions", 3, "more dimensions");
  corrupt("tile", {4, 4}, "impossible chunks");
  corrupt("tile", {4}, "impossible chunks");
  corrupt("tile", {8, 8}, "impossible chunks");
  corrupt("tile", {0, 8}, "impossible chunks");
  corrupt("tile", {9, 1}, "impossible chunks");
  corrupt("tile", nlohmann::json::array(), "chunks without a shape");
  corrupt("tile", 7, "list of integers is expected");
  corrupt("tile", {-1, 8}, "integer is expected");
  corrupt("compressed", true, "compressed without chunks");
}

TEST_F(IndexOfAFile, MustHaveAsManyChecksumsAsChunks) {
  manifest_["variables"][0]["shape"] = {1 << 20U, 1024};
  manifest_["variables"][0]["tile"] = {1, 512};
  index_.file_size = 1ULL << 40U;
  boxes_[5] = 1 << 20U;  // the extent of the first box
  boxes_[6] = 1024;
  expect_refused("another format version");
  manifest_["format_version"] = 2;
  expect_refused("fewer checksums than chunks");  // before there is memory for each
  manifest_["variables"][0]["compressed"] = true;
  expect_refused("another format version");
  manifest_["format_version"] = 3;
  expect_refused("not one size for each checksum");
  manifest_["variables"][0]["tile"] = {1 << 10U, 1024};
  expect_refused("compressed chunks that are too large");
}

TEST_F(IndexOfAFile, MustHaveSensibleBoxes) {
  const std::size_t words = index_.boxes.row_words();
  const auto corrupt = [&](std::size_t row, std::size_t word, std::uint64_t value, const std::string& reason) {
    const auto valid = boxes_;
    boxes_[row * words + word] = value;
    expect_refused(reason);
    boxes_ = valid;
  };
  corrupt(0, 0, 1, "");
  corrupt(4, 0, 7, "not one value");
  corrupt(3, 0, 7, "not one value for each rank");
  corrupt(0, 1, 2, "impossible rank");
  corrupt(2, 1, 1, "ranks are not in order");
  corrupt(1, 2, 0, "wrong place in the checksums");
  corrupt(1, 3, 5, "not inside");
  corrupt(1, 3, 18446744073709551615ULL, "not inside");
  corrupt(1, 5, 1ULL << 62U, "impossible box");
  std::swap(boxes_[1], boxes_[words + 1]);  // of an array too: a rank's rows are found by halving
  expect_refused("ranks are not in order");
  boxes_.pop_back();
  expect_refused("cut short");
}

TEST_F(IndexOfAFile, MustHaveOneChecksumPerBlockAndBeJson) {
  checksums_.push_back(0);
  expect_refused("more checksums than blocks");
  checksums_.resize(2);
  expect_refused("fewer checksums than blocks");
  EXPECT_THROW(static_cast<void>(parse_index({{100, {}, {}, {}}, {}, {}, Bytes(10)}, "x.h5")), CorruptError);
}

/// As all ranks of a node but one do: that one has checked the rows.
TEST_F(IndexOfAFile, FindsRowsThatAreCheckedWithoutLookingAtThemAll) {
  boxes_[index_.boxes.row_words() + 3] = 5;  // the second row of the grid would lie outside of it
  const FileIndex parsed = parse(Rows::checked);
  for (std::size_t v = 0; v < index_.variables.size(); ++v) {
    EXPECT_EQ(parsed.variables[v].first_box, index_.variables[v].first_box);
    EXPECT_EQ(parsed.variables[v].box_count, index_.variables[v].box_count);
  }
  boxes_.pop_back();
  EXPECT_THROW(static_cast<void>(parse(Rows::checked)), CorruptError);
}

TEST_F(IndexOfAFile, FindsTheRowsOfRanks) {
  const FileIndex index = plan({{distributed("grid", {6}, {{{0}, {1}}, {{1}, {1}}})},
                                {distributed("grid", {6}, {})},
                                {distributed("grid", {6}, {{{2}, {1}}, {{3}, {1}}, {{4}, {1}}})}});
  const auto rows = [&](std::uint64_t first, std::uint64_t end) {
    const RowRange range = index.rows_of(index.variables[0], first, end);
    return std::vector<std::size_t>{range.begin, range.end};
  };
  EXPECT_EQ(rows(0, 1), (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(rows(1, 2), (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(rows(1, 3), (std::vector<std::size_t>{2, 5}));
  EXPECT_EQ(rows(3, 9), (std::vector<std::size_t>{5, 5}));
}

TEST_F(IndexOfAFile, MustHaveEveryRanksValue) {
  manifest_["world_size"] = 3;
  expect_refused("not one value for each rank");
  manifest_["world_size"] = 0;
  expect_refused("no ranks");
  manifest_["box_dimensions"] = 1ULL << 60U;
  manifest_["world_size"] = 2;
  expect_refused("impossible number of dimensions");
}

// Names of dimensions: which datasets stand for them, and who refers to them.

class Scales : public testing::Test {
 protected:
  StoredVariable& add(std::string name, Extents shape, std::vector<std::string> dims = {},
                      Distribution distribution = Distribution::distributed) {
    StoredVariable& variable = index_.variables.emplace_back();
    variable.name = std::move(name);
    variable.distribution = distribution;
    variable.type = {ElementClass::floating, 8};
    variable.shape = std::move(shape);
    variable.annotation = Annotation{.dims = std::move(dims)};
    return variable;
  }

  /// "path[length]: variable.dimension ..."; a `*` for those that have coordinates. Variables are added in order.
  [[nodiscard]] std::vector<std::string> plan() const {
    std::vector<std::string> lines;
    for (const DimensionScale& scale : plan_scales(index_)) {
      std::string line = scale.path + (scale.is_variable ? "*" : "") + "[" + std::to_string(scale.length) + "]:";
      for (const auto& use : scale.uses) {
        line += " " + index_.variables[use.variable].name + "." + std::to_string(use.dimension);
      }
      lines.push_back(line);
    }
    return lines;
  }

  FileIndex index_;
};

TEST_F(Scales, AreSharedByAllThatNameThem) {
  add("a", {3, 4});
  add("b", {});
  EXPECT_THAT(plan(), IsEmpty()) << "these name none";
  add("p", {3, 4}, {"y", "x"});
  add("t", {4, 3}, {"x", "y"});
  EXPECT_THAT(plan(), ElementsAre("x[4]: p.1 t.0", "y[3]: p.0 t.1"));
}

TEST_F(Scales, OfAVariableOfThatNameHasCoordinates) {
  add("fields/t", {3, 4}, {"y", "x"});
  add("x", {4}, {}, Distribution::replicated);
  add("y", {3}, {"y"});
  EXPECT_THAT(plan(), ElementsAre("x*[4]: fields/t.1", "y*[3]: fields/t.0"));
}

TEST_F(Scales, AreNotVariablesThatMeanSomethingElse) {
  add("n", {4}, {"i"});                             // on another dimension itself
  add("rank", {4}, {}, Distribution::per_rank);     // every rank's own
  add("t", {4, 4, 4, 5}, {"n", "rank", "w", "x"});  // `w` has two dimensions, `x` another length
  add("w", {4, 4});
  add("x", {6});
  EXPECT_THAT(plan(), ElementsAre("i[4]: n.0", "n_4[4]: t.0", "rank_4[4]: t.1", "w_4[4]: t.2", "x_5[5]: t.3"));
}

TEST_F(Scales, OfOneNameAndSeveralLengthsAreSeveral) {
  add("cells", {4}, {"x"});
  add("nodes", {5}, {"x"});
  add("x_5", {2});
  EXPECT_THAT(plan(), ElementsAre("x[4]: cells.0", "x_5_[5]: nodes.0"));
}

TEST_F(Scales, BelongToAComponent) {
  add("air/t", {4}, {"x"});
  add("air/x/velocity", {4}, {"x"});
  add("sea/t", {7}, {"x"});
  EXPECT_THAT(plan(), ElementsAre("air/x/x[4]: air/x/velocity.0", "air/x_4[4]: air/t.0", "sea/x[7]: sea/t.0"));
}

TEST_F(Scales, OfListsOfRanksAreOnlyThoseOfOneDimension) {
  add("flat", {12}, {"item", "xyz"}, Distribution::per_rank).piece_dimensions = 2;
  add("list", {12}, {"item"}, Distribution::per_rank).piece_dimensions = 1;
  add("text", {5}, {"letter"}, Distribution::replicated).type = {ElementClass::text, 1};
  EXPECT_THAT(plan(), ElementsAre("item[12]: list.0"));
}

}  // namespace
}  // namespace reprieve::storage
