// SPDX-License-Identifier: BSD-3-Clause
// The manifest is read without a document in memory: what comes out must be what the JSON library would read.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/values.hpp"
#include "storage/format/description.hpp"
#include "storage/format/layout.hpp"
#include "storage/format/manifest.hpp"
#include "storage/format/shared_copies.hpp"
#include "support/boxes_and_bytes.hpp"

namespace reprieve::storage {
namespace {

FileIndex index_of(std::vector<std::string> names) {
  FileIndex index;
  for (std::string& name : names) {
    StoredVariable& variable = index.variables.emplace_back();
    variable.name = std::move(name);
    variable.type = {ElementClass::floating, 8};
    variable.shape = {7, index.variables.size()};
    variable.file_offset = 4096 * index.variables.size();
  }
  return index;
}

std::string list_in(const std::string& manifest) { return manifest.substr(manifest.find('[') + 1); }

std::vector<StoredVariable> read_text(const std::string& manifest) {
  std::vector<StoredVariable> variables;
  static_cast<void>(read_manifest(core::to_bytes(manifest), &variables));
  return variables;
}

/// What a file and a message tell of a variable alike.
template <class Told>
void expect_same(const Told& a, const Told& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.distribution, b.distribution);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.annotation, b.annotation);
  EXPECT_EQ(a.is_copy, b.is_copy);
}

TEST(Manifest, IsReadAsItWasWritten) {
  FileIndex index = index_of({"a", "back\\slash", "quote\"}{", "t\u00e9mp\u00e9rature", "chunks", "units", "z"});
  index.variables[4].chunk = {7, 1};
  index.variables[5].annotation = Annotation{"m }s\"[", "what \\ it is", {"x"}};
  index.variables[6].is_copy = true;
  std::vector<StoredVariable> read;
  const nlohmann::json fields = read_manifest(core::to_bytes(encode_manifest(index, 10)), &read);
  ASSERT_EQ(read.size(), index.variables.size());
  for (std::size_t v = 0; v < index.variables.size(); ++v) {
    expect_same(read[v], index.variables[v]);
    EXPECT_EQ(read[v].file_offset, index.variables[v].file_offset);
    EXPECT_EQ(read[v].piece_dimensions, index.variables[v].piece_dimensions);
    EXPECT_EQ(read[v].chunk, index.variables[v].chunk);
  }
  EXPECT_FALSE(fields.contains("variables"));
  EXPECT_TRUE(fields.contains("box_dimensions"));
}

/// Those of the first versions have it in the order of their names.
TEST(Manifest, MayHaveItsListAnywhere) {
  const std::string manifest = encode_manifest(index_of({"a", "b"}));
  const auto sorted = core::to_bytes(nlohmann::json::parse(manifest).dump(2));
  std::vector<StoredVariable> variables;
  EXPECT_EQ(read_manifest(sorted, &variables), read_manifest(core::to_bytes(manifest), nullptr));
  EXPECT_EQ(read_manifest(sorted, nullptr), read_manifest(core::to_bytes(manifest), nullptr));
  EXPECT_EQ(variables.size(), 2U);
  EXPECT_TRUE(read_text(encode_manifest(FileIndex())).empty());
}

TEST(Manifest, IsNoneIfItIsCutOffOrContinues) {
  const std::string manifest = encode_manifest(index_of({"a", "b"}));
  for (std::size_t size = 0; size < manifest.size(); ++size) {
    EXPECT_ANY_THROW(static_cast<void>(read_text(manifest.substr(0, size)))) << size;
  }
  for (const char* more : {"x", "}", ",{}", "]}"}) {
    EXPECT_ANY_THROW(static_cast<void>(read_text(manifest + more))) << more;
  }
}

/// Each of these is refused, or read alike, by a parser alone.
TEST(Manifest, ReadsNoNumberAndNoTextThatJsonDoesNotHave) {
  const std::string manifest = encode_manifest(index_of({"called"}));
  const auto with = [&](const std::string& replaced, const std::string& value) {
    std::string text = manifest;
    return text.replace(text.find(replaced), replaced.size(), value);
  };
  for (const char* number :
       {"04096", "+4096", "0x10", "4096.", "4096.5", "", "-", "40 96", "99999999999999999999999"}) {
    EXPECT_ANY_THROW(static_cast<void>(read_text(with("4096", number)))) << number;
  }
  EXPECT_EQ(read_text(with("4096", "18446744073709551615")).front().file_offset, 18446744073709551615U);
  EXPECT_EQ(read_text(with("4096", " 4096 ")).front().file_offset, 4096U);
  for (const char* name : {"na\nme", "na\xff\xfeme", "na\\qme"}) {
    EXPECT_ANY_THROW(static_cast<void>(read_text(with("called", name)))) << name;
  }
}

