// SPDX-License-Identifier: BSD-3-Clause
// Element types, and access to the values of replicated and per-rank variables.

#include <gmock/gmock.h>

#include <array>
#include <complex>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "reprieve/checkpoint.hpp"
#include "reprieve/error.hpp"
#include "reprieve/particles.hpp"
#include "state/registry.hpp"
#include "support/saved_pieces.hpp"

namespace reprieve {
namespace {

enum class Phase : std::uint16_t { warm_up, steady };

TEST(ElementTypes, HaveTheNamesThatToolsShow) {
  EXPECT_EQ(to_string(element_type_of<bool>()), "bool");
  EXPECT_EQ(to_string(element_type_of<double>()), "float64");
  EXPECT_EQ(to_string(element_type_of<float>()), "float32");
  EXPECT_EQ(to_string(element_type_of<std::int32_t>()), "int32");
  EXPECT_EQ(to_string(element_type_of<std::uint8_t>()), "uint8");
  EXPECT_EQ(to_string(element_type_of<std::complex<double>>()), "complex128");
  EXPECT_EQ(to_string(element_type_of<std::byte>()), "opaque");
  EXPECT_EQ(to_string(element_type_of<Phase>()), "uint16");
  EXPECT_EQ(to_string(ElementType{ElementClass::text, 1}), "text");
  EXPECT_EQ(to_string(ElementType{ElementClass::opaque, 3}), "opaque24");
}

/// What a save and a restore do with a value, without a file between them.
template <class T>
void expect_round_trip(T value, T other, const std::optional<Extents>& shape) {
  Checkpoint saved;
  Checkpoint restored;
  saved.add_replicated("value", value);
  restored.add_replicated("value", other);
  ValueAccess& from = *saved.registry().variables.at("value").value;
  ValueAccess& to = *restored.registry().variables.at("value").value;
  EXPECT_EQ(from.type(), to.type());
  EXPECT_EQ(from.shape(), shape.value_or(from.shape()));
  const std::span<const std::byte> bytes = from.bytes();
  const std::span<std::byte> target = to.prepare(bytes.size());
  ASSERT_EQ(target.size(), bytes.size());
  if (!bytes.empty()) {
    std::memcpy(target.data(), bytes.data(), bytes.size());
  }
  to.commit();
  EXPECT_EQ(other, value);
}

TEST(Values, EveryKindComesBack) {
  expect_round_trip(1.5, 0.0, Extents{});
  expect_round_trip(true, false, Extents{});
  expect_round_trip(Phase::steady, Phase::warm_up, Extents{});
  expect_round_trip(std::complex<float>(1, -2), {}, Extents{});
  expect_round_trip(std::string("text\0with a zero", 16), std::string("x"), Extents{16});
  expect_round_trip(std::vector<int>{1, 2, 3}, {}, Extents{3});
  expect_round_trip(std::vector<int>{}, {7, 8}, Extents{0});
  expect_round_trip(std::array<double, 2>{1, 2}, {}, Extents{2});
}

TEST(Values, ArraysOfTheLanguageAndPointersWithALengthAreMemoryOfThisSize) {
  double rotation[2][3] = {{1, 2, 3}, {4, 5, 6}};  // NOLINT: what is tested
  char name[80] = "run 7";                         // NOLINT
  std::array<int, 4> numbers{1, 2, 3, 4};
  Checkpoint state;
  state.add_replicated("rotation", rotation);
  state.add_per_rank("name", name);
  state.add_per_rank("pointer", numbers.data(), 3);
  state.add_replicated("pointer of all", numbers.data(), 2);
  state.add_per_rank("fixed", std::span<int, 4>(numbers));
  const std::map<std::string, Extents> shapes{
      {"rotation", {2, 3}}, {"name", {80}}, {"pointer", {3}}, {"pointer of all", {2}}, {"fixed", {4}}};
  for (const auto& [variable, shape] : shapes) {
    ValueAccess& value = *state.registry().variables.at(variable).value;
    EXPECT_EQ(value.shape(), shape) << variable;
    EXPECT_FALSE(value.resizable()) << variable;
  }
  EXPECT_EQ(state.registry().variables.at("rotation").value->type(), element_type_of<double>());
  EXPECT_EQ(state.registry().variables.at("rotation").value->bytes().data(), std::as_bytes(std::span(rotation)).data());
  EXPECT_EQ(state.registry().variables.at("pointer").value->prepare(12).data(),
            std::as_writable_bytes(std::span(numbers)).data());
}

TEST(Values, AFunctionThatRedistributesNeedsNoNameOfItsType) {
  std::vector<int> list;
  Checkpoint state;
  state.add_per_rank("list", list, [](const PerRankPieces& pieces, int rank, int size, std::vector<int>& mine) {
    mine = {pieces.count(), rank, size};
  });
  state.registry().variables.at("list").redistribute(test::SavedPieces::of_lists<int>({{1}, {2}, {3}}), 1, 2);
  EXPECT_EQ(list, (std::vector<int>{3, 1, 2}));
}

TEST(Values, RandomEnginesComeBackInTheMiddleOfTheirSequence) {
  std::mt19937_64 engine(7);
  engine.discard(1001);
  expect_round_trip(engine, std::mt19937_64(), std::nullopt);
}

// Every kind of engine of the standard; what only makes or uses random numbers has no state to save.
static_assert(Serializable<std::minstd_rand> && Serializable<std::mt19937> && Serializable<std::ranlux24_base> &&
              Serializable<std::ranlux48> && Serializable<std::knuth_b> &&
              Serializable<std::independent_bits_engine<std::mt19937, 8, unsigned>>);
static_assert(!Serializable<std::random_device> && !Serializable<std::normal_distribution<double>>);

TEST(Values, BytesThatAreNoEngineAreAMismatch) {
  std::minstd_rand engine;
  Checkpoint checkpoint;
  checkpoint.add_per_rank("engine", engine);
  ValueAccess& access = *checkpoint.registry().variables.at("engine").value;
  std::memcpy(access.prepare(3).data(), "abc", 3);
  EXPECT_THROW(access.commit(), MismatchError);
}

TEST(Values, OnlyContainersThatGrowAndEnginesAreResizable) {
  std::vector<int> vector;
  std::array<int, 3> array{};
  std::string text;
  std::mt19937_64 engine;
  int scalar = 0;
  Checkpoint checkpoint;
  checkpoint.add_replicated("vector", vector);
  checkpoint.add_replicated("array", array);
  checkpoint.add_replicated("text", text);
  checkpoint.add_per_rank("engine", engine);
  checkpoint.add_replicated("scalar", scalar);
  checkpoint.add_replicated("span", std::span<int>(array));
  const auto resizable = [&](const char* name) { return checkpoint.registry().variables.at(name).value->resizable(); };
  EXPECT_TRUE(resizable("vector"));
  EXPECT_TRUE(resizable("text"));
  EXPECT_TRUE(resizable("engine"));
  EXPECT_FALSE(resizable("array"));
  EXPECT_FALSE(resizable("scalar"));
  EXPECT_FALSE(resizable("span"));
}

TEST(Values, RedistributionGetsTheRegisteredValue) {
  int value = 0;
  Checkpoint checkpoint;
  checkpoint.add_per_rank<int>("value", value, [](const PerRankPieces& pieces, int rank, int size, int& target) {
    target = pieces.count() * 100 + rank * 10 + size;
  });
  checkpoint.registry().variables.at("value").redistribute(test::SavedPieces::of_lists<int>({{}, {}, {}, {}}), 2, 3);
  EXPECT_EQ(value, 423);
}

// Redistribution of lists that each rank has of its own.

using test::SavedPieces;
using ::testing::ElementsAre;

const SavedPieces kSaved = SavedPieces::of_lists<int>({{1, 2, 3}, {}, {4, 5, 6, 7}});

std::vector<std::vector<int>> redistributed(const Redistribute<std::vector<int>>& function, const SavedPieces& pieces,
                                            int ranks) {
  std::vector<std::vector<int>> lists;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> list{99};
    function(pieces, rank, ranks, list);
    lists.push_back(list);
  }
  return lists;
}

TEST(InOrder, CutsTheListsOfAllRanksEvenly) {
  const auto function = in_order<std::vector<int>>();
  EXPECT_THAT(redistributed(function, kSaved, 1), ElementsAre(ElementsAre(1, 2, 3, 4, 5, 6, 7)));
  EXPECT_THAT(redistributed(function, kSaved, 2), ElementsAre(ElementsAre(1, 2, 3, 4), ElementsAre(5, 6, 7)));
  EXPECT_THAT(redistributed(function, kSaved, 4),
              ElementsAre(ElementsAre(1, 2), ElementsAre(3, 4), ElementsAre(5, 6), ElementsAre(7)));
  EXPECT_THAT(redistributed(function, SavedPieces::of_lists<int>({{}, {1}}), 3),
              ElementsAre(ElementsAre(1), ElementsAre(), ElementsAre()));
}

TEST(InOrder, KeepsTheValuesOfAnItemTogether) {
  const auto pieces = SavedPieces::of_lists<int>({{1, 1, 2, 2, 3, 3}, {4, 4}});
  EXPECT_THAT(redistributed(in_order<std::vector<int>>(2), pieces, 3),
              ElementsAre(ElementsAre(1, 1, 2, 2), ElementsAre(3, 3), ElementsAre(4, 4)));
  EXPECT_THROW(redistributed(in_order<std::vector<int>>(4), pieces, 2), MismatchError);
}

TEST(InOrder, EveryItemComesBackOnceOnAnyNumberOfRanks) {
  std::vector<std::vector<int>> lists(5);
  for (int item = 0; item < 100; ++item) {
    lists[static_cast<std::size_t>(item * item % 5)].push_back(item);
  }
  for (int ranks = 1; ranks <= 12; ++ranks) {
    std::vector<int> all;
    for (const auto& list : redistributed(in_order<std::vector<int>>(), SavedPieces::of_lists(lists), ranks)) {
      EXPECT_LE(list.size(), 100U / static_cast<unsigned>(ranks) + 1);
      all.insert(all.end(), list.begin(), list.end());
    }
    std::vector<int> expected;
    for (const auto& list : lists) {
      expected.insert(expected.end(), list.begin(), list.end());
    }
    EXPECT_EQ(all, expected) << ranks;
  }
}

TEST(ByOwner, AsksWhereEachItemBelongs) {
  const auto odd_or_even = by_owner<std::vector<int>>([](const int& item, int size) { return item % size; });
  EXPECT_THAT(redistributed(odd_or_even, kSaved, 2), ElementsAre(ElementsAre(2, 4, 6), ElementsAre(1, 3, 5, 7)));
  EXPECT_THROW(redistributed(by_owner<std::vector<int>>([](const int&, int size) { return size; }), kSaved, 2),
               UsageError);
}

TEST(ByOwners, OneListSaysWhereTheOthersGo) {
  auto velocities = SavedPieces::of_lists<int>({{10, 11, 20, 21}, {30, 31}});
  velocities.add_sibling("position", SavedPieces::of_lists<double>({{0.25, 0.75}, {0.5}}));
  const OwnersOf by_position = [](const PerRankPieces& pieces, int saved_rank, int size) {
    std::vector<int> owners;
    for (const double x : values_of<double>(pieces.of("position"), saved_rank)) {
      owners.push_back(static_cast<int>(x * size));
    }
    return owners;
  };
  EXPECT_THAT(redistributed(by_owners<std::vector<int>>(by_position, 2), velocities, 2),
              ElementsAre(ElementsAre(10, 11), ElementsAre(20, 21, 30, 31)));
  EXPECT_THROW(redistributed(by_owners<std::vector<int>>(by_position, 1), velocities, 2), UsageError);
}

TEST(Pieces, OfAnotherTypeAreRefused) {
  EXPECT_THROW(static_cast<void>(values_of<float>(kSaved, 0)), MismatchError);
  EXPECT_THAT(values_of<int>(kSaved, 0), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace reprieve
