// SPDX-License-Identifier: BSD-3-Clause
// Registration: reprieve_checkpoint_..., reprieve_add_...; state that differs between versions of a program; per-rank
// values on another number of ranks; memory on devices.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "bindings/handles.hpp"
#include "core/memory.hpp"
#include "reprieve/containers.hpp"
#include "reprieve/error.hpp"
#include "reprieve/library_files.hpp"
#include "reprieve/memory_space.hpp"
#include "reprieve/particles.hpp"
#include "state/staging.hpp"
#include "state/strided.hpp"

struct reprieve_walk {
  std::vector<std::byte>* saved = nullptr;                      ///< null: the parts are restored
  std::optional<reprieve::detail::PackedReader> restored = {};  ///< what is left of them
  reprieve::core::Outcome failure = {};                         ///< the first one
};

namespace reprieve::bindings {

namespace {

// Values in a C program's memory, or behind its callbacks, as the registry wants to see them.

[[noreturn]] void reject(const std::string& name, const std::string& problem) {
  throw UsageError("variable '" + name + "': " + problem);
}

/// @throws UsageError if there are more than 2^63 bytes
std::size_t size_bytes(const std::string& name, const Extents& shape, std::size_t element_size) {
  std::uint64_t size = 0;
  if (!state::checked_bytes(shape, element_size, size)) {
    reject(name, "it is larger than 2^63 bytes: check the shape");
  }
  return static_cast<std::size_t>(size);
}

class ResizableValue final : public ValueAccess {
 public:
  ResizableValue(std::string name, ElementType type, std::uint64_t item_elements, reprieve_memory_fn memory, void* user)
      : name_(std::move(name)), type_(type), item_elements_(item_elements), memory_(memory), user_(user) {}

  [[nodiscard]] ElementType type() const override { return type_; }
  [[nodiscard]] Extents shape() const override {
    const std::uint64_t count = ask(-1).second;
    return item_elements_ == 1 ? Extents{count} : Extents{count, item_elements_};
  }
  [[nodiscard]] bool resizable() const override { return true; }
  [[nodiscard]] std::span<const std::byte> bytes() override {
    const auto [data, count] = ask(-1);
    return {data, count * item_size()};
  }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t size) override {
    if (size % item_size() != 0) {
      throw MismatchError("variable '" + name_ + "': the stored " + std::to_string(size) +
                          " bytes are no whole number of items of " + std::to_string(item_size()) + " bytes");
    }
    const auto wanted = static_cast<std::uint64_t>(size / item_size());
    const auto [data, count] = ask(static_cast<std::int64_t>(wanted));
    if (count != wanted) {
      reject(name_, "the memory function was asked to make room for " + std::to_string(wanted) +
                        " items, but made it " + std::to_string(count));
    }
    return {data, size};
  }

 private:
  [[nodiscard]] std::size_t item_size() const { return item_elements_ * type_.size_bytes; }

  [[nodiscard]] std::pair<std::byte*, std::uint64_t> ask(std::int64_t wanted) const {
    void* data = nullptr;
    std::int64_t count = 0;
    check_callback("the memory function of variable '" + name_ + "'",
                   [&] { return memory_(wanted, &data, &count, user_); });
    if (count < 0 || (count > 0 && data == nullptr)) {
      reject(name_, "the memory function gave " + std::to_string(count) + " items" +
                        (data == nullptr ? " at the address NULL" : ""));
    }
    static_cast<void>(size_bytes(name_, {static_cast<std::uint64_t>(count)}, item_size()));
    return {static_cast<std::byte*>(data), static_cast<std::uint64_t>(count)};
  }

  std::string name_;
  ElementType type_;
  std::uint64_t item_elements_;
  reprieve_memory_fn memory_;
  void* user_;
};

class CustomValue final : public ValueAccess {
 public:
  using Save = std::function<int(const void** bytes, std::size_t* size)>;
  using Load = std::function<int(const void* bytes, std::size_t size)>;

