// SPDX-License-Identifier: BSD-3-Clause
#include "bindings/arguments.hpp"

#include <complex>

#include "reprieve/error.hpp"
#include "reprieve/reprieve.h"

namespace reprieve::bindings {

namespace {

/// HDF5's limit.
constexpr int kMaxDimensions = 32;

}  // namespace

void reject_null(const char* what) {
  throw UsageError(std::string("the ") + what + " is NULL: it was not made or opened, or that failed, or it is closed");
}

void reject_place(const char* what) {
  throw UsageError(std::string("the place for the ") + what + " is NULL: pass the address of a variable");
}

std::string checked_text(const char* text, const char* what) {
  if (text == nullptr) {
    throw UsageError(std::string("the ") + what + " is NULL: pass a text");
  }
  return text;
}

ElementType element_type(int type) {
  switch (type) {
    case REPRIEVE_INT8:
      return element_type_of<std::int8_t>();
    case REPRIEVE_INT16:
      return element_type_of<std::int16_t>();
    case REPRIEVE_INT32:
      return element_type_of<std::int32_t>();
    case REPRIEVE_INT64:
      return element_type_of<std::int64_t>();
    case REPRIEVE_UINT8:
      return element_type_of<std::uint8_t>();
    case REPRIEVE_UINT16:
      return element_type_of<std::uint16_t>();
    case REPRIEVE_UINT32:
      return element_type_of<std::uint32_t>();
    case REPRIEVE_UINT64:
      return element_type_of<std::uint64_t>();
    case REPRIEVE_FLOAT:
      return element_type_of<float>();
    case REPRIEVE_DOUBLE:
      return element_type_of<double>();
    case REPRIEVE_LONG_DOUBLE:
      return element_type_of<long double>();
    case REPRIEVE_COMPLEX_FLOAT:
      return element_type_of<std::complex<float>>();
    case REPRIEVE_COMPLEX_DOUBLE:
      return element_type_of<std::complex<double>>();
    case REPRIEVE_COMPLEX_LONG_DOUBLE:
      return element_type_of<std::complex<long double>>();
    case REPRIEVE_BOOL:
      return element_type_of<bool>();
    case REPRIEVE_BOOL16:
      return {ElementClass::boolean, 2};
    case REPRIEVE_BOOL32:
      return {ElementClass::boolean, 4};
    case REPRIEVE_BOOL64:
      return {ElementClass::boolean, 8};
    case REPRIEVE_HALF:
      return {ElementClass::floating, 2};
    case REPRIEVE_CHAR:
      return {ElementClass::text, 1};
    case REPRIEVE_BYTE:
      return {ElementClass::opaque, 1};
    default:
      throw UsageError("there is no element type " + std::to_string(type) +
                       ": pass one of the enumeration reprieve_type, such as REPRIEVE_DOUBLE");
  }
}

Extents extents(const std::string& name, const char* what, int dimensions, const std::int64_t* values) {
  const std::string place = "variable '" + name + "': ";
  if (dimensions < 0 || dimensions > kMaxDimensions) {
    throw UsageError(place + "it cannot have " + std::to_string(dimensions) + " dimensions; allowed: 0 (a scalar) to " +
                     std::to_string(kMaxDimensions));
  }
  if (dimensions > 0 && values == nullptr) {
    throw UsageError(place + "the " + what + " is NULL: pass " + std::to_string(dimensions) + " numbers");
  }
  Extents result;
  for (int d = 0; d < dimensions; ++d) {
    if (values[d] < 0) {
      throw UsageError(place + "the " + what + " is " + std::to_string(values[d]) + " in dimension " +
                       std::to_string(d) + " (counted from 0): it must not be negative");
    }
    result.push_back(static_cast<std::uint64_t>(values[d]));
  }
  return result;
}

std::vector<std::ptrdiff_t> strides(int dimensions, const std::ptrdiff_t* values) {
  return values == nullptr || dimensions <= 0 ? std::vector<std::ptrdiff_t>{}
                                              : std::vector<std::ptrdiff_t>(values, values + dimensions);
}

}  // namespace reprieve::bindings
