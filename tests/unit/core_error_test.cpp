#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <set>
#include <string>

#include "core/outcome.hpp"
#include "reprieve/error.hpp"

namespace reprieve {
namespace {

using ::testing::IsEmpty;

constexpr auto kFirstCode = static_cast<std::int32_t>(ErrorCode::config);
constexpr auto kLastCode = static_cast<std::int32_t>(ErrorCode::internal);

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
  expect_thrown<GraceExpired>(ErrorCode::grace_expired);
  expect_thrown<UnresponsiveError>(ErrorCode::unresponsive);
  expect_thrown<Error>(ErrorCode::internal);
}

TEST(Error, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (auto code = kFirstCode; code <= kLastCode; ++code) {
    names.insert(to_string(static_cast<ErrorCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kLastCode - kFirstCode + 1));
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(Error, UnresponsiveFromAnotherRankNamesNobody) {
  try {
    throw_error(ErrorCode::unresponsive, "late", 0);
  } catch (const UnresponsiveError& error) {
    EXPECT_THAT(error.missing_ranks(), IsEmpty());
  }
}

TEST(Outcome, SuccessIsNoFailure) {
  EXPECT_FALSE(core::capture([] {}).has_value());
}

TEST(Outcome, KeepsCodeAndMessageOfErrors) {
  const auto outcome = core::capture([] { throw StorageError(ErrorCode::no_space, "disk full"); });
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->code, ErrorCode::no_space);
  EXPECT_EQ(outcome->message, "disk full");
}

TEST(Outcome, OtherExceptionsAreInternal) {
  const auto no_memory = core::capture([] { throw std::bad_alloc(); });
  ASSERT_TRUE(no_memory.has_value());
  EXPECT_EQ(no_memory->code, ErrorCode::internal);
  EXPECT_EQ(no_memory->message, std::bad_alloc().what());

  const auto strange = core::capture([] { throw 7; });
  ASSERT_TRUE(strange.has_value());
  EXPECT_EQ(strange->code, ErrorCode::internal);
  EXPECT_FALSE(strange->message.empty());
}

TEST(Outcome, UnresponsiveGoesThrough) {
  const auto operation = [] { throw UnresponsiveError("rank 2 is missing", {2}); };
  EXPECT_THROW(static_cast<void>(core::capture(operation)), UnresponsiveError);
}

}  // namespace
}  // namespace reprieve
