// SPDX-License-Identifier: BSD-3-Clause
// What a run and its variables are about: reprieve_add_constant_..., reprieve_annotate

#include "bindings/arguments.hpp"
#include "bindings/guard.hpp"
#include "bindings/handles.hpp"
#include "reprieve/error.hpp"

namespace reprieve::bindings {
namespace {

std::string text_or_nothing(const char* text) { return text == nullptr ? "" : text; }

std::vector<std::string> names_of_dimensions(const std::string& name, int dimensions, const char* const* dims) {
  if (dimensions < 0 || (dimensions > 0 && dims == nullptr)) {
    throw UsageError("variable '" + name + "': pass the names of its " + std::to_string(dimensions) +
                     " dimensions, or 0 and NULL");
  }
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(dimensions));
  for (int d = 0; d < dimensions; ++d) {
    names.push_back(checked_text(dims[d], "name of a dimension"));
  }
  return names;
}

}  // namespace
}  // namespace reprieve::bindings

using namespace reprieve;            // NOLINT: the C interface of that namespace
using namespace reprieve::bindings;  // NOLINT

extern "C" {

int reprieve_add_constant(reprieve_checkpoint* checkpoint, const char* name, const char* value) {
  return registering(checkpoint, [&](Checkpoint& state) {
    state.add_constant(checked_text(name, "name"), std::string_view(checked_text(value, "value")));
  });
}

int reprieve_add_constant_integer(reprieve_checkpoint* checkpoint, const char* name, int64_t value) {
  return registering(checkpoint, [&](Checkpoint& state) { state.add_constant(checked_text(name, "name"), value); });
}

int reprieve_add_constant_real(reprieve_checkpoint* checkpoint, const char* name, double value) {
  return registering(checkpoint, [&](Checkpoint& state) { state.add_constant(checked_text(name, "name"), value); });
}

int reprieve_add_constant_file(reprieve_checkpoint* checkpoint, const char* name, const char* file) {
  return registering(checkpoint, [&](Checkpoint& state) {
    state.add_constant_file(checked_text(name, "name"), checked_text(file, "file"));
  });
}

int reprieve_annotate(reprieve_checkpoint* checkpoint, const char* name, const char* units, const char* description,
                      int dimensions, const char* const* dims) {
  return registering(checkpoint, [&](Checkpoint& state) {
    const std::string key = checked_text(name, "name");
    state.annotate(key,
                   {text_or_nothing(units), text_or_nothing(description), names_of_dimensions(key, dimensions, dims)});
  });
}

}  // extern "C"