  CustomValue(std::string name, Save save, Load load)
      : name_(std::move(name)), save_(std::move(save)), load_(std::move(load)) {}

  [[nodiscard]] ElementType type() const override { return {ElementClass::opaque, 1}; }
  [[nodiscard]] Extents shape() const override { return {saved().size()}; }
  [[nodiscard]] bool resizable() const override { return true; }
  [[nodiscard]] std::span<const std::byte> bytes() override { return saved(); }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t size) override {
    restored_.resize(size);
    return restored_;
  }
  void commit() override {
    check_callback("the load function of variable '" + name_ + "'",
                   [this] { return load_(restored_.data(), restored_.size()); });
    restored_ = {};
  }

 private:
  [[nodiscard]] std::span<const std::byte> saved() const {
    const void* bytes = nullptr;
    std::size_t size = 0;
    check_callback("the save function of variable '" + name_ + "'", [&] { return save_(&bytes, &size); });
    if (bytes == nullptr && size > 0) {
      reject(name_, "the save function gave " + std::to_string(size) + " bytes at the address NULL");
    }
    return {static_cast<const std::byte*>(bytes), size};
  }

  std::string name_;
  Save save_;
  Load load_;
  std::vector<std::byte> restored_;
};

using Find = std::function<void*()>;

/// Memory that stays where it is.
Find at(void* data) {
  return [data] { return data; };
}

/// What a variable of the program points to at the time, of whatever type that is.
Find pointed(const std::string& name, const void* pointer) {
  if (pointer == nullptr) {
    reject(name, "the address of the pointer is NULL: pass the address of the variable that points to the array");
  }
  return [pointer] {
    void* data = nullptr;
    std::memcpy(&data, pointer, sizeof(data));
    return data;
  };
}

/// An array, or a scalar: no dimensions.
/// @param strides_bytes  empty: dense, in C order
std::unique_ptr<ValueAccess> fixed_value(const std::string& name, ElementType type, Find find, Extents shape,
                                         std::vector<std::ptrdiff_t> strides_bytes) {
  if (size_bytes(name, shape, type.size_bytes) == 0) {
    strides_bytes.clear();  // an empty array may have any
  } else if (find() == nullptr) {
    reject(name, "the data pointer is NULL: pass the address of the first element");
  }
  const auto element = static_cast<std::ptrdiff_t>(type.size_bytes);
  for (std::size_t d = 0; d < strides_bytes.size(); ++d) {
    if (shape[d] > 1 && strides_bytes[d] > -element && strides_bytes[d] < element) {
      reject(name, "the stride of " + std::to_string(strides_bytes[d]) + " bytes in dimension " + std::to_string(d) +
                       " is smaller than an element of " + std::to_string(element) + " bytes");
    }
  }
  return detail::make_strided_access(type, std::move(find), std::move(shape), std::move(strides_bytes));
}

/// A list that can change its length.
std::unique_ptr<ValueAccess> resizable_value(const std::string& name, ElementType type, std::int64_t item_elements,
                                             reprieve_memory_fn memory, void* user) {
  if (memory == nullptr) {
    reject(name, "the memory function is NULL");
  }
  if (item_elements < 1) {
    reject(name, "an item cannot have " + std::to_string(item_elements) + " elements; allowed: 1 and more");
  }
  return std::make_unique<ResizableValue>(name, type, static_cast<std::uint64_t>(item_elements), memory, user);
}

/// A value that callbacks turn into bytes and back.
std::unique_ptr<ValueAccess> custom_value(const std::string& name, reprieve_save_fn save, reprieve_load_fn load,
                                          void* user) {
  if (save == nullptr || load == nullptr) {
    reject(name, std::string("the ") + (save == nullptr ? "save" : "load") + " function is NULL");
  }
  return std::make_unique<CustomValue>(
      name, [=](const void** bytes, std::size_t* size) { return save(bytes, size, user); },
      [=](const void* bytes, std::size_t size) { return load(bytes, size, user); });
}

