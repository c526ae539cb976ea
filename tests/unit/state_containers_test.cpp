// SPDX-License-Identifier: BSD-3-Clause
// Serializers of standard containers.

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <random>

#include "reprieve/checkpoint.hpp"
#include "reprieve/containers.hpp"
#include "reprieve/error.hpp"
#include "support/error_text.hpp"

namespace reprieve {

/// A type of the user's own, with a serializer of his own.
struct Label {
  std::string text;
  friend bool operator==(const Label&, const Label&) = default;
};
template <>
struct Serializer<Label> {
  static std::vector<std::byte> save(const Label& label) {
    const auto bytes = std::as_bytes(std::span(label.text));
    return {bytes.begin(), bytes.end()};
  }
  static void load(Label& label, std::span<const std::byte> bytes) {
    label.text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
};

struct Cell {
  int level;
  double value;
  friend bool operator==(const Cell&, const Cell&) = default;
};
template <>
inline constexpr bool enable_record<Cell> = true;

namespace {

template <class T>
void expect_round_trip(const T& value, T other = {}) {
  static_assert(Storable<T>);
  const std::vector<std::byte> bytes = Serializer<T>::save(value);
  Serializer<T>::load(other, bytes);
  EXPECT_EQ(other, value);
}

TEST(Containers, EveryKindComesBack) {
  expect_round_trip<std::vector<std::vector<double>>>({{1, 2}, {}, {3}}, {{7}});
  expect_round_trip<std::vector<std::string>>({"one", "", std::string("t\0wo", 4)});
  expect_round_trip<std::deque<int>>({1, 2, 3});
  expect_round_trip<std::list<std::string>>({"a", "b"});
  expect_round_trip<std::set<int>>({3, 1, 2});
  expect_round_trip<std::multiset<int>>({1, 1, 2});
  expect_round_trip<std::unordered_set<std::string>>({"x", "y"});
  expect_round_trip<std::map<std::string, double>>({{"pi", 3.25}, {"e", 2.5}});
  expect_round_trip<std::multimap<int, int>>({{1, 2}, {1, 3}});
  expect_round_trip<std::unordered_map<int, std::vector<float>>>({{1, {1, 2}}, {2, {}}});
  expect_round_trip<std::pair<int, std::string>>({1, "one"});
  expect_round_trip<std::tuple<int, bool, std::string>>({1, true, "x"});
  expect_round_trip<std::optional<std::string>>("there");
  expect_round_trip<std::optional<int>>(std::nullopt, 3);
  expect_round_trip<std::variant<int, std::string>>("second");
  expect_round_trip<std::array<std::string, 2>>({"a", "b"});
  expect_round_trip<std::vector<std::vector<bool>>>({{true, false}, {}});
}

TEST(Containers, NestAsDeepAsYouLikeAndHoldTypesWithASerializerOfTheirOwn) {
  using Deep =
      std::map<std::string, std::vector<std::optional<std::tuple<std::array<std::complex<double>, 2>, Label>>>>;
  Deep deep;
  deep["a"] = {std::nullopt, std::tuple(std::array<std::complex<double>, 2>{1, 2}, Label{"three"})};
  deep["b"] = {};
  expect_round_trip(deep);
  expect_round_trip<std::vector<Label>>({{"one"}, {"two"}});
  std::vector<std::mt19937> engines(3);
  engines[1].discard(17);
  expect_round_trip(engines);
}

TEST(Containers, RecordsAreElements) {
  static_assert(Element<Cell>);
  static_assert(ContiguousValue<std::vector<Cell>>);
  EXPECT_EQ(element_type_of<Cell>(), (ElementType{ElementClass::opaque, sizeof(Cell)}));
  expect_round_trip<std::map<int, Cell>>({{1, {2, 3.5}}});
}

TEST(Containers, BytesOfAnotherTypeAreRefusedAndChangeNothing) {
  const auto bytes = Serializer<std::vector<std::vector<double>>>::save({{1, 2}});
  std::vector<std::vector<float>> other{{7}};
  EXPECT_EQ(test::error_text<MismatchError>([&] { Serializer<decltype(other)>::load(other, bytes); }),
            "the stored bytes are those of (list (list float64)), not of (list (list float32))");
  EXPECT_EQ(other, (std::vector<std::vector<float>>{{7}}));
}

TEST(Containers, CutAndPaddedBytesAreRefusedAndChangeNothing) {
  using Value = std::map<std::string, std::vector<std::variant<int, std::string>>>;
  const Value value{{"key", {1, "two"}}};
  std::vector<std::byte> bytes = Serializer<Value>::save(value);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Value other{{"old", {}}};
    EXPECT_THROW(Serializer<Value>::load(other, std::span(bytes).first(size)), MismatchError) << size;
    EXPECT_TRUE(other.contains("old"));
  }
  bytes.push_back(std::byte{0});
  Value other;
  EXPECT_THROW(Serializer<Value>::load(other, bytes), MismatchError);
}

/// Every byte, every value: an error or some value, never a crash or an endless loop.
TEST(Containers, ChangedBytesDoNoHarm) {
  using Value = std::vector<std::variant<int, std::vector<std::string>>>;
  const std::vector<std::byte> bytes = Serializer<Value>::save({1, std::vector<std::string>{"two", "three"}});
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      auto changed = bytes;
      changed[i] ^= std::byte(1 << bit);
      Value other;
      try {
        Serializer<Value>::load(other, changed);
      } catch (const MismatchError&) {
      }
    }
  }
}

