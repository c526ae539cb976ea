// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// `Checkpoint`: the registry of everything that makes up the state of a program.

#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprieve/annotation.hpp"
#include "reprieve/export.h"
#include "reprieve/layout.hpp"
#include "reprieve/memory.hpp"
#include "reprieve/memory_space.hpp"
#include "reprieve/record.hpp"
#include "reprieve/stored_state.hpp"
#include "reprieve/value_access.hpp"

namespace reprieve {

/// Makes this rank's value of a per-rank variable after a restart on another number of ranks, from the values that were
/// saved. Called on every rank; `rank` and `size` are those of the restarted run. reprieve/particles.hpp has some.
template <class T>
using Redistribute = std::function<void(const PerRankPieces& pieces, int rank, int size, T& value)>;

namespace detail {
/// The shortest text that stands for exactly this number.
template <class T>
std::string number_text(T value) {
  std::array<char, 128> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}
}  // namespace detail

/// The registry of a program's state: named variables, each replicated, distributed or per-rank.
///
/// Registration stores references: the variables must outlive the Checkpoint. All ranks register the same names with
/// the same kinds; a handler checks this when it is made, and every save and restore does. Register everything before
/// the handler is made, since it may have to save at any moment: while it is there, to register more is a UsageError.
/// Nothing here is collective, and nothing does I/O. Not thread-safe: register from one thread, and not while a save or
/// a restore runs.
///
/// Names form a tree with `/` between the parts, as in `optimizer/momentum`. A part is not empty, not `.` or `..`, and
/// holds no control characters; a name is at most 255 bytes long and is neither registered twice nor a parent of
/// another.
class REPRIEVE_EXPORT Checkpoint {
 public:
  Checkpoint();
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  /// Registers a value that is equal on all ranks: rank 0's is written, every rank restores it. Vectors, strings and
  /// serialized types take the size found in the checkpoint; the others must have it.
  /// @throws UsageError if the name is not allowed
  template <Storable T>
  void add_replicated(std::string name, T& value) {
    add_value<T>(std::move(name), detail::make_access(value));
  }
  /// Of a type that cannot be stored: the compiler says what to do.
  template <class T>
  requires(!Storable<T> && !ValueFunction<T> && !detail::kIsView<T>) void add_replicated(const std::string&, T&) {
    detail::explain_how_to_store<T>();
  }

  /// The same for memory that the caller owns, with a fixed number of elements.
  template <Element T, std::size_t n>
  void add_replicated(std::string name, std::span<T, n> memory) {
    add_value<T>(std::move(name), std::make_unique<detail::SpanAccess<T>>(memory));
  }
  template <Element T>
  void add_replicated(std::string name, T* memory, std::size_t count) {
    add_replicated(std::move(name), std::span(memory, count));
  }

  /// The same for memory that is not dense: see `member_view` and `strided_view`.
  template <Element T>
  void add_replicated(std::string name, const StridedView<T>& view) {
    add_value<T>(std::move(name), detail::make_access(view));
  }

  /// Registers what a function finds at every save and restore: two vectors that are swapped, memory that moves. The
  /// function returns a reference to a value, or a view.
  template <ValueFunction F>
  void add_replicated(std::string name, F find) {
    add_value<detail::Found<F>>(std::move(name), std::make_unique<detail::FoundAccess<F>>(std::move(find)));
  }

  /// Registers this rank's box of an n-dimensional array that is spread over the ranks. The boxes of all ranks must not
  /// overlap; elements that no rank holds are stored as zero. On restore every rank gets the elements of its present
  /// box, whatever the number of ranks or the split was when it was saved.
  ///
  /// Its address and size are read again at every save and restore, so a std::vector may move. A size that does not fit
  /// the box is a UsageError on all ranks before anything is written.
  /// @param memory  a std::vector, std::array: kept by reference. A std::span, StridedView, mdspan: kept by value, for
  ///                memory that stays where it is. The whole memory, ghost layers included (see `with_ghost_layers`)
  /// @throws UsageError if the name is not allowed or the layout is inconsistent or outside of the global shape
  template <class M>
  requires(ElementMemory<M&&>) void add_distributed(std::string name, M&& memory, DistributedLayout layout) {
    using Memory = std::remove_reference_t<M>;
    if constexpr (detail::kIsView<std::remove_cv_t<Memory>>) {
      add_found(
          std::move(name), [view = memory] { return view; }, std::move(layout));
    } else {
      if (layout.memory_elements == 0 && !layout.strides_bytes.empty()) {
        layout.memory_elements = memory.size();
      }
      add_found(
          std::move(name), [place = &memory]() -> Memory& { return *place; }, std::move(layout));
    }
  }

