// Registration: reprieve_checkpoint_..., reprieve_add_..., and what its callbacks get.

#include "bindings/arguments.hpp"
#include "bindings/guard.hpp"
#include "bindings/handles.hpp"
#include "bindings/values.hpp"
#include "reprieve/error.hpp"

namespace reprieve::bindings {
namespace {

/// Runs a registration in a checkpoint, which keeps its failure.
template <class Operation>
int registering(reprieve_checkpoint* checkpoint, Operation&& operation) {
  if (checkpoint == nullptr) {
    return guarded([] { reject_null("checkpoint"); });
  }
  return guarded_and_kept(checkpoint->first_failure, [&] { operation(checkpoint->state); });
}

Checkpoint::RedistributeAny redistribution(const std::string& name, reprieve_redistribute_fn redistribute, void* user) {
  if (redistribute == nullptr) {
    return {};
  }
  return [name, redistribute, user](const PerRankPieces& pieces, int rank, int size) {
    reprieve_pieces shown{&pieces, {}, {}};
    check_callback("the redistribution function of variable '" + name + "'",
                   [&] { return redistribute(&shown, rank, size, user); });
  };
}

/// The bytes of one piece; asking for the size and then for the content reads it once.
const std::vector<std::byte>& piece(reprieve_pieces& pieces, int saved_rank) {
  if (pieces.read_rank != saved_rank) {
    pieces.read_rank.reset();
    pieces.bytes = pieces.source->bytes(saved_rank);
    pieces.read_rank = saved_rank;
  }
  return pieces.bytes;
}

void read_piece(reprieve_pieces& pieces, int saved_rank, void* buffer, std::size_t size_bytes) {
  const std::vector<std::byte>& bytes = piece(pieces, saved_rank);
  if (bytes.size() != size_bytes) {
    throw UsageError("the piece of rank " + std::to_string(saved_rank) + " has " + std::to_string(bytes.size()) +
                     " bytes, the buffer " + std::to_string(size_bytes) + ": ask reprieve_pieces_size");
  }
  if (!bytes.empty()) {
    std::copy(bytes.begin(), bytes.end(), &place_for(static_cast<std::byte*>(buffer), "piece"));
  }
}

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

int reprieve_pieces_count(const reprieve_pieces* pieces) { return pieces == nullptr ? 0 : pieces->source->count(); }

int reprieve_pieces_size(reprieve_pieces* pieces, int saved_rank, size_t* size_bytes) {
  return guarded([&] {
    place_for(size_bytes, "size") = 0;
    *size_bytes = piece(checked(pieces, "list of pieces"), saved_rank).size();
  });
}

int reprieve_pieces_read(reprieve_pieces* pieces, int saved_rank, void* buffer, size_t size_bytes) {
  return guarded([&] { read_piece(checked(pieces, "list of pieces"), saved_rank, buffer, size_bytes); });
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
    state.add_per_rank_value(key, resizable_value(key, element_type(type), item_elements, memory, user),
                             redistribution(key, redistribute, user));
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

}  // extern "C"
