// SPDX-License-Identifier: BSD-3-Clause
// Registration: reprieve_checkpoint_..., reprieve_add_...

#include "bindings/arguments.hpp"
#include "bindings/guard.hpp"
#include "bindings/handles.hpp"
#include "bindings/pieces.hpp"
#include "bindings/values.hpp"
#include "reprieve/error.hpp"

namespace reprieve::bindings {
namespace {

void add_box(reprieve_boxes& boxes, void* data, const std::int64_t* offset, const std::int64_t* extent,
             const std::ptrdiff_t* strides_bytes) {
  const auto dimensions = static_cast<int>(boxes.array.global_shape.size());
  boxes.array.boxes.push_back({static_cast<std::byte*>(data), extents(boxes.name, "offset", dimensions, offset),
                               extents(boxes.name, "extent", dimensions, extent), strides(dimensions, strides_bytes)});
}

void add_boxes(Checkpoint& state, const std::string& name, int type, int dimensions, const std::int64_t* global_shape,
               reprieve_describe_fn describe, void* user) {
  if (describe == nullptr) {
    throw UsageError("variable '" + name + "': the describe function is NULL");
  }
  const DistributedArray empty{element_type(type), extents(name, "global shape", dimensions, global_shape), {}};
  state.add_distributed(name, [name, empty, describe, user] {
    reprieve_boxes boxes{name, empty};
    check_callback("the describe function of variable '" + name + "'", [&] { return describe(&boxes, user); });
    return boxes.array;
  });
}

}  // namespace
}  // namespace reprieve::bindings

using namespace reprieve;            // NOLINT: the C interface of that namespace
using namespace reprieve::bindings;  // NOLINT

