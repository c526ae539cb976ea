// SPDX-License-Identifier: BSD-3-Clause
// Slices, and the values of elements as `show` and `export` print them.

#include <gmock/gmock.h>

#include <array>
#include <complex>
#include <cstring>

#include "reprieve/error.hpp"
#include "values.hpp"

namespace reprieve::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ToolSlices, AreThoseOfPython) {
  const Extents shape{100, 20};
  EXPECT_THAT(parse_slices("", shape), ElementsAre(Slice{0, 100, 1, false}, Slice{0, 20, 1, false}));
  EXPECT_THAT(parse_slices("0:10, 5", shape), ElementsAre(Slice{0, 10, 1, false}, Slice{5, 1, 1, true}));
  EXPECT_THAT(parse_slices("-3:", shape), ElementsAre(Slice{97, 3, 1, false}, Slice{0, 20, 1, false}));
  EXPECT_THAT(parse_slices(":-1:7,-1", shape), ElementsAre(Slice{0, 15, 7, false}, Slice{19, 1, 1, true}));
  EXPECT_THAT(parse_slices("90:1000", shape)[0], (Slice{90, 10, 1, false}));
  EXPECT_EQ(parse_slices("50:10", shape)[0].count, 0U);
  EXPECT_EQ(parse_slices("-1000:2", shape)[0].count, 2U);
  EXPECT_TRUE(parse_slices("", {}).empty());
}

TEST(ToolSlices, WrongOnesSayWhatIsWrong) {
  const auto error_of = [](const char* text, const Extents& shape) {
    try {
      static_cast<void>(parse_slices(text, shape));
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(error_of("10", {10}), HasSubstr("the index \"10\" is not in dimension 0, which has the length 10"));
  EXPECT_THAT(error_of("-11", {10}), HasSubstr("is not in dimension 0"));
  EXPECT_THAT(error_of("1,", {10, 10}), HasSubstr("is not in dimension 1"));
  EXPECT_THAT(error_of("1, 2", {10}), HasSubstr("too many slices: the shape is [10]"));
  EXPECT_THAT(error_of("0", {}), HasSubstr("too many slices: the shape is scalar"));
  EXPECT_THAT(error_of("a:", {10}), HasSubstr("\"a\" is no whole number"));
  EXPECT_THAT(error_of("::0", {10}), HasSubstr("a slice goes forward"));
  EXPECT_THAT(error_of("::-1", {10}), HasSubstr("a slice goes forward"));
}

template <class T>
std::string text(ElementType type, const T& value) {
  return value_text(type, {}, std::as_bytes(std::span(&value, 1)));
}

TEST(ToolValues, HaveAllTheirDigits) {
  EXPECT_EQ(text({ElementClass::floating, 8}, 0.1), "0.1");
  EXPECT_EQ(text({ElementClass::floating, 4}, 0.1F), "0.1");
  EXPECT_EQ(text({ElementClass::floating, 8}, 1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(text({ElementClass::complex, 16}, std::complex<double>(1.5, -2)), "(1.5-2j)");
  EXPECT_EQ(text({ElementClass::signed_integer, 1}, std::int8_t{-7}), "-7");
  EXPECT_EQ(text({ElementClass::boolean, 1}, std::uint8_t{1}), "true");
  EXPECT_EQ(text({ElementClass::opaque, 2}, std::array<std::uint8_t, 2>{0x01, 0xab}), "0x01ab");
  EXPECT_EQ(text({ElementClass::text, 4}, std::array<char, 4>{'a', 'b', 0, 'x'}), "ab");
}

TEST(ToolValues, NumbersOfSixteenBits) {
  const auto half = [](std::uint16_t bits) { return text({ElementClass::floating, 2}, bits); };
  EXPECT_EQ(half(0x3c00), "1");
  EXPECT_EQ(half(0xc100), "-2.5");
  EXPECT_EQ(half(0x0001), "5.9604645e-08");
  EXPECT_EQ(half(0x7c00), "inf");
  EXPECT_EQ(half(0x7e00), "nan");
}

TEST(ToolValues, MembersOfStructs) {
  struct Particle {
    double x = 0.5;
    std::array<std::int32_t, 2> cell{3, 4};
  };
  const Members members{{"x", {ElementClass::floating, 8}, 0}, {"cell", {ElementClass::signed_integer, 4}, 8, {2}}};
  const Particle particle;
  const auto bytes = std::as_bytes(std::span(&particle, 1));
  EXPECT_EQ(value_text({ElementClass::opaque, 16}, members, bytes), R"({"x":0.5,"cell":[3,4]})");
}

}  // namespace
}  // namespace reprieve::tool