  /// Registers memory that a function finds at every save and restore: two vectors that are swapped, memory of another
  /// library. The function returns a view, or a reference to a container.
  template <MemoryFunction F>
  void add_distributed(std::string name, F find, DistributedLayout layout) {
    add_found(std::move(name), std::move(find), std::move(layout));
  }

  /// Registers memory by its address alone. The address is kept: the memory must not move or change its size. Every
  /// save and restore checks first that it is memory at all. Freed memory that has another use by now is saved as it
  /// is. Memory that can move is registered by one of the forms above.
  /// @param data  first element of the box (with ghost layers: the first interior element)
  template <Element T>
  void add_distributed(std::string name, T* data, DistributedLayout layout) {
    Members members = detail::members_if_any<T>();
    add_distributed_array(name, element_type_of<T>(), reinterpret_cast<std::byte*>(data), std::move(layout));
    set_members_if_any(name, std::move(members));
  }

  /// Registers an array by the variable that points to it: a program may swap such pointers, and allocate again. Every
  /// save and restore reads the pointer.
  /// @param pointer  `&u`: of the whole array, ghost layers included (see `with_ghost_layers`); it outlives the
  /// handlers
  template <Element T>
  void add_distributed(std::string name, T** pointer, DistributedLayout layout) {
    add_pointed<T>(
        std::move(name), [pointer]() -> void* { return *pointer; }, std::move(layout));
  }
  template <Element T, class Deleter>
  void add_distributed(std::string name, std::unique_ptr<T[], Deleter>& pointer, DistributedLayout layout) {
    add_pointed<T>(
        std::move(name), [&pointer]() -> void* { return pointer.get(); }, std::move(layout));
  }

  /// The same for a view, which has the extent and the strides of this rank's box. It is kept by value.
  /// @param offset  first global index of the box
  template <Element T>
  void add_distributed(std::string name, const StridedView<T>& view, IndexList global_shape, IndexList offset) {
    add_distributed(std::move(name), view.data,
                    DistributedLayout{std::move(global_shape), std::move(offset), view.extent, view.strides_bytes});
  }

  /// The same for a function that returns such a view (StridedView, mdspan) at every save and restore. The extent of
  /// the box is that of the view at the time.
  template <MemoryFunction F>
  requires(!ContiguousValue<std::remove_cvref_t<std::invoke_result_t<F&>>>) void add_distributed(std::string name,
                                                                                                 F find,
                                                                                                 IndexList global_shape,
                                                                                                 IndexList offset) {
    Members members = detail::members_of_elements<detail::Found<F>>();
    add_distributed_view(
        name,
        [find = std::move(find)]() mutable {
          const auto found = find();
          return detail::see(found);
        },
        std::move(global_shape), std::move(offset));
    set_members_if_any(name, std::move(members));
  }

  /// The general form, for any number of boxes: `describe` is called at every save and restore, so memory that moves
  /// and boxes that come and go (adaptive meshes) are possible. The type and the number of dimensions must stay the
  /// same. A program whose boxes follow from restored values makes them in `when_values_restored`.
  void add_distributed(std::string name, std::function<DistributedArray()> describe);

  /// Registers a value that every rank has for itself; sizes may differ between ranks. It restores on the same number
  /// of ranks. On another number `redistribute` is called; without it the restore is a MismatchError that names the
  /// value.
  /// @throws UsageError if the name is not allowed
  template <Storable T>
  void add_per_rank(std::string name, T& value, std::type_identity_t<Redistribute<T>> redistribute = {}) {
    RedistributeAny any;
    if (redistribute) {
      any = [&value, call = std::move(redistribute)](const PerRankPieces& pieces, int rank, int size) {
        call(pieces, rank, size, value);
      };
    }
    add_value<T>(std::move(name), detail::make_access(value), std::move(any));
  }
  /// Of a type that cannot be stored: the compiler says what to do.
  template <class T>
  requires(!Storable<T> && !ValueFunction<T> && !detail::kIsView<T>) void add_per_rank(const std::string&, T&) {
    detail::explain_how_to_store<T>();
  }