extern "C" {

int reprieve_checkpoint_create(reprieve_checkpoint** checkpoint) {
  return guarded([&] {
    place_for(checkpoint, "checkpoint") = nullptr;
    *checkpoint = std::make_unique<reprieve_checkpoint>().release();
  });
}

int reprieve_checkpoint_destroy(reprieve_checkpoint** checkpoint) {
  return guarded([&] {
    auto*& handle = place_for(checkpoint, "checkpoint");
    if (handle != nullptr && handle->users > 0) {
      throw UsageError("the checkpoint is in use: close its handler or manager first");
    }
    const std::unique_ptr<reprieve_checkpoint> owner(std::exchange(handle, nullptr));
  });
}

int reprieve_add_replicated(reprieve_checkpoint* checkpoint, const char* name, int type, void* data, int dimensions,
                            const int64_t* shape, const ptrdiff_t* strides_bytes) {
  return registering(checkpoint, [&](Checkpoint& state) {
    const std::string key = checked_text(name, "name");
    state.add_replicated_value(
        key, fixed_value(key, element_type(type), static_cast<std::byte*>(data),
                         extents(key, "shape", dimensions, shape), strides(dimensions, strides_bytes)));
  });
}

int reprieve_add_distributed(reprieve_checkpoint* checkpoint, const char* name, int type, void* data, int dimensions,
                             const int64_t* global_shape, const int64_t* offset, const int64_t* extent,
                             const ptrdiff_t* strides_bytes) {
  return registering(checkpoint, [&](Checkpoint& state) {
    const std::string key = checked_text(name, "name");
    state.add_distributed_array(
        key, element_type(type), static_cast<std::byte*>(data),
        {extents(key, "global shape", dimensions, global_shape), extents(key, "offset", dimensions, offset),
         extents(key, "extent", dimensions, extent), strides(dimensions, strides_bytes)});
  });
}

int reprieve_boxes_add(reprieve_boxes* boxes, void* data, const int64_t* offset, const int64_t* extent,
                       const ptrdiff_t* strides_bytes) {
  return guarded([&] { add_box(checked(boxes, "list of boxes"), data, offset, extent, strides_bytes); });
}

int reprieve_add_distributed_boxes(reprieve_checkpoint* checkpoint, const char* name, int type, int dimensions,
                                   const int64_t* global_shape, reprieve_describe_fn describe, void* user) {
  return registering(checkpoint, [&](Checkpoint& state) {
    add_boxes(state, checked_text(name, "name"), type, dimensions, global_shape, describe, user);
  });
}

int reprieve_add_per_rank(reprieve_checkpoint* checkpoint, const char* name, int type, void* data, int dimensions,
                          const int64_t* shape, const ptrdiff_t* strides_bytes, reprieve_redistribute_fn redistribute,
                          void* user) {
  return registering(checkpoint, [&](Checkpoint& state) {
    const std::string key = checked_text(name, "name");
    state.add_per_rank_value(key,
                             fixed_value(key, element_type(type), static_cast<std::byte*>(data),
                                         extents(key, "shape", dimensions, shape), strides(dimensions, strides_bytes)),
                             redistribution(key, redistribute, user));
  });
}

int reprieve_add_replicated_resizable(reprieve_checkpoint* checkpoint, const char* name, int type,
                                      int64_t item_elements, reprieve_memory_fn memory, void* user) {
  return registering(checkpoint, [&](Checkpoint& state) {
    const std::string key = checked_text(name, "name");
    state.add_replicated_value(key, resizable_value(key, element_type(type), item_elements, memory, user));
  });
}

int reprieve_add_per_rank_resizable(reprieve_checkpoint* checkpoint, const char* name, int type, int64_t item_elements,
                                    reprieve_memory_fn memory, reprieve_redistribute_fn redistribute, void* user) {
  return registering(checkpoint, [&](Checkpoint& state) {
    const std::string key = checked_text(name, "name");
    auto list = resizable_value(key, element_type(type), item_elements, memory, user);
    ValueAccess* const place = list.get();
    const auto item_bytes = static_cast<std::size_t>(item_elements) * element_type(type).size_bytes;
    state.add_per_rank_value(key, std::move(list), redistribution(key, redistribute, user, place, item_bytes));
  });
}

int reprieve_add_replicated_custom(reprieve_checkpoint* checkpoint, const char* name, reprieve_save_fn save,
                                   reprieve_load_fn load, void* user) {
  return registering(checkpoint, [&](Checkpoint& state) {
    const std::string key = checked_text(name, "name");
    state.add_replicated_value(key, custom_value(key, save, load, user));
  });
}

int reprieve_add_per_rank_custom(reprieve_checkpoint* checkpoint, const char* name, reprieve_save_fn save,
                                 reprieve_load_fn load, reprieve_redistribute_fn redistribute, void* user) {
  return registering(checkpoint, [&](Checkpoint& state) {
    const std::string key = checked_text(name, "name");
    state.add_per_rank_value(key, custom_value(key, save, load, user), redistribution(key, redistribute, user));
  });
}

int reprieve_allow_shared(reprieve_checkpoint* checkpoint, const char* name) {
  return registering(checkpoint, [&](Checkpoint& state) { state.allow_shared(checked_text(name, "name")); });
}

int reprieve_add_component(reprieve_checkpoint* checkpoint, const char* name, reprieve_checkpoint** part) {
  return registering(checkpoint, [&](Checkpoint& state) {
    const std::unique_ptr<reprieve_checkpoint> owner(std::exchange(place_for(part, "part"), nullptr));
    reprieve_checkpoint& component = checked(owner.get(), "part");
    if (component.first_failure) {
      core::throw_failure(*component.first_failure);
    }
    state.add_component(checked_text(name, "name"), std::move(component.state));
  });
}

int reprieve_registration_error(reprieve_checkpoint* checkpoint, const char* message) {
  core::Outcome of_nobody;
  return guarded_and_kept(checkpoint == nullptr ? of_nobody : checkpoint->first_failure,
                          [&] { throw UsageError(checked_text(message, "message")); });
}

}  // extern "C"
