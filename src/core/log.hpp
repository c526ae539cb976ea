// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The log, and names and numbers as its messages show them.

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace reprieve::core::log {

// The library's logger: one line per important event, on stderr, with the rank.

/// The names of the levels, the quietest first.
inline constexpr std::array<std::string_view, 5> kLevelNames{"off", "error", "warning", "info", "debug"};

/// Sets the rank that lines carry; -1 (the start value) shows none.
void set_rank(int rank);

/// Sets the level by its name, one of `kLevelNames`.
/// @throws ConfigError if the name is not one of these
void set_level(const std::string& name);

/// The name of the level, one of `kLevelNames`.
std::string_view level();

namespace detail {

/// Indices of `kLevelNames`.
enum class Importance { error = 1, warning, info, debug };

/// Writes a line if the level wants it. Messages are formatted there, not in the templates below: each of these would
/// hold a copy of that code. Failures are not thrown: log lines are also written during clean-ups.
void write(Importance importance, fmt::string_view format, fmt::format_args args) noexcept;

}  // namespace detail

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  detail::write(detail::Importance::debug, format, fmt::make_format_args(args...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  detail::write(detail::Importance::info, format, fmt::make_format_args(args...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  detail::write(detail::Importance::warning, format, fmt::make_format_args(args...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  detail::write(detail::Importance::error, format, fmt::make_format_args(args...));
}

/// Runs @p work, an end or a clean-up that nobody can do anything about if it fails: then a warning that begins with
/// @p what says why.
template <class Work>
void or_warn(std::string_view what, Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (const std::exception& error) {
    warning("{}: {}", what, error.what());
  }
}

}  // namespace reprieve::core::log

// Names and numbers as people read them, for messages. Pure.

namespace reprieve::core {

/// A name or text from elsewhere, as it may be shown: bytes that would steer a terminal, begin a line or are no UTF-8
/// are escaped, "\\x1b".
std::string escaped(std::string_view text);

/// "21.3 ms", "42 s", "1.5e+03 s": three digits.
std::string seconds_text(double seconds);

/// "42 s", "3 min 20 s", "2 h 5 min": whole seconds.
std::string duration_text(std::chrono::duration<double> duration);

/// "17 B", "1.5 KiB", "12.0 GiB".
std::string size_text(std::uint64_t bytes);

/// "1 rank", "2 ranks".
template <std::integral Count>
std::string count_text(Count count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// How far a transfer is: "1.2 GiB of 2.9 GiB, 410.0 MiB/s, 4 s left".
std::string transfer_text(std::uint64_t done_bytes, std::uint64_t total_bytes, std::chrono::duration<double> elapsed);

/// "[3, 4]", as the shape of an array is written.
std::string list_text(std::span<const std::uint64_t> numbers);

}  // namespace reprieve::core
