#pragma once

/// @file
/// Types of array elements that checkpoints hold natively, so that every HDF5 tool shows them as numbers.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace reprieve {

/// Class of an element type; the width is kept beside it.
enum class ElementClass : std::uint8_t { boolean, signed_integer, unsigned_integer, floating, complex, opaque, text };

/// An element type: class and width. Two types are the same if both agree.
struct ElementType {
  ElementClass element_class = ElementClass::opaque;
  std::uint32_t size_bytes = 1;

  friend bool operator==(const ElementType&, const ElementType&) = default;
};

/// Short name as shown by the tools: "float64", "int32", "bool", "complex128", "opaque", "text".
std::string to_string(ElementType type);

namespace detail {
template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::is_floating_point<T> {};
}  // namespace detail

/// Types that can be the element of an array: bool, integers, enums, floating point, std::complex, std::byte.
template <class T>
concept Element = std::is_arithmetic_v<T> || std::is_enum_v<T> || detail::IsComplex<T>::value;

/// The element type of a C++ type. Enums are stored as their underlying integer.
template <Element T>
constexpr ElementType element_type_of() {
  constexpr auto size = static_cast<std::uint32_t>(sizeof(T));
  if constexpr (std::is_same_v<T, bool>) {
    return {ElementClass::boolean, size};
  } else if constexpr (std::is_same_v<T, std::byte>) {
    return {ElementClass::opaque, size};
  } else if constexpr (std::is_enum_v<T>) {
    return element_type_of<std::underlying_type_t<T>>();
  } else if constexpr (detail::IsComplex<T>::value) {
    return {ElementClass::complex, size};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {ElementClass::floating, size};
  } else if constexpr (std::is_signed_v<T>) {
    return {ElementClass::signed_integer, size};
  } else {
    return {ElementClass::unsigned_integer, size};
  }
}

}  // namespace reprieve
