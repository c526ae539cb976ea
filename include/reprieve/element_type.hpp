// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Types of array elements that checkpoints hold natively, so that every HDF5 tool shows them as numbers.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "reprieve/export.h"

namespace reprieve {

/// Class of an element type; the width is kept beside it.
enum class ElementClass : std::uint8_t { boolean, signed_integer, unsigned_integer, floating, complex, opaque, text };

/// An element type: class and width. Two types are the same if both agree.
struct ElementType {
  ElementClass element_class = ElementClass::opaque;
  std::uint32_t size_bytes = 1;

  friend bool operator==(const ElementType&, const ElementType&) = default;
};

/// Short name as shown by the tools: "float64", "int32", "bool", "complex128", "opaque", "text"; "text[12]" for an
/// array of texts of up to 12 bytes.
REPRIEVE_EXPORT std::string to_string(ElementType type);

namespace detail {
template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::is_floating_point<T> {};
}  // namespace detail

/// Set it to true for a struct of your own whose bytes are its value, so that it can be an element:
///
///     template <> inline constexpr bool reprieve::enable_record<Particle> = true;
///
/// It is stored as opaque bytes of its size, padding included, for machines of one kind; no pointers, then. With
/// `RecordMembers` instead HDF5 tools show its members. With a Serializer instead the format is your own, but the type
/// can be no element of an array.
template <class T>
inline constexpr bool enable_record = false;  // NOLINT(readability-identifier-naming): like std's own traits

/// True for IEEE 754 numbers of 16 bits: _Float16, where the compiler has it; Eigen::half (reprieve/eigen.hpp).
template <class T>
inline constexpr bool is_half = false;  // NOLINT(readability-identifier-naming)
#ifdef __FLT16_MANT_DIG__
template <>
inline constexpr bool is_half<_Float16> = true;
#endif

/// Customisation point: the members of a struct of your own, whose bytes are its value. It can be an element then, as
/// with `enable_record`, and HDF5 tools show its members by their names. With reprieve/record.hpp:
///
///     template <> struct reprieve::RecordMembers<Particle> {
///       static Members list() { return members_of<Particle>().add("x", &Particle::x).add("id", &Particle::id).list();
///       }
///     };
template <class T>
struct RecordMembers;

/// Structs with a list of members.
template <class T>
concept HasMembers = requires {
  RecordMembers<T>::list();
};

/// Structs that are elements.
template <class T>
concept Record = (enable_record<T> || HasMembers<T>)&&std::is_trivially_copyable_v<T>;

/// Types that can be the element of an array: bool, integers, enums, floating point, std::complex, std::byte, records.
template <class T>
concept Element =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || detail::IsComplex<T>::value || is_half<T> || Record<T>;

/// The element type of a C++ type. Enums are stored as their underlying integer.
template <Element T>
constexpr ElementType element_type_of() {
  constexpr auto size = static_cast<std::uint32_t>(sizeof(T));
  if constexpr (std::is_same_v<T, bool>) {
    return {ElementClass::boolean, size};
  } else if constexpr (std::is_same_v<T, std::byte> || Record<T>) {
    return {ElementClass::opaque, size};
  } else if constexpr (std::is_enum_v<T>) {
    return element_type_of<std::underlying_type_t<T>>();
  } else if constexpr (detail::IsComplex<T>::value) {
    return {ElementClass::complex, size};
  } else if constexpr (std::is_floating_point_v<T> || is_half<T>) {
    return {ElementClass::floating, size};
  } else if constexpr (std::is_signed_v<T>) {
    return {ElementClass::signed_integer, size};
  } else {
    return {ElementClass::unsigned_integer, size};
  }
}

}  // namespace reprieve
