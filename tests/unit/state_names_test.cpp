// SPDX-License-Identifier: BSD-3-Clause
// Names of variables, and the tree that they form.

#include <gmock/gmock.h>

#include <array>
#include <string>
#include <vector>

#include "reprieve/checkpoint.hpp"
#include "reprieve/error.hpp"
#include "state/registry.hpp"
#include "storage/read/comparison.hpp"
#include "support/error_text.hpp"
#include "support/saved_pieces.hpp"

namespace reprieve {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(GoodName, IsAccepted) {
  for (const std::string& name :
       std::vector<std::string>{"a", "step", "optimizer/momentum", "a/b/c/d", "...", "..a", "a..", "a b",
                                "T\xc3\xa4glich", "x[3]", std::string(255, 'n')}) {
    EXPECT_NO_THROW(state::check_name(name)) << name;
  }
}

TEST(BadName, IsAUsageError) {
  for (const std::string& name :
       std::vector<std::string>{"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "./a", "../a", "tab\there",
                                "line\n", std::string("nul\0here", 8), "del\x7f", std::string(256, 'n')}) {
    EXPECT_THROW(state::check_name(name), UsageError) << name;
  }
}

TEST(VariableNames, MessageOfALongNameStaysShort) {
  const std::string message = test::error_text<UsageError>([] { state::check_name(std::string(100'000, 'n')); });
  EXPECT_NE(message, "no error");
  EXPECT_LT(message.size(), 1000U);
}

class Registration : public testing::Test {
 protected:
  void expect_refused(const std::string& name, const std::string& problem) {
    EXPECT_THAT([&] { checkpoint.add_replicated(name, value); }, ThrowsMessage<UsageError>(HasSubstr(problem)));
  }

  double value = 0;
  Checkpoint checkpoint;
};

TEST_F(Registration, CountsAndFindsVariables) {
  EXPECT_EQ(checkpoint.size(), 0U);
  checkpoint.add_replicated("optimizer/momentum", value);
  checkpoint.add_per_rank("engine", value);
  EXPECT_EQ(checkpoint.size(), 2U);
  EXPECT_TRUE(checkpoint.contains("engine"));
  EXPECT_FALSE(checkpoint.contains("optimizer"));
}

TEST_F(Registration, RefusesBadNamesAndThoseThatMeetAnother) {
  checkpoint.add_per_rank("a/b/c", value);
  expect_refused("a/b/c", "registered already");
  expect_refused("a/b/c/d/e", "'a/b/c'");
  expect_refused("a/b", "'a/b/c'");
  expect_refused("a", "'a/b/c'");
  expect_refused("a/../b", "'a/../b'");
  EXPECT_EQ(checkpoint.size(), 1U);
}

TEST_F(Registration, AcceptsNamesThatShareABeginning) {
  for (const char* name : {"a/b", "a-b", "a/bc", "ab", "a/c"}) {  // "a-b" sorts before "a/b"
    EXPECT_NO_THROW(checkpoint.add_replicated(name, value)) << name;
  }
}

TEST_F(Registration, RefusesMissingParts) {
  EXPECT_THROW(checkpoint.add_replicated_value("x", nullptr), UsageError);
  EXPECT_THROW(checkpoint.add_per_rank_value("x", nullptr, {}), UsageError);
  EXPECT_THROW(checkpoint.add_distributed("x", std::function<DistributedArray()>{}), UsageError);
}

TEST_F(Registration, VariablesAreSortedByName) {
  for (const char* name : {"c", "a/z", "b", "a/a"}) {
    checkpoint.add_replicated(name, value);
  }
  std::vector<std::string> names;
  for (const auto& [name, variable] : checkpoint.registry().variables) {
    names.push_back(name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a/a", "a/z", "b", "c"}));
}

// What a registration says of a variable's meaning.

class AnnotationTest : public testing::Test {
 protected:
  AnnotationTest() {
    checkpoint.add_replicated("time", time);
    checkpoint.add_distributed("field", field, {.global_shape = {2, 3}, .offset = {0, 0}, .extent = {2, 3}});
  }
  void expect_refused(const std::string& name, const Annotation& annotation, const std::string& problem) {
    EXPECT_THAT([&] { checkpoint.annotate(name, annotation); }, ThrowsMessage<UsageError>(HasSubstr(problem)));
  }
  [[nodiscard]] const Annotation& of(const std::string& name) const {
    return checkpoint.registry().variables.at(name).annotation;
  }

  double time = 0;
  std::array<double, 6> field{};
  Checkpoint checkpoint;
};

TEST_F(AnnotationTest, IsKeptAndReplaced) {
  checkpoint.annotate("field", {.units = "K", .description = "temperature", .dims = {"y", "x"}});
  EXPECT_EQ(of("field"), (Annotation{"K", "temperature", {"y", "x"}}));
  checkpoint.annotate("field", {.units = "degC"});
  EXPECT_EQ(of("field"), (Annotation{"degC", "", {}}));
}

TEST_F(AnnotationTest, GoesWithTheComponent) {
  checkpoint.annotate("time", {.units = "s"});
  Checkpoint whole;
  whole.add_component("part", std::move(checkpoint));
  EXPECT_EQ(whole.registry().variables.at("part/time").annotation->units, "s");
}

TEST_F(AnnotationTest, RefusesWhatDoesNotFit) {
  expect_refused("tme", {.units = "s"}, "'tme'");
  expect_refused("field", {.dims = {"x"}}, "'field': 1 names of dimensions were given, but it has 2 dimensions");
  expect_refused("field", {.dims = {"y", ""}}, "must not be empty");
  expect_refused("field", {.dims = {"y", "grid/x"}}, "'grid/x' holds a '/'");
  expect_refused("field", {.dims = {"x", "x"}}, "two dimensions are called 'x'");
  expect_refused("field", {.dims = {"y", "x\n"}}, "control character");
  expect_refused("time", {.units = std::string(256, 'm')}, "at most 255");
  expect_refused("time", {.description = std::string(4097, 'm')}, "at most 4096");
  expect_refused("time", {.units = std::string("m\0s", 3)}, "null byte");
}

// What a program says about the state of its other versions, and about its components.

using storage::Comparison;
using storage::FileIndex;
using storage::StoredVariable;
using storage::ways_out;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A file with replicated numbers of these names.
FileIndex file_with(const std::vector<std::string>& names) {
  FileIndex index;
  index.metadata.world_size = 1;
  storage::BoxTableBuilder rows(1);
  for (const std::string& name : names) {
    StoredVariable variable;
    variable.name = name;
    variable.type = element_type_of<int>();
    variable.first_box = index.variables.size();
    variable.box_count = 1;
    rows.add({index.variables.size(), 0, 0, {}, {}});
    index.variables.push_back(variable);
  }
  index.boxes = rows.take();
  return index;
}

Comparison compare(const Checkpoint& state, const FileIndex& index) {
  return storage::compare_with_file(state.registry(), index, 0, 1);
}

/// The index must be there still: what is restored points to it.
std::vector<std::string> restored_names(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const storage::RestoreTarget& target : comparison.values) {
    names.push_back(*target.name + " from " + target.stored->name);
  }
  return names;
}

class Versions : public testing::Test {
 protected:
  int a = 1;
  int b = 2;
  Checkpoint state;
};

TEST_F(Versions, WhatMayBeMissingStaysAsItIs) {
  state.add_replicated("a", a);
  state.add_replicated("b", b);
  state.allow_missing("b");
  const FileIndex file = file_with({"a"});
  const Comparison comparison = compare(state, file);
  EXPECT_THAT(comparison.differences, IsEmpty());
  EXPECT_THAT(comparison.remarks, ElementsAre("variable 'b': not in the checkpoint; stays as it is"));
  EXPECT_THAT(restored_names(comparison), ElementsAre("a from a"));
  EXPECT_THAT(compare(state, file_with({"b"})).differences,
              ElementsAre("variable 'a': registered, but not in the checkpoint"));
}

TEST_F(Versions, FormerNamesAreLookedForInTheirOrder) {
  state.add_replicated("a", a);
  state.add_former_name("a", "old");
  state.add_former_name("a", "older");
  EXPECT_THAT(restored_names(compare(state, file_with({"a"}))), ElementsAre("a from a"));
  EXPECT_THAT(restored_names(compare(state, file_with({"old"}))), ElementsAre("a from old"));
  EXPECT_THAT(restored_names(compare(state, file_with({"older"}))), ElementsAre("a from older"));
  EXPECT_THAT(compare(state, file_with({"older"})).remarks, IsEmpty()) << "nothing is missing, nothing left out";
  EXPECT_THAT(compare(state, file_with({"old", "older"})).differences,
              ElementsAre("variable 'older': in the checkpoint, but not registered"));
}

TEST_F(Versions, AStoredVariableIsTakenOnce) {
  state.add_replicated("a", a);
  state.add_replicated("b", b);
  state.add_former_name("a", "b");
  EXPECT_THAT(compare(state, file_with({"b"})).differences,
              ElementsAre("variable 'a': registered, but not in the checkpoint"))
      << "the name means something else today";
  state.add_former_name("a", "old");
  state.add_former_name("b", "old");
  EXPECT_THAT(compare(state, file_with({"old"})).differences,
              ElementsAre("variable 'b': registered, but not in the checkpoint"));
}

TEST_F(Versions, DifferencesWithAWayOutSaySo) {
  EXPECT_THAT(ways_out({"variable 'a': registered with the shape [2], stored with [3]"}, 4),
              ElementsAre(HasSubstr("use another directory")));
  state.add_replicated("a", a);
  state.add_replicated("b", b);
  EXPECT_THAT(ways_out(compare(state, file_with({"a"})).differences, 4), ElementsAre(HasSubstr("allow_missing")));
  EXPECT_THAT(ways_out(compare(state, file_with({"a", "c"})).differences, 4),
              ElementsAre(HasSubstr("add_former_name"), HasSubstr("allow_missing"), HasSubstr("allow_dropped")));
}

TEST_F(Versions, WhatIsDroppedIsLeftOutWithAllBelowIt) {
  state.add_replicated("a", a);
  state.allow_dropped("gone");
  EXPECT_THAT(compare(state, file_with({"a", "gone"})).differences, IsEmpty());
  const Comparison below = compare(state, file_with({"a", "gone/x", "gone/y/z", "goner"}));
  EXPECT_THAT(below.differences, ElementsAre("variable 'goner': in the checkpoint, but not registered"));
  EXPECT_THAT(below.remarks, ElementsAre("variable 'gone/x': in the checkpoint, and dropped",
                                         "variable 'gone/y/z': in the checkpoint, and dropped"));
  state.allow_dropped("a");
  EXPECT_THAT(restored_names(compare(state, file_with({"a"}))), ElementsAre("a from a")) << "it may come back";
}

TEST_F(Versions, OnlyRegisteredVariablesHaveAPast) {
  EXPECT_THROW(state.allow_missing("nothing"), UsageError);
  EXPECT_THROW(state.add_former_name("nothing", "old"), UsageError);
  state.add_replicated("a", a);
  EXPECT_THROW(state.add_former_name("a", "not//a name"), UsageError);
  EXPECT_THROW(state.allow_dropped(""), UsageError);
  EXPECT_THROW(state.on_migration({}), UsageError);
  EXPECT_THROW(state.when_values_restored({}), UsageError);
}

TEST_F(Versions, ComponentsBringTheirPastAlong) {
  Checkpoint ocean;
  ocean.add_replicated("salt", a);
  ocean.add_replicated("heat", b);
  ocean.allow_missing("heat");
  ocean.add_former_name("salt", "salinity");
  ocean.allow_dropped("ice");
  state.add_component("ocean", std::move(ocean));
  EXPECT_TRUE(state.contains("ocean/salt"));
  const FileIndex file = file_with({"ocean/ice", "ocean/salinity"});
  const Comparison comparison = compare(state, file);
  EXPECT_THAT(comparison.differences, IsEmpty());
  EXPECT_THAT(restored_names(comparison), ElementsAre("ocean/salt from ocean/salinity"));
}

TEST_F(Versions, AComponentThatDoesNotFitLeavesEverythingAsItWas) {
  Checkpoint part;
  part.add_replicated("a", a);
  part.add_replicated("b", b);
  state.add_replicated("part/b", b);
  EXPECT_THROW(state.add_component("part", std::move(part)), UsageError);
  EXPECT_EQ(state.size(), 1U);
  Checkpoint other;
  other.add_replicated("a", a);
  EXPECT_THROW(state.add_component("", std::move(other)), UsageError);
}

/// Tells only which names it was asked for.
class AskedFor final : public StoredState {
 public:
  [[nodiscard]] std::vector<std::string> names() const override { return {"ocean/a", "ocean/b", "rest"}; }
  [[nodiscard]] bool contains(const std::string& name) const override { return note(name); }
  [[nodiscard]] ElementType type(const std::string& name) const override { return {ElementClass::text, note(name)}; }
  [[nodiscard]] Extents shape(const std::string& name) const override { return {note(name)}; }
  [[nodiscard]] const PerRankPieces& pieces(const std::string& name) const override {
    note(name);
    return pieces_;
  }
  void read_value(const std::string& name, ValueAccess&) const override { note(name); }
  void read_distributed(const std::string& name, const DistributedArray&) const override { note(name); }

  mutable std::vector<std::string> asked;

 private:
  bool note(const std::string& name) const {
    asked.push_back(name);
    return true;
  }
  test::SavedPieces pieces_;
};

TEST_F(Versions, ComponentsSeeTheirOwnNamesWhenTheyMigrate) {
  Checkpoint ocean;
  ocean.on_migration([this](const StoredState& stored) {
    EXPECT_THAT(stored.names(), ElementsAre("a", "b"));
    EXPECT_TRUE(stored.contains("a"));
    EXPECT_EQ(stored.type("b").size_bytes, 1U);
    EXPECT_THAT(stored.shape("c"), ElementsAre(1));
    EXPECT_EQ(stored.pieces("d").count(), 0);
    stored.read("e", a);
    stored.read_distributed("f", {});
  });
  Checkpoint earth;
  earth.add_component("ocean", std::move(ocean));
  state.on_migration([](const StoredState& stored) { EXPECT_TRUE(stored.contains("rest")); });
  const AskedFor stored;
  state.registry().migrate(stored);
  earth.registry().migrate(stored);
  EXPECT_THAT(stored.asked, ElementsAre("rest", "ocean/a", "ocean/b", "ocean/c", "ocean/d", "ocean/e", "ocean/f"));
}

}  // namespace
}  // namespace reprieve
