// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/dataset.hpp"

#include <xxhash.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <numeric>
#include <reprieve/error.hpp>

namespace trainer {

namespace {

constexpr std::size_t kHoldOutEvery = 5;
constexpr unsigned kMaxPixel = 16;

/// Closes, and ignores the result: nothing was written.
struct GzClose {
  void operator()(gzFile file) const noexcept { static_cast<void>(gzclose_r(file)); }
};
using GzFile = std::unique_ptr<gzFile_s, GzClose>;

[[noreturn]] void fail_line(const std::string& origin, std::size_t line, const std::string& problem) {
  throw reprieve::ConfigError("data set " + origin + ", line " + std::to_string(line) + ": " + problem);
}

/// The numbers of a line, which commas separate.
std::vector<unsigned> parse_numbers(std::string_view line, const std::string& origin, std::size_t line_number) {
  std::vector<unsigned> numbers;
  const char* const end = line.data() + line.size();
  for (const char* at = line.data();;) {
    const auto [next, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc{} || (next != end && *next != ',')) {
      fail_line(origin, line_number, "value " + std::to_string(numbers.size()) + " is not a number that fits");
    }
    if (next == end) {
      return numbers;
    }
    at = next + 1;
  }
}

void parse_line(std::string_view line, const std::string& origin, std::size_t line_number, Samples& samples) {
  const std::vector<unsigned> numbers = parse_numbers(line, origin, line_number);
  if (constexpr std::size_t kWanted = kPixels + 1; numbers.size() != kWanted) {
    fail_line(origin, line_number,
              std::to_string(numbers.size()) + " values instead of " + std::to_string(kWanted) + " (pixels and digit)");
  }
  if (std::any_of(numbers.begin(), numbers.end() - 1, [](unsigned pixel) { return pixel > kMaxPixel; })) {
    fail_line(origin, line_number, "a pixel is greater than " + std::to_string(kMaxPixel));
  }
  if (numbers[kPixels] >= kClasses) {
    fail_line(origin, line_number, "digit " + std::to_string(numbers[kPixels]) + " is not one of 0 to 9");
  }
  for (std::size_t p = 0; p < kPixels; ++p) {
    samples.inputs.push_back(static_cast<double>(numbers[p]) / kMaxPixel);
  }
  samples.labels.push_back(static_cast<std::uint8_t>(numbers[kPixels]));
}

}  // namespace

std::string read_gzip(const std::filesystem::path& file) {
  errno = 0;
  const GzFile input(gzopen(file.c_str(), "rb"));
  if (!input) {
    throw reprieve::StorageError(reprieve::ErrorCode::io, "cannot open the data set " + file.string() + ": " +
                                                              std::strerror(errno == 0 ? ENOMEM : errno));
  }
  std::string text;
  std::array<char, 65536> buffer{};
  int got = 0;
  while ((got = gzread(input.get(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  // A file that was cut short ends like a complete one for gzread; only the error code differs.
  int code = Z_OK;
  const std::string problem = gzerror(input.get(), &code);
  if (got < 0 || code != Z_OK) {
    const std::string reason =
        code == Z_ERRNO ? file.string() + ": " + std::strerror(errno) : problem;  // names the file
    throw reprieve::StorageError(reprieve::ErrorCode::io, "cannot read the data set " + reason);
  }
  return text;
}

Dataset parse_digits(std::string_view text, const std::string& origin) {
  Dataset dataset;
  dataset.fingerprint = XXH3_64bits(text.data(), text.size());
  std::size_t line_number = 0;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    Samples& part = line_number % kHoldOutEvery == 0 ? dataset.held_out : dataset.training;
    ++line_number;
    parse_line(line, origin, line_number, part);
  }
  if (dataset.training.labels.empty()) {
    throw reprieve::ConfigError("data set " + origin + ": fewer than two images");
  }
  return dataset;
}

Sampler::Sampler(std::size_t sample_count, std::uint64_t seed)
    : state_{std::mt19937_64(seed), std::vector<std::uint32_t>(sample_count), 0} {
  std::iota(state_.order.begin(), state_.order.end(), 0U);
  std::shuffle(state_.order.begin(), state_.order.end(), state_.engine);
}

std::span<const std::uint32_t> Sampler::next(std::size_t batch_size) {
  if (state_.position + batch_size > state_.order.size()) {
    std::shuffle(state_.order.begin(), state_.order.end(), state_.engine);
    state_.position = 0;
  }
  const std::span<const std::uint32_t> batch(&state_.order[state_.position], batch_size);
  state_.position += batch_size;
  return batch;
}

}  // namespace trainer
