// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Numbers as people read them, for messages. Pure.

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

namespace reprieve::core {

/// "0.0213 s", "42 s", "1.5e+03 s": three digits.
std::string seconds_text(std::chrono::duration<double> duration);

/// "42 s", "3 min 20 s", "2 h 5 min": whole seconds.
std::string duration_text(std::chrono::duration<double> duration);

/// "17 B", "1.5 KiB", "12.0 GiB".
std::string size_text(std::uint64_t bytes);

/// How far a transfer is: "1.2 GiB of 2.9 GiB, 410.0 MiB/s, 4 s left".
std::string transfer_text(std::uint64_t done_bytes, std::uint64_t total_bytes, std::chrono::duration<double> elapsed);

/// "[3, 4]", as the shape of an array is written.
std::string list_text(std::span<const std::uint64_t> numbers);

}  // namespace reprieve::core
