// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Numbers and times as people read them.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace apps {

/// With so many digits behind the point.
std::string fixed(double value, int decimals);

/// With four significant digits, as in 1.234e-05.
std::string scientific(double value);

/// Filled with spaces in front.
std::string right(const std::string& text, std::size_t width);

/// "1 rank", "4 ranks".
std::string ranks_text(int count);

/// "7.3 s", "42 s", "3:05", "1:02:03".
std::string format_duration(std::chrono::duration<double> duration);

/// 16 hexadecimal digits.
std::string to_hex(std::uint64_t digest);

}  // namespace apps
