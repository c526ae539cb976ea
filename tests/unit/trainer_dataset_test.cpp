// SPDX-License-Identifier: BSD-3-Clause
// Reading the digits, and files that are not them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "reprieve/error.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"
#include "trainer/dataset.hpp"

namespace trainer {
namespace {

using testing::HasSubstr;

const std::filesystem::path kDigits = REPRIEVE_SOURCE_DIR "/configs/digits.csv.gz";

std::string image(unsigned pixel, unsigned digit) {
  std::string line;
  for (std::size_t i = 0; i < kPixels; ++i) {
    line += std::to_string(pixel) + ",";
  }
  return line + std::to_string(digit) + "\n";
}

std::string config_error_of(const std::string& text) {
  return reprieve::test::error_text<reprieve::ConfigError>([&] { static_cast<void>(parse_digits(text, "test")); });
}

TEST(Digits, AreThere) {
  const Dataset digits = parse_digits(read_gzip(kDigits), kDigits.string());
  EXPECT_EQ(digits.training.labels.size(), 1437U);
  EXPECT_EQ(digits.held_out.labels.size(), 360U);
  EXPECT_EQ(digits.training.inputs.size(), 1437U * kPixels);
  const auto [least, greatest] = std::minmax_element(digits.training.inputs.begin(), digits.training.inputs.end());
  EXPECT_EQ(*least, 0);
  EXPECT_EQ(*greatest, 1);
  for (std::uint8_t digit = 0; digit < kClasses; ++digit) {
    EXPECT_GT(std::count(digits.held_out.labels.begin(), digits.held_out.labels.end(), digit), 20);
  }
}

TEST(Digits, EveryFifthIsHeldOut) {
  std::string text;
  for (unsigned i = 0; i < 10; ++i) {
    text += image(16, i);
  }
  const Dataset dataset = parse_digits(text, "test");
  EXPECT_EQ(dataset.held_out.labels, (std::vector<std::uint8_t>{0, 5}));
  EXPECT_EQ(dataset.training.labels, (std::vector<std::uint8_t>{1, 2, 3, 4, 6, 7, 8, 9}));
  EXPECT_EQ(dataset.training.inputs.front(), 1.0);
}

TEST(Digits, LineEndingsOfOtherSystemsAndAMissingLastOneAreFine) {
  std::string text = image(1, 2) + image(3, 4);
  text.pop_back();
  const Dataset unix_like = parse_digits(text, "test");
  text.replace(text.find('\n'), 1, "\r\n");
  const Dataset windows_like = parse_digits(text, "test");
  EXPECT_EQ(unix_like.training.inputs, windows_like.training.inputs);
  EXPECT_NE(unix_like.fingerprint, windows_like.fingerprint);
}

TEST(Digits, ErrorsNameTheLineAndTheProblem) {
  const std::string good = image(1, 2);
  EXPECT_THAT(config_error_of(good + "1,2,3\n"), HasSubstr("line 2: 3 values instead of 65"));
  EXPECT_THAT(config_error_of(good + "1," + good), HasSubstr("line 2: 66 values instead of 65"));
  EXPECT_THAT(config_error_of(good + image(17, 2)), HasSubstr("line 2: a pixel is greater than 16"));
  EXPECT_THAT(config_error_of(good + image(1, 10)), HasSubstr("line 2: digit 10"));
  EXPECT_THAT(config_error_of(good + "x" + good), HasSubstr("line 2: value 1 is not a number"));
  EXPECT_THAT(config_error_of(good + "-" + good), HasSubstr("line 2: value 1 is not a number"));
  EXPECT_THAT(config_error_of(good + "99999999999," + good), HasSubstr("line 2: value 1 is not a number that fits"));
  EXPECT_THAT(config_error_of(good + "\n" + good), HasSubstr("line 2: value 1 is not a number"));
  EXPECT_THAT(config_error_of(good + "1,"), HasSubstr("line 2: value 2 is not a number"));
  EXPECT_THAT(config_error_of(""), HasSubstr("fewer than two images"));
  EXPECT_THAT(config_error_of(good), HasSubstr("fewer than two images"));
}

class GzipFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& content) {
    const auto file = directory_.path() / "data.gz";
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

  static std::string compressed_digits() {
    std::ifstream file(kDigits, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static std::string storage_error_of(const std::filesystem::path& file) {
    return reprieve::test::error_text<reprieve::StorageError>([&] { static_cast<void>(read_gzip(file)); });
  }

  reprieve::test::TemporaryDirectory directory_;
};

TEST_F(GzipFile, MissingOneIsAnErrorWithItsName) {
  EXPECT_THAT(storage_error_of(directory_.path() / "none.gz"), HasSubstr("none.gz: No such file"));
}

TEST_F(GzipFile, ADirectoryIsAnError) { EXPECT_THAT(storage_error_of(directory_.path()), HasSubstr("directory")); }

TEST_F(GzipFile, CutShortIsAnErrorWhereverItEnds) {
  const std::string whole = compressed_digits();
  for (const std::size_t size : {std::size_t{20}, whole.size() / 2, whole.size() - 8, whole.size() - 1}) {
    EXPECT_NE(storage_error_of(write(whole.substr(0, size))), "no error") << size;
  }
}

TEST_F(GzipFile, AFlippedBitIsAnError) {
  std::string corrupt = compressed_digits();
  corrupt[corrupt.size() / 2] = static_cast<char>(corrupt[corrupt.size() / 2] ^ 1);
  EXPECT_NE(storage_error_of(write(corrupt)), "no error");
}

TEST_F(GzipFile, TextThatIsNotCompressedIsTakenAsItIs) { EXPECT_EQ(read_gzip(write("1,2\n")), "1,2\n"); }

// The order of the training samples.

std::vector<std::uint32_t> copy(std::span<const std::uint32_t> batch) { return {batch.begin(), batch.end()}; }

TEST(Sampler, UsesEverySampleOncePerPassAndLeavesTheRemainderOut) {
  Sampler sampler(10, 1);
  for (int pass = 0; pass < 5; ++pass) {
    std::set<std::uint32_t> seen;
    for (int batch = 0; batch < 3; ++batch) {
      const auto indices = sampler.next(3);
      seen.insert(indices.begin(), indices.end());
    }
    EXPECT_EQ(seen.size(), 9U);
    EXPECT_LT(*seen.rbegin(), 10U);
  }
}

TEST(Sampler, ShufflesAnewInEveryPass) {
  Sampler sampler(50, 1);
  const auto first = copy(sampler.next(50));
  const auto second = copy(sampler.next(50));
  EXPECT_NE(first, second);
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), second.begin(), second.end()));
}

TEST(Sampler, DependsOnItsSeedAlone) {
  EXPECT_EQ(copy(Sampler(50, 3).next(50)), copy(Sampler(50, 3).next(50)));
  EXPECT_NE(copy(Sampler(50, 3).next(50)), copy(Sampler(50, 4).next(50)));
}

TEST(Sampler, ContinuesFromACopyOfItsState) {
  Sampler original(20, 1);
  for (int i = 0; i < 7; ++i) {
    original.next(6);
  }
  Sampler restored(20, 99);
  restored.state() = original.state();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(copy(restored.next(6)), copy(original.next(6)));
  }
}

}  // namespace
}  // namespace trainer
