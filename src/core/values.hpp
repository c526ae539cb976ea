// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Small types: bytes, values that few objects have, times that never overflow.

#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace reprieve::core {

// Bytes that ranks exchange and files hold.

using Bytes = std::vector<std::byte>;

[[nodiscard]] inline Bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

[[nodiscard]] inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The number that fills the whole text; nothing if it is none, or does not fit.
template <class Number>
[[nodiscard]] std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && stop == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Values that few of many objects have.

/// A `T` that is mostly `T{}`: then it takes no more than an empty pointer. Copies share the value, which never
/// changes: another one replaces it. As safe on threads as a `T`.
template <class T>
class Rare {
 public:
  Rare() = default;
  /// @throws std::bad_alloc
  Rare(T value) : value_(value == T{} ? nullptr : std::make_shared<const T>(std::move(value))) {}

  [[nodiscard]] const T& operator*() const noexcept {
    static const T none{};
    return value_ ? *value_ : none;
  }
  [[nodiscard]] const T* operator->() const noexcept { return &**this; }
  operator const T&() const noexcept { return **this; }
  /// False: it is `T{}`.
  [[nodiscard]] bool is_set() const noexcept { return value_ != nullptr; }

  friend bool operator==(const Rare& a, const Rare& b) { return *a == *b; }

 private:
  std::shared_ptr<const T> value_;  ///< null: T{}
};

/// A projection for algorithms over a map: the value of an entry. `std::views::values` needs a newer clang than 14.
inline constexpr auto kMapped = [](const auto& entry) -> const auto& { return entry.second; };

// Times that come from outside: a wall time of 300 years, or a deadline in the year 9999, is further away than a clock
// of nanoseconds can count (to the year 2262). They become the last moment that it can name, never one that has
// passed.

/// @p duration as a `To`, or the longest that it can hold.
template <class To, class Rep, class Period>
constexpr To saturated(std::chrono::duration<Rep, Period> duration) {
  using Wide = std::chrono::duration<long double, typename To::period>;
  const Wide value = std::chrono::duration_cast<Wide>(duration);
  if (value >= std::chrono::duration_cast<Wide>(To::max())) {
    return To::max();
  }
  return value <= std::chrono::duration_cast<Wide>(To::min()) ? To::min() : std::chrono::duration_cast<To>(duration);
}

/// The moment @p duration after @p start, or before it if that is negative.
template <class Clock, class Tick, class Rep, class Period>
constexpr std::chrono::time_point<Clock, Tick> later(std::chrono::time_point<Clock, Tick> start,
                                                     std::chrono::duration<Rep, Period> duration) {
  using Time = std::chrono::time_point<Clock, Tick>;
  const Tick step = saturated<Tick>(duration);
  const Tick from = start.time_since_epoch();
  if (step >= Tick::zero()) {
    return from > Tick::max() - step ? Time::max() : Time(from + step);
  }
  return from < Tick::min() - step ? Time::min() : Time(from + step);
}

/// From @p start to @p end, in units of `To`; negative if @p end was before.
template <class To, class Clock, class Tick>
constexpr To between(std::chrono::time_point<Clock, Tick> start, std::chrono::time_point<Clock, Tick> end) {
  const Tick a = start.time_since_epoch();
  const Tick b = end.time_since_epoch();
  if (a < Tick::zero() && b > Tick::max() + a) {
    return saturated<To>(Tick::max());
  }
  if (a > Tick::zero() && b < Tick::min() + a) {
    return saturated<To>(Tick::min());
  }
  return saturated<To>(b - a);
}

/// The moment so many seconds after 1970 (`std::time_t`).
constexpr std::chrono::system_clock::time_point wall_clock_time(std::int64_t seconds_since_1970) {
  return later(std::chrono::system_clock::time_point(), std::chrono::seconds(seconds_since_1970));
}

}  // namespace reprieve::core