TEST(Halves, AreElements) {
#ifdef __FLT16_MANT_DIG__
  __extension__ using Half = _Float16;
  static_assert(Element<Half>);
  EXPECT_EQ(to_string(element_type_of<Half>()), "float16");
#endif
}

// Types with one function for both directions.

/// A list of blocks, as in an adaptive mesh.
struct Block {
  int level = 0;
  char label[4] = {};
  std::vector<std::vector<double>> rows{};
  std::unique_ptr<Block> next{};
  template <class Archive>
  void serialize(Archive& archive) {
    archive("level", level, label, "rows", rows, next);
  }
};

struct OfBoost {
  double value = 0;
  std::map<int, std::string> names{};
  template <class Archive>
  void serialize(Archive& archive, unsigned version) {
    archive& value;
    if (version >= 1) {  // as with BOOST_CLASS_VERSION(OfBoost, 1)
      archive& names;
    }
    loads += Archive::is_loading::value ? 1 : 0;
  }
  int loads = 0;
};

struct Outside {
  std::vector<OfBoost> all{};
};
template <class Archive>
void serialize(Archive& archive, Outside& outside) {
  archive(outside.all);
}

TEST(OneFunction, ServesBothDirections) {
  Block block{1, "abc", {{1, 2}, {}}, std::make_unique<Block>(Block{2, "de", {{3}}, {}})};
  Block other{7, "x", {{9}}, {}};
  Serializer<Block>::load(other, Serializer<Block>::save(block));
  EXPECT_EQ(other.level, 1);
  EXPECT_STREQ(other.label, "abc");
  EXPECT_EQ(other.rows, block.rows);
  ASSERT_NE(other.next, nullptr);
  EXPECT_EQ(other.next->level, 2);
  EXPECT_EQ(other.next->rows, block.next->rows);
  EXPECT_EQ(other.next->next, nullptr);
}

TEST(OneFunction, IsFoundOutsideAndWithAVersion) {
  Outside outside;
  outside.all.push_back({.value = 2.5, .names = {{1, "one"}}});
  Outside other;
  Serializer<Outside>::load(other, Serializer<Outside>::save(outside));
  ASSERT_EQ(other.all.size(), 1U);
  EXPECT_EQ(other.all[0].value, 2.5);
  EXPECT_EQ(other.all[0].names, outside.all[0].names);
  EXPECT_EQ(other.all[0].loads, 1);
  static_assert(Storable<std::map<std::string, Outside>>);
}

struct Renamed {
  int depth = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive("depth", depth);
  }
};

struct Derived : Renamed {
  double lost_without_a_function_of_its_own = 0;
};
static_assert(detail::InheritsSerialize<Derived, Archive<true>> && !detail::InheritsSerialize<Renamed, Archive<true>>);
static_assert(!detail::InheritsSerialize<OfBoost, Archive<true>> && !detail::InheritsSerialize<Outside, Archive<true>>);

TEST(OneFunction, NamesWhatDoesNotFit) {
  Renamed renamed;
  EXPECT_THAT(test::error_text<MismatchError>([&] { Serializer<Renamed>::load(renamed, Serializer<Block>::save({})); }),
              testing::HasSubstr("hold \"level\" where the program has \"depth\""));
  std::vector<std::byte> longer = Serializer<Renamed>::save(renamed);
  longer.push_back({});
  EXPECT_THROW(Serializer<Renamed>::load(renamed, longer), MismatchError);
  longer.resize(5);
  EXPECT_THROW(Serializer<Renamed>::load(renamed, longer), MismatchError);
}

}  // namespace
}  // namespace reprieve