/// @return what the function returned. @throws what a part failed with
int run_walk(reprieve_walk& parts, reprieve_walk_fn walk, void* user) {
  const int result = walk(&parts, user);
  if (parts.failure) {
    core::throw_failure(*parts.failure);
  }
  return result;
}

int restore_by_walk(std::span<const std::byte> bytes, reprieve_walk_fn walk, void* user) {
  reprieve_walk parts{.restored = detail::PackedReader(bytes)};
  const int result = run_walk(parts, walk, user);
  if (result == 0 && !parts.restored->at_end()) {
    throw MismatchError("the stored parts continue after those that the walk function names");
  }
  return result;
}

/// A value whose parts one function names, in both directions.
std::unique_ptr<ValueAccess> walked_value(const std::string& name, reprieve_walk_fn walk, void* user) {
  if (walk == nullptr) {
    reject(name, "the walk function is NULL");
  }
  const auto saved = std::make_shared<detail::Packed>();
  return std::make_unique<CustomValue>(
      name,
      [=](const void** bytes, std::size_t* size) {
        saved->clear();
        reprieve_walk parts{.saved = saved.get()};
        const int result = run_walk(parts, walk, user);
        *bytes = saved->data();
        *size = saved->size();
        return result;
      },
      [=](const void* bytes, std::size_t size) {
        return restore_by_walk({static_cast<const std::byte*>(bytes), size}, walk, user);
      });
}

/// One call of the walk function, for a part with that name. Its error is kept for the end of the walk.
void visit_part(reprieve_walk* walk, const char* name, const std::function<void(reprieve_walk&)>& visit) {
  if (walk == nullptr || walk->failure) {
    return;
  }
  walk->failure = core::capture([&] {
    const std::string key = checked_text(name, "name of a part");
    try {
      if (walk->saved != nullptr) {
        detail::Packer<std::string>::pack(*walk->saved, key);
      } else if (const auto stored = detail::unpacked<std::string>(*walk->restored); stored != key) {
        throw MismatchError("the checkpoint has the part '" + stored + "' there");
      }
      visit(*walk);
    } catch (const MismatchError& error) {
      throw MismatchError("part '" + key + "': " + error.what());
    }
  });
}

void copy_bytes(void* to, std::span<const std::byte> from) {
  if (!from.empty()) {
    std::memcpy(to, from.data(), from.size());
  }
}

/// Memory of malloc. @throws std::bad_alloc
void resize_list(void*& list, std::size_t size) {
  if (size == 0) {
    std::free(list);  // NOLINT: the program's
    list = nullptr;
    return;
  }
  void* const resized = std::realloc(list, size);  // NOLINT: the same
  if (resized == nullptr) {
    throw std::bad_alloc();
  }
  list = resized;
}

/// The array that a function of C describes by its arguments.
std::unique_ptr<ValueAccess> fixed_value(const std::string& name, int type, Find find, int dimensions,
                                         const std::int64_t* shape, const std::ptrdiff_t* strides_bytes) {
  return fixed_value(name, element_type(type), std::move(find), extents(name, "shape", dimensions, shape),
                     strides(dimensions, strides_bytes));
}

// Per-rank values on another number of ranks.

/// The bytes of one piece; asking for the size and then for the content reads it once.
const std::vector<std::byte>& piece(reprieve_pieces& pieces, int saved_rank) {
  if (pieces.read_rank != saved_rank) {
    pieces.read_rank.reset();
    pieces.bytes = pieces.source->bytes(saved_rank);
    pieces.read_rank = saved_rank;
  }
  return pieces.bytes;
}

/// The program's memory may be on a device.
void put(std::span<const std::byte> bytes, std::byte* to) {
  if (MemorySpace* const space = devices::Spaces().find(to, bytes.size())) {
    state::Staging().copy_in(*space, to, {1}, bytes.data(), {1}, {bytes.size()}, 1);
  } else {
    std::copy(bytes.begin(), bytes.end(), to);
  }
}

