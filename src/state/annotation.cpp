// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/annotation.hpp"

#include <algorithm>
#include <string_view>

#include "reprieve/error.hpp"
#include "state/registry.hpp"

namespace reprieve::state {

namespace {

constexpr std::size_t kMaxUnitsBytes = 255;
constexpr std::size_t kMaxDescriptionBytes = 4096;

[[noreturn]] void refuse(const std::string& name, const std::string& problem) {
  throw UsageError("variable '" + name + "': " + problem);
}

void check_text(const std::string& name, const char* what, const std::string& text, std::size_t most_bytes) {
  if (text.size() > most_bytes) {
    refuse(name, std::string(what) + " of " + std::to_string(text.size()) + " bytes; at most " +
                     std::to_string(most_bytes) + " are allowed");
  }
  if (text.find('\0') != std::string::npos) {
    refuse(name, std::string(what) + " with a null byte");
  }
}

}  // namespace

void check_annotation(const std::string& name, const Annotation& annotation) {
  check_text(name, "units", annotation.units, kMaxUnitsBytes);
  check_text(name, "a description", annotation.description, kMaxDescriptionBytes);
  const auto& dims = annotation.dims;
  for (auto dim = dims.begin(); dim != dims.end(); ++dim) {
    try {
      check_name(*dim);
    } catch (const UsageError& error) {
      refuse(name, std::string("the name of a dimension is like that of a variable: ") + error.what());
    }
    if (dim->find('/') != std::string::npos) {
      refuse(name, "the name of dimension '" + *dim + "' holds a '/'");
    }
    if (std::find(dims.begin(), dim, *dim) != dim) {
      refuse(name, "two dimensions are called '" + *dim + "'");
    }
  }
}

void check_dimension_names(const std::string& name, const Annotation& annotation, std::size_t dimensions) {
  if (!annotation.dims.empty() && annotation.dims.size() != dimensions) {
    refuse(name, std::to_string(annotation.dims.size()) + " names of dimensions were given, but it has " +
                     std::to_string(dimensions) + " dimensions");
  }
}

}  // namespace reprieve::state
