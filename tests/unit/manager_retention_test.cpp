// SPDX-License-Identifier: BSD-3-Clause
// Which checkpoints the policy gives up.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "manager/checkpoint_list.hpp"

namespace reprieve::manager {
namespace {

using namespace std::chrono_literals;
using Numbers = std::vector<std::uint64_t>;

const std::chrono::system_clock::time_point kStart{std::chrono::seconds(1'700'000'000)};

/// Checkpoints 1 to count, one per minute.
std::vector<RetentionEntry> one_per_minute(std::uint64_t count) {
  std::vector<RetentionEntry> entries;
  for (std::uint64_t number = 1; number <= count; ++number) {
    entries.push_back({number, kStart + std::chrono::minutes(number)});
  }
  return entries;
}

TEST(Retention, KeepsAllWithoutALimit) { EXPECT_EQ(to_retire(one_per_minute(50), {0, 0s}, 50), Numbers{}); }

TEST(Retention, KeepsAllUpToTheLimit) {
  EXPECT_EQ(to_retire({}, {3, 0s}, 1), Numbers{});
  EXPECT_EQ(to_retire(one_per_minute(3), {3, 0s}, 3), Numbers{});
}

TEST(Retention, GivesUpAllButTheNewest) {
  EXPECT_EQ(to_retire(one_per_minute(5), {3, 0s}, 5), (Numbers{1, 2}));
  EXPECT_EQ(to_retire(one_per_minute(5), {1, 0s}, 5), (Numbers{1, 2, 3, 4}));
}

TEST(Retention, TheOrderOfTheListCountsNotTheNumbers) {
  auto entries = one_per_minute(5);
  std::reverse(entries.begin(), entries.end());
  EXPECT_EQ(to_retire(entries, {2, 0s}, 1), (Numbers{5, 4, 3}));
}

TEST(Retention, KeepsOnePerSpanBeyondTheNewest) {
  // Newest: 9 and 10. Of 1 to 8: the oldest, and each that is 3 minutes after the one kept before.
  EXPECT_EQ(to_retire(one_per_minute(10), {2, 3min}, 10), (Numbers{2, 3, 5, 6, 8}));
}

TEST(Retention, AskedAfterEverySaveKeepsTheSame) {
  std::vector<RetentionEntry> kept;
  for (const RetentionEntry& entry : one_per_minute(10)) {
    kept.push_back(entry);
    const Numbers retired = to_retire(kept, {2, 3min}, entry.number);
    std::erase_if(kept, [&](const RetentionEntry& e) {
      return std::find(retired.begin(), retired.end(), e.number) != retired.end();
    });
  }
  Numbers numbers;
  std::transform(kept.begin(), kept.end(), std::back_inserter(numbers), [](const auto& e) { return e.number; });
  EXPECT_EQ(numbers, (Numbers{1, 4, 7, 9, 10}));
}

TEST(Retention, AskedTwiceGivesUpNothingMore) {
  auto entries = one_per_minute(20);
  const Numbers retired = to_retire(entries, {3, 5min}, 20);
  std::erase_if(entries, [&](const RetentionEntry& e) {
    return std::find(retired.begin(), retired.end(), e.number) != retired.end();
  });
  EXPECT_EQ(to_retire(entries, {3, 5min}, 20), Numbers{});
}

TEST(Retention, NeverGivesUpWhatWasJustCommitted) {
  // Checkpoint 2 was written again after a restart from an explicitly chosen older one.
  EXPECT_EQ(to_retire(one_per_minute(6), {2, 0s}, 2), (Numbers{1, 3, 4}));
}

TEST(Retention, AClockThatWentBackBeginsANewSpan) {
  std::vector<RetentionEntry> entries{{1, kStart + 10h},   {2, kStart},      {3, kStart + 1min}, {4, kStart + 60min},
                                      {5, kStart + 61min}, {6, kStart + 2h}, {7, kStart + 3h}};
  EXPECT_EQ(to_retire(entries, {2, 1h}, 7), (Numbers{3, 5}));
}

TEST(Retention, AClockThatWentBackALittleKeepsNothingMore) {
  std::vector<RetentionEntry> entries{
      {1, kStart + 10h}, {2, kStart + 10h - 1s}, {3, kStart + 10h + 1min}, {4, kStart + 11h}};
  EXPECT_EQ(to_retire(entries, {1, 1h}, 4), (Numbers{2, 3}));
}

TEST(Retention, TimesAtTheEndsOfTheClockDoNotOverflow) {
  const auto last = std::chrono::system_clock::time_point::max();
  const auto first = std::chrono::system_clock::time_point::min();
  EXPECT_EQ(to_retire({{1, last}, {2, first}, {3, last}, {4, last}}, {1, 1h}, 4), Numbers{});
}

}  // namespace
}  // namespace reprieve::manager