  /// The same for memory that the caller owns, with a fixed number of elements. Views are kept by value: the memory
  /// must stay where it is.
  template <Element T>
  void add_per_rank(std::string name, const StridedView<T>& view) {
    add_value<T>(std::move(name), detail::make_access(view), RedistributeAny());
  }
  template <Element T, std::size_t n>
  void add_per_rank(std::string name, std::span<T, n> memory) {
    add_value<T>(std::move(name), std::make_unique<detail::SpanAccess<T>>(memory), RedistributeAny());
  }
  template <Element T>
  void add_per_rank(std::string name, T* memory, std::size_t count) {
    add_per_rank(std::move(name), std::span(memory, count));
  }

  /// The same for what a function finds at every save and restore; it returns a reference to a value, or a view.
  template <ValueFunction F>
  void add_per_rank(std::string name, F find) {
    add_value<detail::Found<F>>(std::move(name), std::make_unique<detail::FoundAccess<F>>(std::move(find)),
                                RedistributeAny());
  }

  /// Takes over all variables of @p part, with everything that was said about them; their names become
  /// `<name>/<name in the part>`. So each component of a program registers its own state.
  /// @throws UsageError if a name is not allowed; nothing is taken over then
  void add_component(const std::string& name, Checkpoint part);

  /// Says what the run is about: the name of a case, a parameter, a seed. It is stored in every checkpoint. A restore
  /// from a checkpoint with another value is a MismatchError with both values, before anything is touched: the
  /// directory belongs to another problem. A constant that a checkpoint does not have is logged. All ranks say the
  /// same; rank 0's value is stored. Long texts are stored as their checksum. In a Slurm array, the number of the task
  /// is such a constant by itself (`ManagerOptions::array_task_is_constant`).
  /// @throws UsageError if the name is not allowed or taken
  void add_constant(std::string name, std::string_view value) {
    add_constant_text(std::move(name), std::string(value));
  }
  void add_constant(std::string name, const char* value) { add_constant_text(std::move(name), value); }
  void add_constant(std::string name, bool value) { add_constant_text(std::move(name), value ? "true" : "false"); }
  template <class T>
  requires(std::is_arithmetic_v<T>) void add_constant(std::string name, T value) {
    add_constant_text(std::move(name), detail::number_text(value));
  }

  /// The same for the content of a file, an input deck for one: its checksum (XXH3), which rank 0 finds when a
  /// checkpoint is restored or first saved.
  void add_constant_file(std::string name, const std::filesystem::path& file);

  /// Called on every rank in the middle of a restore: the replicated and the per-rank variables have their values, the
  /// distributed ones are not described yet. An adaptive mesh makes its blocks here. No MPI calls of its own. Several
  /// functions run in the order in which they were given. The order of a restore is always the same: values,
  /// serializers, redistribution functions, these functions, `describe` functions, arrays, migration functions. An
  /// exception in one of them is an error on all ranks. Nothing else is restored, initialised or saved after it:
  /// variables are overwritten by then.
  void when_values_restored(std::function<void()> prepare);

  /// The boxes of a distributed variable may overlap: two ranks each have a copy of the nodes on their border. A
  /// restore with the same boxes gives every rank its own copy back, bit for bit. On another split all get the copy of
  /// the owner: the lowest rank that had the element (of two boxes of one rank: the first). Costs a second copy of what
  /// is shared. All ranks say the same.
  /// @throws UsageError if no distributed variable @p name is registered
  void allow_shared(const std::string& name);

  /// Says what a registered variable means: its units, a description, the names of its dimensions. They become
  /// attributes and dimension scales of its dataset (apps/guide/format.md), which h5py and xarray show. They change
  /// nothing about a restore, but one of numbers in other units is warned of in the log: they are taken as they are.
  /// All ranks say the same. What was said of the variable before is replaced.
  /// @throws UsageError if no variable @p name is registered, or if a text is not allowed (see Annotation). Another
  /// number of names than the variable has dimensions is one too, here or when the handler is made
  void annotate(const std::string& name, Annotation annotation);