void read_piece(reprieve_pieces& pieces, int saved_rank, void* buffer, std::size_t size_bytes) {
  const std::vector<std::byte>& bytes = piece(pieces, saved_rank);
  if (bytes.size() != size_bytes) {
    throw UsageError("the piece of rank " + std::to_string(saved_rank) + " has " + std::to_string(bytes.size()) +
                     " bytes, the buffer " + std::to_string(size_bytes) + ": ask reprieve_pieces_size");
  }
  if (!bytes.empty()) {
    put(bytes, &result_at(static_cast<std::byte*>(buffer), "piece"));
  }
}

/// Reads only the saved lists that this rank's part meets.
void take_even_part(reprieve_pieces& pieces, int rank, int size) {
  if (pieces.list == nullptr) {
    throw UsageError("reprieve_in_order is for values that were registered as resizable");
  }
  const std::size_t width = pieces.item_bytes / pieces.source->type().size_bytes;
  for (int saved = 0; saved < pieces.source->count(); ++saved) {
    const Extents shape = pieces.source->shape(saved);
    if ((shape.size() == 2 ? shape[1] : 1) != width) {
      throw MismatchError("the items that rank " + std::to_string(saved) + " saved have another width");
    }
  }
  const auto ranges = detail::even_ranges(*pieces.source, rank, size, width);
  const std::uint64_t items = state::sum_of(ranges, [](const auto& range) { return range.end - range.begin; });
  std::span<std::byte> room = pieces.list->prepare(static_cast<std::size_t>(items) * pieces.item_bytes);
  for (const auto& [saved, begin, end] : ranges) {
    const auto bytes = std::span(piece(pieces, saved))
                           .subspan(static_cast<std::size_t>(begin) * pieces.item_bytes,
                                    static_cast<std::size_t>(end - begin) * pieces.item_bytes);
    put(bytes, room.data());
    room = room.subspan(bytes.size());
  }
  pieces.list->commit();
}

/// A C function as a redistribution; none if it is null.
/// @param list, item_bytes  of a resizable value, for `reprieve_in_order`
Checkpoint::RedistributeAny redistribution(const std::string& name, reprieve_redistribute_fn redistribute, void* user,
                                           ValueAccess* list = nullptr, std::size_t item_bytes = 0) {
  if (redistribute == nullptr) {
    return {};
  }
  return [=](const PerRankPieces& pieces, int rank, int size) {
    reprieve_pieces shown{&pieces, list, item_bytes, {}, {}};
    if (redistribute == reprieve_in_order) {
      take_even_part(shown, rank, size);  // its errors keep their class
      return;
    }
    check_callback("the redistribution function of variable '" + name + "'",
                   [&] { return redistribute(&shown, rank, size, user); });
  };
}

// Distributed variables, and checkpoints that are being restored.

/// The array of the variable `name`, without boxes.
reprieve_boxes no_boxes(const std::string& name, int type, int dimensions, const std::int64_t* global_shape) {
  return {name, {element_type(type), extents(name, "global shape", dimensions, global_shape), {}}};
}

void add_box(reprieve_boxes& boxes, void* data, const std::int64_t* offset, const std::int64_t* extent,
             const std::ptrdiff_t* strides_bytes) {
  const auto dimensions = static_cast<int>(boxes.array.global_shape.size());
  boxes.array.boxes.push_back({static_cast<std::byte*>(data), extents(boxes.name, "offset", dimensions, offset),
                               extents(boxes.name, "extent", dimensions, extent), strides(dimensions, strides_bytes)});
}

const StoredState& source_of(const reprieve_stored_state* stored) { return *checked(stored, "stored state").source; }

// Memory spaces of a C program.

struct SpaceCalls {
  reprieve_owner_fn owner_of;
  reprieve_device_fn synchronize;
  reprieve_copy_fn copy_out;
  reprieve_copy_fn copy_in;
  reprieve_device_fn wait;
  void* user;
};

