// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Text and numbers as they stand in a page. The page is XML as well as HTML. Pure.

#include <string>

namespace reprieve::tool {

/// @p text as text, whatever it is: what would be a tag or an entity is escaped, and bytes that are not UTF-8 and
/// characters that steer terminals are replaced.
std::string html(const std::string& text);

/// A place or a length in a picture: one digit behind the point, and none that is not needed.
std::string coordinate(double value);

/// "0.0213 s", "42 s", "3 min 20 s", "2 h 5 min", "3 d 4 h".
std::string span_text(double seconds);

/// A size as `size_text` has it, of bytes that were calculated with.
std::string bytes_text(double bytes);

/// "61 %", "0.8 %"; "0 %" if @p whole is nothing.
std::string share_text(double part, double whole);

}  // namespace reprieve::tool