/// In whatever way a byte is changed: what is no JSON is refused, and the rest is read as the JSON library reads it.
TEST(Manifest, IsReadAsJsonIfItIsCorrupt) {
  const std::string manifest = encode_manifest(index_of({"a", "b"}));
  int read_all_the_same = 0;
  for (std::size_t at = 0; at < manifest.size(); ++at) {
    for (const char c : {'"', '{', '}', '[', ']', ',', ':', '0', '9', ' ', 'x', '\\', '-', '\x01'}) {
      std::string corrupt = manifest;
      corrupt[at] = c;
      std::vector<StoredVariable> variables;
      try {
        variables = read_text(corrupt);
      } catch (const std::exception&) {
        continue;
      }
      ++read_all_the_same;
      ASSERT_TRUE(nlohmann::json::accept(corrupt)) << at << " " << c;
      const nlohmann::json list = nlohmann::json::parse(corrupt).at("variables");
      ASSERT_EQ(variables.size(), list.size()) << at << " " << c;
      for (std::size_t v = 0; v < list.size(); ++v) {
        EXPECT_EQ(variables[v].name, list[v].at("name").get<std::string>()) << at << " " << c;
        EXPECT_EQ(variables[v].file_offset, list[v].at("file_offset")) << at << " " << c;
        EXPECT_EQ(variables[v].shape, list[v].at("shape").get<Extents>()) << at << " " << c;
        EXPECT_EQ(variables[v].type.size_bytes, list[v].at("size_bytes")) << at << " " << c;
      }
    }
  }
  EXPECT_GT(read_all_the_same, 0);
}

