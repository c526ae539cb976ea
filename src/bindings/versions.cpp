// SPDX-License-Identifier: BSD-3-Clause
// State that differs between versions of a program, and what happens in the middle of a restore.

#include "bindings/handles.hpp"
#include "bindings/values.hpp"
#include "reprieve/error.hpp"

namespace reprieve::bindings {
namespace {

const StoredState& source_of(const reprieve_stored_state* stored) { return *checked(stored, "stored state").source; }

DistributedArray one_box(const std::string& name, int type, void* data, int dimensions,
                         const std::int64_t* global_shape, MemoryBox box) {
  box.data = static_cast<std::byte*>(data);
  DistributedArray array{element_type(type), extents(name, "global shape", dimensions, global_shape), {}};
  array.boxes.push_back(std::move(box));
  return array;
}

}  // namespace
}  // namespace reprieve::bindings

using namespace reprieve;            // NOLINT: the C interface of that namespace
using namespace reprieve::bindings;  // NOLINT

extern "C" {

int reprieve_when_values_restored(reprieve_checkpoint* checkpoint, reprieve_restored_fn prepare, void* user) {
  return registering(checkpoint, [&](Checkpoint& state) {
    if (prepare == nullptr) {
      throw UsageError("the function to call when values are restored is NULL");
    }
    state.when_values_restored([prepare, user] {
      check_callback("the function that prepares for restored values", [&] { return prepare(user); });
    });
  });
}

int reprieve_allow_missing(reprieve_checkpoint* checkpoint, const char* name) {
  return registering(checkpoint, [&](Checkpoint& state) { state.allow_missing(checked_text(name, "name")); });
}

int reprieve_add_former_name(reprieve_checkpoint* checkpoint, const char* name, const char* former) {
  return registering(checkpoint, [&](Checkpoint& state) {
    state.add_former_name(checked_text(name, "name"), checked_text(former, "former name"));
  });
}

int reprieve_allow_dropped(reprieve_checkpoint* checkpoint, const char* name) {
  return registering(checkpoint, [&](Checkpoint& state) { state.allow_dropped(checked_text(name, "name")); });
}

int reprieve_on_migration(reprieve_checkpoint* checkpoint, reprieve_migration_fn migrate, void* user) {
  return registering(checkpoint, [&](Checkpoint& state) {
    if (migrate == nullptr) {
      throw UsageError("the migration function is NULL");
    }
    state.on_migration([migrate, user](const StoredState& stored) {
      const reprieve_stored_state shown{&stored};
      check_callback("the migration function", [&] { return migrate(&shown, user); });
    });
  });
}

int reprieve_stored_contains(const reprieve_stored_state* stored, const char* name) {
  int answer = 0;
  static_cast<void>(guarded([&] { answer = source_of(stored).contains(checked_text(name, "name")) ? 1 : 0; }));
  return answer;
}

int reprieve_stored_read(const reprieve_stored_state* stored, const char* name, int type, void* data, int dimensions,
                         const int64_t* shape, const ptrdiff_t* strides_bytes) {
  return guarded([&] {
    const std::string key = checked_text(name, "name");
    const auto value = fixed_value(key, element_type(type), static_cast<std::byte*>(data),
                                   extents(key, "shape", dimensions, shape), strides(dimensions, strides_bytes));
    source_of(stored).read_value(key, *value);
  });
}

int reprieve_stored_read_distributed(const reprieve_stored_state* stored, const char* name, int type, void* data,
                                     int dimensions, const int64_t* global_shape, const int64_t* offset,
                                     const int64_t* extent, const ptrdiff_t* strides_bytes) {
  return guarded([&] {
    const std::string key = checked_text(name, "name");
    source_of(stored).read_distributed(
        key, one_box(key, type, data, dimensions, global_shape,
                     {nullptr, extents(key, "offset", dimensions, offset), extents(key, "extent", dimensions, extent),
                      strides(dimensions, strides_bytes)}));
  });
}

}  // extern "C"