class SpaceOfC final : public MemorySpace {
 public:
  SpaceOfC(std::string name, const SpaceCalls& calls) : name_(std::move(name)), calls_(calls) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] MemoryOwner owner_of(const void* address) const override {
    switch (const int owner = calls_.owner_of(address, calls_.user)) {
      case REPRIEVE_MEMORY_OTHER:
        return MemoryOwner::other;
      case REPRIEVE_MEMORY_DEVICE:
        return MemoryOwner::device;
      case REPRIEVE_MEMORY_UNIFIED:
        return MemoryOwner::unified;
      default:
        check("owner_of", [owner] { return owner; });
        return MemoryOwner::other;
    }
  }
  void synchronize(const void* address) override {
    check("synchronize", [&] { return calls_.synchronize(address, calls_.user); });
  }
  void copy_out(void* host, const void* device, const CopiedRows& rows) override {
    check("copy_out", [&] {
      return calls_.copy_out(host, rows.host_pitch, device, rows.device_pitch, rows.row_bytes, rows.rows, calls_.user);
    });
  }
  void copy_in(void* device, const void* host, const CopiedRows& rows) override {
    check("copy_in", [&] {
      return calls_.copy_in(device, rows.device_pitch, host, rows.host_pitch, rows.row_bytes, rows.rows, calls_.user);
    });
  }
  void wait(const void* address) override {
    check("wait", [&] { return calls_.wait(address, calls_.user); });
  }

 private:
  void check(const char* function, const std::function<int()>& call) const {
    check_callback(std::string("the function ") + function + " of the memory space '" + name_ + "'", call);
  }

  std::string name_;
  SpaceCalls calls_;
};

}  // namespace
}  // namespace reprieve::bindings

using namespace reprieve;            // NOLINT: the C interface of that namespace
using namespace reprieve::bindings;  // NOLINT

extern "C" {

int reprieve_pieces_count(const reprieve_pieces* pieces) { return pieces == nullptr ? 0 : pieces->source->count(); }

int reprieve_pieces_size(reprieve_pieces* pieces, int saved_rank, size_t* size_bytes) {
  return guarded([&] {
    result_at(size_bytes, "size") = 0;
    *size_bytes = piece(checked(pieces, "list of pieces"), saved_rank).size();
  });
}

int reprieve_pieces_read(reprieve_pieces* pieces, int saved_rank, void* buffer, size_t size_bytes) {
  return guarded([&] { read_piece(checked(pieces, "list of pieces"), saved_rank, buffer, size_bytes); });
}

int reprieve_pieces_walk(reprieve_pieces* pieces, int saved_rank, reprieve_walk_fn walk, void* user) {
  return guarded([&] {
    const auto& bytes = piece(checked(pieces, "list of pieces"), saved_rank);
    if (walk == nullptr) {
      throw UsageError("the walk function is NULL: pass one");
    }
    check_callback("the walk function", [&] { return restore_by_walk(bytes, walk, user); });
  });
}

int reprieve_in_order(reprieve_pieces* pieces, int rank, int size, void* user) {
  static_cast<void>(user);
  const int status = guarded([&] { take_even_part(checked(pieces, "list of pieces"), rank, size); });
  return status == REPRIEVE_OK ? 0 : reprieve_callback_error(reprieve_last_error_message());
}

int reprieve_checkpoint_create(reprieve_checkpoint** checkpoint) {
  return guarded([&] {
    result_at(checkpoint, "checkpoint") = nullptr;
    *checkpoint = std::make_unique<reprieve_checkpoint>().release();
  });
}

int reprieve_checkpoint_destroy(reprieve_checkpoint** checkpoint) {
  return guarded([&] {
    auto*& handle = result_at(checkpoint, "checkpoint");
    if (handle != nullptr && handle->use.use_count() > 1) {
      throw UsageError("the checkpoint is in use: close its handler or manager first");
    }
    const std::unique_ptr<reprieve_checkpoint> owner(std::exchange(handle, nullptr));
  });
}

int reprieve_add_replicated(reprieve_checkpoint* checkpoint, const char* name, int type, void* data, int dimensions,
                            const int64_t* shape, const ptrdiff_t* strides_bytes) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_replicated_value(key, fixed_value(key, type, at(data), dimensions, shape, strides_bytes));
  });
}