/// The name of the list within something else does not make it one.
TEST(Manifest, IsNoListOfSomethingElse) {
  const std::string entry = list_in(encode_manifest(index_of({"a"})));
  EXPECT_ANY_THROW(static_cast<void>(read_text(R"({"constants":{"a":"b","variables":[)" + entry)));
  EXPECT_ANY_THROW(static_cast<void>(read_text(R"({"a":","variables":[)" + entry)));
  EXPECT_EQ(read_text(R"({"constants":{"a":"b","variables":[]},"variables":[)" + entry).size(), 1U);
}

// What ranks tell rank 0 of their variables, and that the numbers alone are enough for its plan.

using state::Distribution;

constexpr ElementType kF64{ElementClass::floating, 8};
constexpr ElementType kOneByte{ElementClass::opaque, 1};
constexpr ElementType kOneChar{ElementClass::text, 1};

std::uint64_t facts_digest(const DescriptionMessage& message) { return xxh3(message.facts); }

Description describe_as(std::string name, Distribution distribution, ElementType type, Extents shape) {
  return {{std::move(name), distribution, type, std::move(shape)}};
}

std::vector<Description> of_all_kinds() {
  std::vector<Description> all{describe_as("grid", Distribution::distributed, kF64, {8, 9}),
                               describe_as("list", Distribution::replicated, kOneByte, {40}),
                               describe_as("piece", Distribution::per_rank, kF64, {3, 2}),
                               describe_as("scalar", Distribution::replicated, kF64, {})};
  all[0].boxes = {{{0, 1}, {4, 5}}, {{4, 0}, {1, 1}}};
  all[0].annotation = Annotation{"K", "temperature", {"y", "x"}};
  all[1].texts = TextLengths{2, 7};
  all[2].members = {{"a", kF64, 0, {}, {}}};
  all[2].is_copy = true;
  return all;
}

TEST(Descriptions, SurviveTheMessage) {
  const auto all = of_all_kinds();
  const DescriptionMessage message = encode_descriptions(all);
  const auto decoded = decode_descriptions(message.facts, message.numbers);
  ASSERT_EQ(decoded.size(), all.size());
  for (std::size_t v = 0; v < all.size(); ++v) {
    expect_same(decoded[v], all[v]);
    EXPECT_EQ(decoded[v].is_shared, all[v].is_shared);
    EXPECT_EQ(decoded[v].members, all[v].members);
    EXPECT_EQ(decoded[v].boxes, all[v].boxes);
    ASSERT_EQ(decoded[v].texts.has_value(), all[v].texts.has_value());
    if (decoded[v].texts) {
      EXPECT_EQ(decoded[v].texts->count, all[v].texts->count);
      EXPECT_EQ(decoded[v].texts->longest, all[v].texts->longest);
    }
  }
}

TEST(Descriptions, ThatAreCutShortAreNoticed) {
  const DescriptionMessage message = encode_descriptions(of_all_kinds());
  const std::span<const std::byte> facts(message.facts);
  const std::span<const std::byte> numbers(message.numbers);
  for (std::size_t size = 0; size < facts.size(); ++size) {
    EXPECT_THROW(static_cast<void>(decode_descriptions(facts.first(size), numbers)), Error) << size;
  }
  for (std::size_t size = 0; size < numbers.size(); ++size) {
    EXPECT_THROW(static_cast<void>(decode_descriptions(facts, numbers.first(size))), Error) << size;
    std::vector<DescriptionMessage> told{{message.facts, core::to_bytes(core::to_text(numbers.first(size)))}};
    EXPECT_THROW(static_cast<void>(plan_file(std::move(told), {})), Error) << size;
  }
}

TEST(Descriptions, HaveEqualFactsIfOnlyNumbersDiffer) {
  const auto mine = of_all_kinds();
  auto others = mine;
  others[0].boxes.pop_back();
  others[1].texts->longest = 9;
  others[2].shape = {5, 7};
  EXPECT_EQ(facts_digest(encode_descriptions(mine)), facts_digest(encode_descriptions(others)));
}

TEST(Descriptions, HaveOtherFactsIfAnythingElseDiffers) {
  const auto mine = of_all_kinds();
  const auto expect_other = [&](auto&& change) {
    auto others = mine;
    change(others);
    EXPECT_NE(facts_digest(encode_descriptions(mine)), facts_digest(encode_descriptions(others)));
  };
  expect_other([](auto& others) { others[0].name += "s"; });
  expect_other([](auto& others) { others[0].shape[1] = 10; });
  expect_other([](auto& others) { others[0].annotation = Annotation{.units = "m"}; });
  expect_other([](auto& others) { others[0].is_shared = true; });
  expect_other([](auto& others) { others[1].texts.reset(); });
  expect_other([](auto& others) { others[1].type = kOneChar; });
  expect_other([](auto& others) { others[2].shape.push_back(1); });
  expect_other([](auto& others) { others[2].members[0].name = "b"; });
  expect_other([](auto& others) { others[3].distribution = Distribution::per_rank; });
  expect_other([](auto& others) { others.pop_back(); });
}

/// Some ranks' variables of all kinds, of random sizes.
class RandomRanks {
 public:
  explicit RandomRanks(unsigned seed) : random_(seed) {}

  std::vector<std::vector<Description>> make(std::size_t ranks) {
    std::vector<std::vector<Description>> by_rank;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto& all = by_rank.emplace_back();
      Description shared = describe_as("shared", Distribution::distributed, kF64, {20, 20});
      shared.is_shared = true;
      shared.boxes = {{{up_to(9), up_to(9)}, {1 + up_to(10), 1 + up_to(10)}}};
      all.push_back(beside(boxes_name("shared"), {1, 4}, kBoxWord));
      all.push_back(beside(copies_name("shared"), {0}, kF64));
      all.push_back(describe_as("a", Distribution::replicated, kF64, {1'000'000}));
      all.push_back(describe_as("grid", Distribution::distributed, kF64, {ranks * 700'000, 2}));
      for (std::uint64_t box = up_to(2); box > 0; --box) {
        all.back().boxes.push_back({{rank * 700'000 + box * 200'000, 0}, {1 + up_to(199'998), 1 + up_to(1)}});
      }
      all.push_back(describe_as("note", Distribution::per_rank, kOneChar, {up_to(12)}));
      all.back().texts = TextLengths{1, all.back().shape[0]};
      all.push_back(describe_as("notes", Distribution::per_rank, kOneByte, {50}));
      all.back().texts = TextLengths{up_to(3), up_to(9)};
      all.push_back(describe_as("piece", Distribution::per_rank, kF64, {up_to(1'000'000), 2}));
      all.push_back(shared);
    }
    return by_rank;
  }

 private:
  std::uint64_t up_to(std::uint64_t most) { return std::uniform_int_distribution<std::uint64_t>(0, most)(random_); }

  static Description beside(std::string name, Extents shape, ElementType type) {
    Description made = describe_as(std::move(name), Distribution::per_rank, type, std::move(shape));
    made.is_copy = true;
    return made;
  }

  std::mt19937 random_;
};

TEST(PlanFromNumbers, IsThatOfWholeDescriptions) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const auto by_rank = RandomRanks(seed).make(1 + seed % 5);
    std::vector<DescriptionMessage> told;
    for (const auto& descriptions : by_rank) {
      ASSERT_EQ(encode_descriptions(descriptions).facts, encode_descriptions(by_rank.front()).facts);
      told.push_back({{}, encode_descriptions(descriptions).numbers});
    }
    told.front().facts = encode_descriptions(by_rank.front()).facts;
    const FileIndex expected = plan_file(by_rank, {});
    const FileIndex index = plan_file(std::move(told), {});
    EXPECT_EQ(encode_manifest(index), encode_manifest(expected));
    EXPECT_TRUE(std::ranges::equal(index.boxes.words(), expected.boxes.words()));
    EXPECT_EQ(index.checksums.size(), expected.checksums.size());
  }
}

/// The texts of one rank end with a null byte, which an array would lose: then no rank's texts become one.
TEST(PlanOfAFile, MakesAnArrayOfTheTextsOfAllRanksOrOfNone) {
  auto by_rank = RandomRanks(1).make(3);
  const auto type_of = [](const FileIndex& index, const char* name) { return index.find(name)->type; };
  EXPECT_GT(type_of(plan_file(by_rank, {}), "note").size_bytes, 1U);
  by_rank[1][4].texts.reset();
  EXPECT_EQ(type_of(plan_file(by_rank, {}), "note"), kOneChar);
}

// Boxes that may overlap, parted so that every element has one owner.

std::vector<Box> random_boxes(std::mt19937& random, std::size_t count, std::size_t dimensions) {
  std::uniform_int_distribution<std::uint64_t> offset(0, 6);
  std::uniform_int_distribution<std::uint64_t> extent(1, 5);
  std::vector<Box> boxes(count);
  for (Box& box : boxes) {
    for (std::size_t d = 0; d < dimensions; ++d) {
      box.offset.push_back(offset(random));
      box.extent.push_back(extent(random));
    }
  }
  return boxes;
}

class SharedCopies : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Dimensions, SharedCopies, testing::Values(1, 2, 3));

TEST_P(SharedCopies, EveryElementIsOwnedOnceByTheFirstBox) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(GetParam()));
  for (int round = 0; round < 100; ++round) {
    const auto boxes = random_boxes(random, 1 + static_cast<std::size_t>(round) % 9, GetParam());
    std::map<Extents, std::size_t> expected;
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      for_each_index(boxes[b], [&](const Extents& at) { expected.try_emplace(at, b); });
    }
    std::map<Extents, std::size_t> owner;
    const auto parts = owned_parts(boxes);
    ASSERT_EQ(parts.size(), boxes.size());
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      for (const Box& part : parts[b]) {
        for_each_index(part, [&](const Extents& at) { EXPECT_TRUE(owner.emplace(at, b).second) << "owned twice"; });
      }
    }
    EXPECT_EQ(owner, expected);
  }
}

TEST_P(SharedCopies, WhatABoxDoesNotOwnIsACopy) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(GetParam() + 10));
  for (int round = 0; round < 100; ++round) {
    const auto boxes = random_boxes(random, 6, GetParam());
    const auto parts = owned_parts(boxes);
    for (const std::size_t first : {0U, 2U, 4U}) {  // each rank has two boxes
      const std::vector<Box> own(boxes.begin() + static_cast<std::ptrdiff_t>(first),
                                 boxes.begin() + static_cast<std::ptrdiff_t>(first + 2));
      std::vector<Box> owned = parts[first];
      owned.insert(owned.end(), parts[first + 1].begin(), parts[first + 1].end());
      std::map<std::pair<std::size_t, Extents>, int> held;
      for (const Copy& copy : copies_of(own, owned)) {
        for_each_index(copy.part, [&](const Extents& at) { ++held[{copy.box, at}]; });
      }
      for (std::size_t b = 0; b < 2; ++b) {
        for (const Box& part : parts[first + b]) {
          for_each_index(part, [&](const Extents& at) { ++held[{b, at}]; });
        }
      }
      std::map<std::pair<std::size_t, Extents>, int> expected;
      for (std::size_t b = 0; b < 2; ++b) {
        for_each_index(own[b], [&](const Extents& at) { expected[{b, at}] = 1; });
      }
      EXPECT_EQ(held, expected);
    }
  }
}

}  // namespace
}  // namespace reprieve::storage
