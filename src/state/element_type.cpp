// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/element_type.hpp"

namespace reprieve {

std::string to_string(ElementType type) {
  const std::string bits = std::to_string(std::uint64_t{type.size_bytes} * 8);
  switch (type.element_class) {
    case ElementClass::boolean:
      return type.size_bytes == 1 ? "bool" : "bool" + bits;
    case ElementClass::signed_integer:
      return "int" + bits;
    case ElementClass::unsigned_integer:
      return "uint" + bits;
    case ElementClass::floating:
      return "float" + bits;
    case ElementClass::complex:
      return "complex" + bits;
    case ElementClass::opaque:
      return type.size_bytes == 1 ? "opaque" : "opaque" + bits;
    case ElementClass::text:
      return type.size_bytes == 1 ? "text" : "text[" + std::to_string(type.size_bytes) + "]";
  }
  return "unknown";
}

}  // namespace reprieve