int reprieve_add_replicated_at(reprieve_checkpoint* checkpoint, const char* name, int type, const void* pointer,
                               int dimensions, const int64_t* shape, const ptrdiff_t* strides_bytes) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_replicated_value(key, fixed_value(key, type, pointed(key, pointer), dimensions, shape, strides_bytes));
  });
}

int reprieve_add_distributed(reprieve_checkpoint* checkpoint, const char* name, int type, void* data, int dimensions,
                             const int64_t* global_shape, const int64_t* offset, const int64_t* extent,
                             const ptrdiff_t* strides_bytes) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_distributed_array(
        key, element_type(type), static_cast<std::byte*>(data),
        {extents(key, "global shape", dimensions, global_shape), extents(key, "offset", dimensions, offset),
         extents(key, "extent", dimensions, extent), strides(dimensions, strides_bytes)});
  });
}

int reprieve_add_distributed_at(reprieve_checkpoint* checkpoint, const char* name, int type, const void* pointer,
                                int64_t first_element, int dimensions, const int64_t* global_shape,
                                const int64_t* offset, const int64_t* extent, const ptrdiff_t* strides_bytes) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    if (first_element < 0) {
      reject(key, "the first element is " + std::to_string(first_element) + ": it counts from the begin of the array");
    }
    state.add_distributed_pointer(
        key, element_type(type), pointed(key, pointer),
        {extents(key, "global shape", dimensions, global_shape), extents(key, "offset", dimensions, offset),
         extents(key, "extent", dimensions, extent), strides(dimensions, strides_bytes), 0,
         static_cast<std::uint64_t>(first_element)});
  });
}

int reprieve_boxes_add(reprieve_boxes* boxes, void* data, const int64_t* offset, const int64_t* extent,
                       const ptrdiff_t* strides_bytes) {
  return guarded([&] { add_box(checked(boxes, "list of boxes"), data, offset, extent, strides_bytes); });
}

int reprieve_add_distributed_boxes(reprieve_checkpoint* checkpoint, const char* name, int type, int dimensions,
                                   const int64_t* global_shape, reprieve_describe_fn describe, void* user) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    if (describe == nullptr) {
      reject(key, "the describe function is NULL");
    }
    state.add_distributed(key, [empty = no_boxes(key, type, dimensions, global_shape), describe, user] {
      reprieve_boxes boxes(empty);
      check_callback("the describe function of variable '" + boxes.name + "'", [&] { return describe(&boxes, user); });
      return boxes.array;
    });
  });
}

int reprieve_add_per_rank(reprieve_checkpoint* checkpoint, const char* name, int type, void* data, int dimensions,
                          const int64_t* shape, const ptrdiff_t* strides_bytes, reprieve_redistribute_fn redistribute,
                          void* user) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_per_rank_value(key, fixed_value(key, type, at(data), dimensions, shape, strides_bytes),
                             redistribution(key, redistribute, user));
  });
}

int reprieve_add_per_rank_at(reprieve_checkpoint* checkpoint, const char* name, int type, const void* pointer,
                             int dimensions, const int64_t* shape, const ptrdiff_t* strides_bytes,
                             reprieve_redistribute_fn redistribute, void* user) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_per_rank_value(key, fixed_value(key, type, pointed(key, pointer), dimensions, shape, strides_bytes),
                             redistribution(key, redistribute, user));
  });
}

int reprieve_add_replicated_resizable(reprieve_checkpoint* checkpoint, const char* name, int type,
                                      int64_t item_elements, reprieve_memory_fn memory, void* user) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_replicated_value(key, resizable_value(key, element_type(type), item_elements, memory, user));
  });
}

