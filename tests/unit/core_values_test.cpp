// SPDX-License-Identifier: BSD-3-Clause

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/message.hpp"
#include "core/values.hpp"

namespace reprieve::core {
namespace {

TEST(Rare, TakesNothingForTheUsualValue) {
  const Rare<std::string> none;
  EXPECT_FALSE(none.is_set());
  EXPECT_EQ(*none, "");
  EXPECT_TRUE(none->empty());
  EXPECT_FALSE(Rare<std::string>(std::string()).is_set());
  EXPECT_EQ(none, Rare<std::string>(std::string()));
}

TEST(Rare, ACopyKeepsItsValueAndWhatWasMovedFromHasNone) {
  Rare<std::string> value(std::string("units"));
  const Rare<std::string> copy = value;
  value = std::string("other");
  EXPECT_EQ(*copy, "units");
  EXPECT_EQ(value->size(), 5U);
  EXPECT_NE(value, copy);
  EXPECT_EQ(copy, Rare<std::string>(std::string("units")));
  const Rare<std::string> taken = std::move(value);
  EXPECT_EQ(*taken, "other");
  EXPECT_EQ(*value, "");  // NOLINT(bugprone-use-after-move): that is what is asked
}

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Wall = std::chrono::system_clock;
using Time = Wall::time_point;

TEST(SaturatingTime, ConvertsWhatFits) {
  EXPECT_EQ(saturated<nanoseconds>(5s), 5s);
  EXPECT_EQ(saturated<seconds>(-1500ms), -1s);
  EXPECT_EQ(later(Time(10s), 5s), Time(15s));
  EXPECT_EQ(later(Time(10s), -15s), Time(-5s));
  EXPECT_EQ((between<milliseconds>(Time(10s), Time(7s))), -3s);
}

TEST(SaturatingTime, StopsAtTheEndsOfTheClock) {
  EXPECT_EQ(saturated<nanoseconds>(seconds::max()), nanoseconds::max());
  EXPECT_EQ(saturated<nanoseconds>(seconds::min()), nanoseconds::min());
  EXPECT_EQ(later(Time(10s), seconds::max()), Time::max());
  EXPECT_EQ(later(Time::max(), 1ns), Time::max());
  EXPECT_EQ(later(Time::min(), -1ns), Time::min());
  EXPECT_EQ(later(Time(-10s), seconds::min()), Time::min());
  EXPECT_EQ((between<nanoseconds>(Time::min(), Time::max())), nanoseconds::max());
  EXPECT_EQ((between<nanoseconds>(Time::max(), Time::min())), nanoseconds::min());
  EXPECT_EQ((between<nanoseconds>(Time::max(), Time::max())), 0ns);
  EXPECT_EQ(wall_clock_time(253'402'214'400), Time::max());  // the last day of the year 9999
  EXPECT_EQ(wall_clock_time(1'000), Time(1'000s));
}

// Values on their way between ranks.

enum class Paint : std::uint8_t { red, green };

struct SmallMessage {
  std::string name;
  std::vector<std::uint64_t> numbers;

  friend bool operator==(const SmallMessage&, const SmallMessage&) = default;
};
constexpr auto fields_of(const SmallMessage*) { return std::tuple(&SmallMessage::name, &SmallMessage::numbers); }

struct LargeMessage {
  Paint paint = Paint::red;
  std::int32_t small = 0;
  std::int64_t large = 0;
  bool flag = false;
  double real = 0;
  std::filesystem::path path;
  std::chrono::milliseconds duration{};
  std::chrono::system_clock::time_point time;
  std::optional<std::string> text;
  std::optional<SmallMessage> none;
  Rare<SmallMessage> rare;
  Rare<SmallMessage> usual;
  std::vector<SmallMessage> list;
  std::map<std::string, std::uint64_t> map;
  std::pair<Bytes, std::array<bool, 2>> pair;

  friend bool operator==(const LargeMessage&, const LargeMessage&) = default;
};
constexpr auto fields_of(const LargeMessage*) {
  using T = LargeMessage;
  return std::tuple(&T::paint, &T::small, &T::large, &T::flag, &T::real, &T::path, &T::duration, &T::time, &T::text,
                    &T::none, &T::rare, &T::usual, &T::list, &T::map, &T::pair);
}

LargeMessage example() {
  LargeMessage value;
  value.paint = Paint::green;
  value.small = -7;
  value.large = std::numeric_limits<std::int64_t>::min();
  value.flag = true;
  value.real = -0.1;
  value.path = "/latin\xe9/file";
  value.duration = std::chrono::milliseconds(-5);
  value.time += std::chrono::microseconds(1'700'000'000'123'456);
  value.text = "";
  value.rare = SmallMessage{"rare", {1, std::numeric_limits<std::uint64_t>::max()}};
  value.list = {{"a", {}}, {"\xff", {3}}};
  value.map = {{"x", 1}, {"y", 2}};
  value.pair = {to_bytes("bytes"), {true, false}};
  return value;
}

TEST(Message, BringsAllThatWasPutIn) { EXPECT_EQ(from_message<LargeMessage>(to_message(example())), example()); }

TEST(Message, MayHoldNothing) { EXPECT_EQ(from_message<LargeMessage>(to_message(LargeMessage{})), LargeMessage{}); }

TEST(Message, TakesValuesOneAfterTheOther) {
  Encoder message;
  const int a = 1;
  const std::string b = "b";
  message.put(std::tie(a, b));
  message.put(2U);
  const Bytes bytes = message.take();
  Decoder decoder(bytes);
  EXPECT_EQ(decoder.get<int>(), 1);
  EXPECT_FALSE(decoder.at_end());
  EXPECT_EQ((decoder.get<std::tuple<std::string, unsigned>>()), std::tuple("b", 2U));
  EXPECT_TRUE(decoder.at_end());
}

TEST(Message, ThatIsCutShortIsNoticed) {
  const Bytes bytes = to_message(example());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(static_cast<void>(from_message<LargeMessage>(std::span(bytes).first(size))), Error) << size;
  }
}

}  // namespace
}  // namespace reprieve::core