  /// Says which members the elements of a registered variable have, so that HDF5 tools show them by their names. Types
  /// with `RecordMembers` need no such call, unless a function describes their boxes. The bytes in the file stay the
  /// same; a restore compares the lists of members where there are two. All ranks say the same.
  /// @throws UsageError if no variable @p name is registered, or if a member lies outside of an element or on another
  void set_members(const std::string& name, Members members);

  /// The memory of a registered variable is on a device, in this space: `cuda_memory(stream)`, or one of the program's
  /// own. Needed only to name a stream, or to be sure: memory of CUDA, HIP and added spaces is known by its address. If
  /// it turns out to be elsewhere, a save or a restore is a UsageError on all ranks before anything is written.
  /// @throws UsageError if no variable @p name is registered, or without a space
  void set_memory_space(const std::string& name, std::shared_ptr<MemorySpace> space);

  /// A restore from a checkpoint without this variable leaves it as it is: for what newer versions of the program have,
  /// or what only some runs have. @throws UsageError if no such variable is registered
  void allow_missing(const std::string& name);

  /// The variable was called @p former in older versions of the program: that is restored if a checkpoint has nothing
  /// under the present name. May be called with several names; the first that is there counts.
  /// @throws UsageError if no variable @p name is registered
  void add_former_name(const std::string& name, std::string former);

  /// A stored variable of this name, or below it in the tree, that is not registered is left out of a restore: for what
  /// the program no longer has.
  void allow_dropped(std::string name);

  /// Called on every rank at the end of a restore from a checkpoint in which variables were missing, or had to be left
  /// out: makes what is new from what is old. Without MPI calls of its own; an exception is an error on all ranks.
  void on_migration(std::function<void(const StoredState& stored)> migrate);

  /// Forms without templates, for bindings.
  using RedistributeAny = std::function<void(const PerRankPieces& pieces, int rank, int size)>;
  void add_replicated_value(std::string name, std::unique_ptr<ValueAccess> access);
  void add_per_rank_value(std::string name, std::unique_ptr<ValueAccess> access, RedistributeAny redistribute);
  void add_distributed_array(std::string name, ElementType type, std::byte* data, DistributedLayout layout);
  using FindPointer = std::function<void*()>;
  void add_distributed_pointer(std::string name, ElementType type, FindPointer find, DistributedLayout layout);
  using FindMemory = std::function<detail::SeenMemory()>;
  void add_distributed_memory(std::string name, ElementType type, FindMemory find, DistributedLayout layout);
  void add_distributed_view(std::string name, FindMemory find, Extents global_shape, Extents offset);

  void add_constant_text(std::string name, std::string text);

  /// Number of registered variables.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] bool contains(const std::string& name) const;

  /// The registry itself, for the layers of the library (src/state).
  struct Registry;
  [[nodiscard]] Registry& registry() const noexcept { return *registry_; }

 private:
  template <Element T>
  void add_pointed(std::string name, FindPointer find, DistributedLayout layout) {
    Members members = detail::members_if_any<T>();
    add_distributed_pointer(name, element_type_of<T>(), std::move(find), std::move(layout));
    set_members_if_any(name, std::move(members));
  }

  template <MemoryFunction F>
  void add_found(std::string name, F find, DistributedLayout layout) {
    Members members = detail::members_of_elements<detail::Found<F>>();
    add_distributed_memory(
        name, detail::memory_type<detail::Found<F>>(),
        [find = std::move(find)]() mutable {
          auto&& found = find();
          return detail::see(found);
        },
        std::move(layout));
    set_members_if_any(name, std::move(members));
  }

  /// A replicated value, or with a third argument a per-rank one. @tparam T  of the value, or of its elements
  template <class T, class... Redistribution>
  void add_value(std::string name, std::unique_ptr<ValueAccess> access, Redistribution... redistribution) {
    Members members = detail::members_of_elements<T>();
    if constexpr (sizeof...(redistribution) == 0) {
      add_replicated_value(name, std::move(access));
    } else {
      add_per_rank_value(name, std::move(access), std::move(redistribution)...);
    }
    set_members_if_any(name, std::move(members));
  }

  void set_members_if_any(const std::string& name, Members members) {
    if (!members.empty()) {
      set_members(name, std::move(members));
    }
  }

  std::unique_ptr<Registry> registry_;
};

}  // namespace reprieve