int reprieve_add_per_rank_resizable(reprieve_checkpoint* checkpoint, const char* name, int type, int64_t item_elements,
                                    reprieve_memory_fn memory, reprieve_redistribute_fn redistribute, void* user) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    auto list = resizable_value(key, element_type(type), item_elements, memory, user);
    ValueAccess* const value = list.get();
    const auto item_bytes = static_cast<std::size_t>(item_elements) * element_type(type).size_bytes;
    state.add_per_rank_value(key, std::move(list), redistribution(key, redistribute, user, value, item_bytes));
  });
}

int reprieve_add_replicated_custom(reprieve_checkpoint* checkpoint, const char* name, reprieve_save_fn save,
                                   reprieve_load_fn load, void* user) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_replicated_value(key, custom_value(key, save, load, user));
  });
}

int reprieve_add_per_rank_custom(reprieve_checkpoint* checkpoint, const char* name, reprieve_save_fn save,
                                 reprieve_load_fn load, reprieve_redistribute_fn redistribute, void* user) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_per_rank_value(key, custom_value(key, save, load, user), redistribution(key, redistribute, user));
  });
}

int reprieve_add_replicated_walk(reprieve_checkpoint* checkpoint, const char* name, reprieve_walk_fn walk, void* user) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_replicated_value(key, walked_value(key, walk, user));
  });
}

int reprieve_add_per_rank_walk(reprieve_checkpoint* checkpoint, const char* name, reprieve_walk_fn walk,
                               reprieve_redistribute_fn redistribute, void* user) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_per_rank_value(key, walked_value(key, walk, user), redistribution(key, redistribute, user));
  });
}

int reprieve_walk_restores(const reprieve_walk* walk) { return walk != nullptr && walk->restored ? 1 : 0; }

void reprieve_walk_bytes(reprieve_walk* walk, const char* name, void* data, size_t size_bytes) {
  visit_part(walk, name, [&](reprieve_walk& parts) {
    if (data == nullptr && size_bytes > 0) {
      throw UsageError("the data are NULL");
    }
    if (parts.saved != nullptr) {
      detail::append_count(*parts.saved, size_bytes);
      detail::append(*parts.saved, data, size_bytes);
      return;
    }
    if (const std::size_t stored = parts.restored->count(); stored != size_bytes) {
      throw MismatchError("the checkpoint has " + std::to_string(stored) + " bytes, the program " +
                          std::to_string(size_bytes));
    }
    copy_bytes(data, parts.restored->take(size_bytes));
  });
}

int64_t reprieve_walk_list(reprieve_walk* walk, const char* name, void* pointer, int64_t count, size_t item_bytes) {
  visit_part(walk, name, [&](reprieve_walk& parts) {
    void* list = pointed(name, pointer)();
    if (count < 0 || item_bytes == 0 || (list == nullptr && count > 0)) {
      throw UsageError("there are " + std::to_string(count) + " items of " + std::to_string(item_bytes) + " bytes at " +
                       (list == nullptr ? "NULL" : "the address"));
    }
    const std::size_t size = bindings::size_bytes(name, {static_cast<std::uint64_t>(count)}, item_bytes);
    if (!core::is_mapped(list, size)) {
      throw UsageError("a list of " + std::to_string(size) +
                       " bytes is not the program's, or no longer: pass the address of the variable that points to it");
    }
    if (parts.saved != nullptr) {
      detail::append_count(*parts.saved, size);
      detail::append(*parts.saved, list, size);
      return;
    }
    const std::span<const std::byte> stored = parts.restored->take(parts.restored->count());
    if (stored.size() % item_bytes != 0) {
      throw MismatchError("the checkpoint has " + std::to_string(stored.size()) + " bytes, which are no items of " +
                          std::to_string(item_bytes));
    }
    resize_list(list, stored.size());
    std::memcpy(pointer, &list, sizeof(list));
    copy_bytes(list, stored);
    count = static_cast<int64_t>(stored.size() / item_bytes);
  });
  return count;
}

