// SPDX-License-Identifier: BSD-3-Clause
#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>

namespace reprieve::tool {

namespace {

/// The widest number of each kind: holds every narrower one exactly.
template <class T>
auto widen(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<long double>(value);
  } else {
    return std::complex<long double>(value.real(), value.imag());
  }
}

/// Whether two numbers with different bytes are the same all the same: a long double has bytes that mean nothing.
template <class T>
bool same_number(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a == b && std::signbit(a) == std::signbit(b);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return a == b;
  } else {
    return same_number(a.real(), b.real()) && same_number(a.imag(), b.imag());
  }
}

void count(Comparison& comparison, std::uint64_t index) {
  ++comparison.different;
  if (!comparison.first_index) {
    comparison.first_index = index;
  }
}

template <class T>
void measure(Comparison& comparison, T a, T b) {
  const auto wide_a = widen(a);
  const auto wide_b = widen(b);
  const long double absolute = std::abs(wide_a - wide_b);
  if (!std::isfinite(absolute)) {
    ++comparison.not_finite;
    return;
  }
  const long double scale = std::max(std::abs(wide_a), std::abs(wide_b));
  const long double relative = scale > 0 ? absolute / scale : 0;
  comparison.largest = std::max(comparison.largest, scale);
  comparison.max_absolute = std::max(comparison.max_absolute.value_or(0), absolute);
  comparison.max_relative = std::max(comparison.max_relative.value_or(0), relative);
}

using Bytes = std::span<const std::byte>;

template <class T>
void compare_numbers(Comparison& comparison, std::uint64_t first_index, Bytes bytes_a, Bytes bytes_b) {
  const std::size_t elements = bytes_a.size() / sizeof(T);
  for (std::size_t i = 0; i < elements; ++i) {
    T a{};
    T b{};
    std::memcpy(&a, bytes_a.data() + i * sizeof(T), sizeof(T));
    std::memcpy(&b, bytes_b.data() + i * sizeof(T), sizeof(T));
    const bool same_bytes = std::memcmp(bytes_a.data() + i * sizeof(T), bytes_b.data() + i * sizeof(T), sizeof(T)) == 0;
    if (!same_bytes && !same_number(a, b)) {
      count(comparison, first_index + i);
      measure(comparison, a, b);
    }
  }
}

void compare_raw(Comparison& comparison, std::size_t size, std::uint64_t first_index, Bytes a, Bytes b) {
  for (std::size_t i = 0; i < a.size() / size; ++i) {
    if (std::memcmp(a.data() + i * size, b.data() + i * size, size) != 0) {
      count(comparison, first_index + i);
    }
  }
}

using Comparer = void (*)(Comparison&, std::uint64_t, Bytes, Bytes);

/// The comparison of the first of the types @p Ts that has the size, or null.
template <class... Ts>
Comparer of_size(std::uint32_t size_bytes) {
  Comparer found = nullptr;
  static_cast<void>(((sizeof(Ts) == size_bytes && (found = compare_numbers<Ts>, true)) || ...));
  return found;
}

Comparer comparer_of(ElementType type) {
  switch (type.element_class) {
    case ElementClass::signed_integer:
      return of_size<std::int8_t, std::int16_t, std::int32_t, std::int64_t>(type.size_bytes);
    case ElementClass::unsigned_integer:
      return of_size<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(type.size_bytes);
    case ElementClass::floating:
      return of_size<float, double, long double>(type.size_bytes);
    case ElementClass::complex:
      return of_size<std::complex<float>, std::complex<double>, std::complex<long double>>(type.size_bytes);
    case ElementClass::boolean:
    case ElementClass::opaque:
    case ElementClass::text:
      break;
  }
  return nullptr;
}

}  // namespace

void compare_piece(Comparison& comparison, ElementType type, std::uint64_t first_index, Bytes a, Bytes b) {
  // Nearly all of a state that is compared is equal.
  if (std::ranges::equal(a, b)) {
    return;
  }
  if (const Comparer comparer = comparer_of(type)) {
    comparer(comparison, first_index, a, b);
  } else {
    compare_raw(comparison, type.size_bytes, first_index, a, b);
  }
}

}  // namespace reprieve::tool
