#pragma once

/// @file
/// `Checkpoint`: the registry of everything that makes up the state of a program.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprieve/export.h"
#include "reprieve/layout.hpp"
#include "reprieve/stored_state.hpp"
#include "reprieve/value_access.hpp"

namespace reprieve {

/// Makes this rank's value of a per-rank variable after a restart on another number of ranks, from the values that were
/// saved. Called on every rank; `rank` and `size` are those of the restarted run. reprieve/particles.hpp has some.
template <class T>
using Redistribute = std::function<void(const PerRankPieces& pieces, int rank, int size, T& value)>;

/// The registry of a program's state: named variables, each replicated, distributed or per-rank.
///
/// Registration stores references: the variables must outlive the Checkpoint. All ranks register the same names with
/// the same kinds; this is checked when a checkpoint is saved or restored. Nothing here is collective, and nothing does
/// I/O. Not thread-safe: register from one thread, and not while a save or a restore runs.
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

  /// Registers a value that is equal on all ranks: the chief's is written, every rank restores it. Vectors, strings and
  /// serialized types take the size found in the checkpoint; the others must have it.
  /// @throws UsageError if the name is not allowed
  template <Storable T>
  void add_replicated(std::string name, T& value) {
    add_replicated_value(std::move(name), detail::make_access(value));
  }

  /// The same for memory that the caller owns.
  template <Element T>
  void add_replicated(std::string name, std::span<T> memory) {
    add_replicated_value(std::move(name), std::make_unique<detail::SpanAccess<T>>(memory));
  }

  /// The same for memory that is not dense: see `member_view` and `strided_view`.
  template <Element T>
  void add_replicated(std::string name, const StridedView<T>& view) {
    add_replicated_value(std::move(name), detail::make_access(view));
  }

  /// Registers this rank's box of an n-dimensional array that is spread over the ranks. The boxes of all ranks must not
  /// overlap; elements that no rank holds are stored as zero. On restore every rank gets the elements of its present
  /// box, whatever the number of ranks or the split was when it was saved.
  /// @param data  first element of the box (with ghost layers: the first interior element)
  /// @throws UsageError if the name is not allowed or the layout is inconsistent or outside of the global shape
  template <Element T>
  void add_distributed(std::string name, T* data, DistributedLayout layout) {
    add_distributed_array(std::move(name), element_type_of<T>(), reinterpret_cast<std::byte*>(data), std::move(layout));
  }

  /// The same for a view, which has the extent and the strides of this rank's box.
  /// @param offset  first global index of the box
  template <Element T>
  void add_distributed(std::string name, const StridedView<T>& view, Extents global_shape, Extents offset) {
    add_distributed(std::move(name), view.data,
                    DistributedLayout{std::move(global_shape), std::move(offset), view.extent, view.strides_bytes});
  }

  /// The general form, for any number of boxes: `describe` is called at every save and restore, so memory that moves
  /// and boxes that come and go (adaptive meshes) are possible. The type and the number of dimensions must stay the
  /// same. A program whose boxes follow from restored values makes them in `when_values_restored`.
  void add_distributed(std::string name, std::function<DistributedArray()> describe);

  /// Registers a value of which every rank has its own; sizes may differ between ranks. It restores on the same number
  /// of ranks; on another number `redistribute` is called, and without one the restore is a MismatchError that names
  /// it.
  /// @throws UsageError if the name is not allowed
  template <Storable T>
  void add_per_rank(std::string name, T& value, Redistribute<T> redistribute = {}) {
    RedistributeAny any;
    if (redistribute) {
      any = [&value, call = std::move(redistribute)](const PerRankPieces& pieces, int rank, int size) {
        call(pieces, rank, size, value);
      };
    }
    add_per_rank_value(std::move(name), detail::make_access(value), std::move(any));
  }

  /// The same for memory that the caller owns, with a fixed number of elements.
  template <Element T>
  void add_per_rank(std::string name, const StridedView<T>& view) {
    add_per_rank_value(std::move(name), detail::make_access(view), {});
  }

  /// Takes over all variables of @p part, with everything that was said about them; their names become
  /// `<name>/<name in the part>`. So each component of a program registers its own state.
  /// @throws UsageError if a name is not allowed; nothing is taken over then
  void add_component(const std::string& name, Checkpoint part);

  /// Called on every rank in the middle of a restore, when the replicated and the per-rank variables have their values
  /// and the distributed ones are not described yet: the place to make the blocks of an adaptive mesh. Without MPI
  /// calls of its own. Several functions run in the order in which they were given.
  void when_values_restored(std::function<void()> prepare);

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

  /// Number of registered variables.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] bool contains(const std::string& name) const;

  /// The registry itself, for the layers of the library (src/state).
  struct Registry;
  [[nodiscard]] Registry& registry() const noexcept { return *registry_; }

 private:
  std::unique_ptr<Registry> registry_;
};

}  // namespace reprieve