int reprieve_allow_shared(reprieve_checkpoint* checkpoint, const char* name) {
  return registering(checkpoint, name, [](Checkpoint& state, const std::string& key) { state.allow_shared(key); });
}

int reprieve_add_component(reprieve_checkpoint* checkpoint, const char* name, reprieve_checkpoint** part) {
  return registering(checkpoint, [&](Checkpoint& state) {
    const std::unique_ptr<reprieve_checkpoint> owner(std::exchange(result_at(part, "part"), nullptr));
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

int reprieve_add_files(reprieve_checkpoint* checkpoint, const char* name, MPI_Comm comm, const char* directory,
                       reprieve_files_fn files, void* user) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    if (files == nullptr) {
      throw UsageError("variable '" + key + "': the function for its files is NULL: pass one");
    }
    const auto call = [files, user, what = "the function for the files of variable '" + key + "'"](
                          const std::string& prefix, int restores) {
      check_callback(what, [&] { return files(prefix.c_str(), restores, user); });
    };
    add_files(state, key, comm, checked_text(directory, "directory"),
              {.write = [call](const std::string& prefix) { call(prefix, 0); },
               .read = [call](const std::string& prefix) { call(prefix, 1); }});
  });
}

int reprieve_allow_missing(reprieve_checkpoint* checkpoint, const char* name) {
  return registering(checkpoint, name, [](Checkpoint& state, const std::string& key) { state.allow_missing(key); });
}

int reprieve_add_former_name(reprieve_checkpoint* checkpoint, const char* name, const char* former) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_former_name(key, checked_text(former, "former name"));
  });
}

int reprieve_allow_dropped(reprieve_checkpoint* checkpoint, const char* name) {
  return registering(checkpoint, name, [](Checkpoint& state, const std::string& key) { state.allow_dropped(key); });
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
  return answer_of([&] { return source_of(stored).contains(checked_text(name, "name")); });
}

int reprieve_stored_read(const reprieve_stored_state* stored, const char* name, int type, void* data, int dimensions,
                         const int64_t* shape, const ptrdiff_t* strides_bytes) {
  return guarded([&] {
    const std::string key = checked_text(name, "name");
    const auto value = fixed_value(key, type, at(data), dimensions, shape, strides_bytes);
    source_of(stored).read_value(key, *value);
  });
}

int reprieve_stored_read_distributed(const reprieve_stored_state* stored, const char* name, int type, void* data,
                                     int dimensions, const int64_t* global_shape, const int64_t* offset,
                                     const int64_t* extent, const ptrdiff_t* strides_bytes) {
  return guarded([&] {
    const std::string key = checked_text(name, "name");
    reprieve_boxes part = no_boxes(key, type, dimensions, global_shape);
    add_box(part, data, offset, extent, strides_bytes);
    source_of(stored).read_distributed(key, part.array);
  });
}

int reprieve_add_memory_space(const char* name, reprieve_owner_fn owner_of, reprieve_device_fn synchronize,
                              reprieve_copy_fn copy_out, reprieve_copy_fn copy_in, reprieve_device_fn wait,
                              void* user) {
  return guarded([&] {
    const std::string key = checked_text(name, "name");
    if (owner_of == nullptr || synchronize == nullptr || copy_out == nullptr || copy_in == nullptr || wait == nullptr) {
      throw UsageError("the memory space '" + key + "': a function is NULL");
    }
    add_memory_space(std::make_shared<SpaceOfC>(key, SpaceCalls{owner_of, synchronize, copy_out, copy_in, wait, user}));
  });
}

int reprieve_set_memory_space(reprieve_checkpoint* checkpoint, const char* name, const char* space, void* stream) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.set_memory_space(key, memory_space(checked_text(space, "space"), stream));
  });
}

}  // extern "C"
