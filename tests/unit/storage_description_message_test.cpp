// SPDX-License-Identifier: BSD-3-Clause
// What ranks tell rank 0 of their variables, and that the numbers alone are enough for its plan.

#include <gtest/gtest.h>

#include <random>

#include "storage/format/description.hpp"
#include "storage/format/layout.hpp"
#include "storage/format/shared_copies.hpp"

namespace reprieve::storage {
namespace {

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

void expect_equal(const Description& a, const Description& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.distribution, b.distribution);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.is_shared, b.is_shared);
  EXPECT_EQ(a.is_copy, b.is_copy);
  EXPECT_EQ(a.annotation, b.annotation);
  EXPECT_EQ(a.members, b.members);
  EXPECT_EQ(a.boxes, b.boxes);
  ASSERT_EQ(a.texts.has_value(), b.texts.has_value());
  if (a.texts) {
    EXPECT_EQ(a.texts->count, b.texts->count);
    EXPECT_EQ(a.texts->longest, b.texts->longest);
  }
}

TEST(Descriptions, SurviveTheMessage) {
  const auto all = of_all_kinds();
  const DescriptionMessage message = encode_descriptions(all);
  const auto decoded = decode_descriptions(message.facts, message.numbers);
  ASSERT_EQ(decoded.size(), all.size());
  for (std::size_t v = 0; v < all.size(); ++v) {
    expect_equal(decoded[v], all[v]);
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

TEST(PlanOfAFile, FindsOverlapsInEachOfSeveralVariables) {
  for (const std::size_t corrupt : {0U, 1U, 2U}) {
    std::vector<std::vector<Description>> by_rank(2);
    for (std::uint64_t rank = 0; rank < 2; ++rank) {
      for (const char* name : {"a", "b", "c"}) {
        by_rank[rank].push_back(describe_as(name, Distribution::distributed, kF64, {8}));
        by_rank[rank].back().boxes = {{{rank * 4}, {4}}};
      }
    }
    EXPECT_NO_THROW(static_cast<void>(plan_file(by_rank, {})));
    by_rank[1][corrupt].boxes[0] = {{3}, {5}};
    EXPECT_THROW(static_cast<void>(plan_file(by_rank, {})), UsageError) << corrupt;
  }
}

}  // namespace
}  // namespace reprieve::storage
