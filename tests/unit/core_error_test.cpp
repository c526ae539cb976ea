// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>

#include <new>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "reprieve/error.hpp"

namespace reprieve {
namespace {

using ::testing::IsEmpty;
using ::testing::Property;
using ::testing::Throws;

constexpr std::int32_t kGivenUp = 11;  ///< no version has ever told it
constexpr auto kFirstCode = static_cast<std::int32_t>(ErrorCode::config);
constexpr auto kLastCode = static_cast<std::int32_t>(ErrorCode::no_memory);

template <class Expected>
void expect_thrown(ErrorCode code) {
  try {
    throw_error(code, "what happened", 3);
  } catch (const Expected& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_STREQ(error.what(), "what happened");
    EXPECT_EQ(error.origin_rank(), 3);
    return;
  } catch (const std::exception& other) {
    ADD_FAILURE() << to_string(code) << " became " << typeid(other).name();
  }
}

TEST(Error, EachCodeHasItsException) {
  expect_thrown<ConfigError>(ErrorCode::config);
  expect_thrown<UsageError>(ErrorCode::usage);
  expect_thrown<StorageError>(ErrorCode::io);
  expect_thrown<StorageError>(ErrorCode::no_space);
  expect_thrown<StorageError>(ErrorCode::permission);
  expect_thrown<StorageError>(ErrorCode::locked);
  expect_thrown<CorruptError>(ErrorCode::corrupt);
  expect_thrown<MismatchError>(ErrorCode::mismatch);
  expect_thrown<MpiError>(ErrorCode::mpi);
  expect_thrown<ClusterError>(ErrorCode::cluster);
  expect_thrown<UnresponsiveError>(ErrorCode::unresponsive);
  expect_thrown<Error>(ErrorCode::internal);
  expect_thrown<Error>(ErrorCode::no_memory);
}

/// Programs and logs of older versions know them as numbers.
TEST(Error, CodesKeepTheirNumbers) {
  EXPECT_EQ(static_cast<int>(ErrorCode::cluster), 10);
  EXPECT_EQ(static_cast<int>(ErrorCode::unresponsive), 12);
  EXPECT_EQ(static_cast<int>(ErrorCode::internal), 13);
  EXPECT_EQ(static_cast<int>(ErrorCode::no_memory), 14);
  EXPECT_STREQ(to_string(static_cast<ErrorCode>(kGivenUp)), "unknown");
}

TEST(Error, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (auto code = kFirstCode; code <= kLastCode; ++code) {
    if (code != kGivenUp) {
      names.insert(to_string(static_cast<ErrorCode>(code)));
    }
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kLastCode - kFirstCode));
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(Error, AMessageHasTheCodeOfItsEntry) {
  const std::string text = "there is no checkpoint directory [RPV-0101]";
  const UsageError error("there is no checkpoint directory");
  EXPECT_EQ(error.what(), text);
  EXPECT_EQ(UsageError(error.what()).what(), text);
  EXPECT_EQ(ClusterError(std::string("rank 3: ") + error.what()).what(), "rank 3: " + text);
  EXPECT_STREQ(UsageError("a handler: there is no checkpoint directory\n  pass one").what(),
               "a handler: there is no checkpoint directory [RPV-0101]\n  pass one");
  EXPECT_EQ(core::message_code_in(text), "RPV-0101");
}

/// That of the error that it was made of first.
TEST(Error, AMessageHasOneCode) {
  EXPECT_STREQ(UsageError("none is valid:\n  a [RPV-0208]\n  b [RPV-0209]").what(),
               "none is valid:\n  a [RPV-0208]\n  b");
  EXPECT_STREQ(UsageError("there is no checkpoint directory [RPV-9999]; so").what(),
               "there is no checkpoint directory [RPV-9999]; so");
  EXPECT_STREQ(UsageError("none [RPV-12], [RPV-123a]").what(), "none [RPV-12], [RPV-123a]");
  EXPECT_EQ(core::message_code_in("none [RPV-12"), "");
}

TEST(Error, UnresponsiveFromAnotherRankNamesNobody) {
  EXPECT_THAT([] { throw_error(ErrorCode::unresponsive, "late", 0); },
              Throws<UnresponsiveError>(Property(&UnresponsiveError::missing_ranks, IsEmpty())));
}

TEST(Outcome, KeepsCodeMessageAndOriginOfErrors) {
  EXPECT_FALSE(core::capture([] {}).has_value()) << "success is no failure";
  const auto outcome = core::capture([] { throw StorageError(ErrorCode::no_space, "disk full", 2); });
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->code, ErrorCode::no_space);
  EXPECT_EQ(outcome->message, "disk full");
  EXPECT_EQ(outcome->origin_rank, 2);
  EXPECT_THAT([&] { core::throw_failure(*outcome); }, Throws<StorageError>(Property(&StorageError::origin_rank, 2)));
}

TEST(Outcome, OtherExceptionsAreInternal) {
  const auto strange = core::capture([] { throw 7; });
  ASSERT_TRUE(strange.has_value());
  EXPECT_EQ(strange->code, ErrorCode::internal);
  EXPECT_FALSE(strange->message.empty());
}

TEST(Outcome, MemoryThatCouldNotBeHadIsAFailureOfItsOwn) {
  const auto unknown = core::capture([] { throw std::bad_alloc(); });
  ASSERT_TRUE(unknown.has_value());
  EXPECT_EQ(unknown->code, ErrorCode::no_memory);
  EXPECT_EQ(unknown->asked_bytes, 0);

#ifdef REPRIEVE_SANITIZED
  GTEST_SKIP() << "sanitizers end a program that asks for so much memory";
#endif
  std::vector<std::uint64_t> much;
  const auto known = core::capture([&] { core::resize_or_report(much, std::uint64_t{1} << 59U); });
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->code, ErrorCode::no_memory);
  EXPECT_EQ(known->asked_bytes, std::uint64_t{1} << 62U);
  const auto again = core::capture([&] { core::throw_failure(*known); });
  EXPECT_EQ(again->asked_bytes, known->asked_bytes);
}

TEST(Outcome, UnresponsiveGoesThrough) {
  const auto operation = [] { throw UnresponsiveError("rank 2 is missing", {2}); };
  EXPECT_THROW(static_cast<void>(core::capture(operation)), UnresponsiveError);
}

}  // namespace
}  // namespace reprieve
