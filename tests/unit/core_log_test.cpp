// SPDX-License-Identifier: BSD-3-Clause

#include <gmock/gmock.h>

#include <array>
#include <stdexcept>
#include <string>

#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "support/error_text.hpp"

namespace reprieve::core {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

class Log : public ::testing::Test {
 protected:
  void TearDown() override {
    log::set_rank(-1);
    log::set_level("info");
  }

  template <class Action>
  static std::string output_of(Action action) {
    ::testing::internal::CaptureStderr();
    action();
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(Log, LineHasTimeRankAndLevel) {
  const auto without_rank = output_of([] { log::warning("careful"); });
  EXPECT_THAT(without_rank, MatchesRegex(R"(\[reprieve [0-9:]+\.[0-9]+ warning\] careful
)"));
  log::set_rank(3);
  const auto line = output_of([] { log::info("saved {} bytes", 17); });
  EXPECT_THAT(line, MatchesRegex(R"(\[reprieve [0-9:]+\.[0-9]+ rank 3 info\] saved 17 bytes
)"));
}

TEST_F(Log, LevelDecidesWhatIsShown) {
  log::set_level("warning");
  EXPECT_THAT(output_of([] { log::info("quiet"); }), IsEmpty());
  EXPECT_THAT(output_of([] { log::error("loud"); }), HasSubstr("loud"));
  log::set_level("off");
  EXPECT_THAT(output_of([] { log::error("nothing"); }), IsEmpty());
  log::set_level("debug");
  EXPECT_THAT(output_of([] { log::debug("all"); }), HasSubstr("debug] all"));
}

struct Unprintable {};

}  // namespace
}  // namespace reprieve::core

template <>
struct fmt::formatter<reprieve::core::Unprintable> : fmt::formatter<int> {
  template <class Context>
  auto format(const reprieve::core::Unprintable&, Context& context) const -> decltype(context.out()) {
    throw std::runtime_error("no text");
  }
};

namespace reprieve::core {
namespace {

TEST_F(Log, LineThatCannotBeMadeIsNoError) {
  EXPECT_THAT(output_of([] { log::warning("{}", Unprintable()); }), HasSubstr("a line of the log cannot be written"));
  log::set_level("error");
  EXPECT_THAT(output_of([] { log::warning("{}", Unprintable()); }), IsEmpty());  // nobody makes what nobody reads
}

TEST_F(Log, EveryLevelNameIsKnownAndOthersAreErrors) {
  for (const auto name : log::kLevelNames) {
    log::set_level(std::string(name));
    EXPECT_EQ(log::level(), name);
  }
  const std::string error = test::error_text<ConfigError>([] { log::set_level("verbose"); });
  EXPECT_THAT(error, HasSubstr("\"verbose\""));
  EXPECT_THAT(error, HasSubstr("off, error, warning, info, debug"));
}

// Names and numbers as messages show them.

using namespace std::chrono_literals;

TEST(Text, WhatSteersATerminalIsEscaped) {
  EXPECT_EQ(escaped("ckpt-7.h5 caf\u00e9 \u20ac \U0001f600"), "ckpt-7.h5 caf\u00e9 \u20ac \U0001f600");
  EXPECT_EQ(escaped("a\x1b[2J\nckpt-9\x7f"), "a\\x1b[2J\\x0ackpt-9\\x7f");
  EXPECT_EQ(escaped("\u009b\u0080\u00a0"), "\\xc2\\x9b\\xc2\\x80\u00a0") << "C1, then a space";
  EXPECT_EQ(escaped("\x9b\xff\xc2"), "\\x9b\\xff\\xc2") << "no UTF-8";
}

TEST(Text, SecondsHaveThreeDigits) {
  EXPECT_EQ(seconds_text(0.0213), "21.3 ms");
  EXPECT_EQ(seconds_text(0.9996), "1 s");
  EXPECT_EQ(seconds_text(0.00025), "250 us");
  EXPECT_EQ(seconds_text(0), "0 s");
  EXPECT_EQ(seconds_text(42), "42 s");
  EXPECT_EQ(seconds_text(1500), "1.5e+03 s");
}

TEST(Text, DurationsAreShort) {
  EXPECT_EQ(duration_text(7.4s), "7 s");
  EXPECT_EQ(duration_text(200s), "3 min 20 s");
  EXPECT_EQ(duration_text(7500s), "2 h 5 min");
}

TEST(Text, SizesHaveAUnit) {
  EXPECT_EQ(size_text(17), "17 B");
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1024), "1.0 KiB");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(size_text(~std::uint64_t{0}), "16.0 EiB");
}

TEST(Text, ATransferTellsItsRateAndWhatIsLeft) {
  constexpr std::uint64_t kMiB = 1 << 20;
  EXPECT_EQ(transfer_text(100 * kMiB, 400 * kMiB, 10s), "100.0 MiB of 400.0 MiB, 10.0 MiB/s, 30 s left");
  EXPECT_EQ(transfer_text(0, 400, 10s), "0 B of 400 B, 0 B/s");
  EXPECT_EQ(transfer_text(500, 400, 10s), "500 B of 400 B, 50 B/s");
}

TEST(Text, ListsAreShapes) {
  EXPECT_EQ(list_text(std::array<std::uint64_t, 2>{3, 4}), "[3, 4]");
  EXPECT_EQ(list_text({}), "[]");
}

}  // namespace
}  // namespace reprieve::core
