#pragma once

/// @file
/// `Checkpoint`: the registry of everything that makes up the state of a program.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprieve/element_type.hpp"
#include "reprieve/serializer.hpp"

namespace reprieve {

/// Numbers of elements per dimension, slowest-varying first (C order).
using Extents = std::vector<std::uint64_t>;

/// Where this rank's part of a distributed array lies, in the global array and in memory.
struct DistributedLayout {
  Extents global_shape;  ///< shape of the whole array; the same on all ranks
  Extents offset;        ///< first global index of this rank's box
  Extents extent;        ///< size of this rank's box; a zero means that this rank holds nothing

  /// Distance in bytes between neighbours in memory, per dimension. Empty: the box is dense, in C order.
  std::vector<std::ptrdiff_t> strides_bytes = {};
};

/// The layout of a box that lies in memory with `ghost` extra layers on each side of each dimension, in C order. The
/// data pointer to register with it is that of the first *interior* element, `first_interior(padded, layout)`.
/// @param ghost  layers per dimension, the same on both sides
/// @param element_size_bytes  size of one element
/// @throws UsageError if the dimensions differ in number
DistributedLayout with_ghost_layers(Extents global_shape, Extents offset, Extents extent, const Extents& ghost,
                                    std::size_t element_size_bytes);

/// Index (in elements) of the first interior element in an array padded with `ghost` layers, in C order.
std::size_t first_interior_index(const Extents& extent, const Extents& ghost);

/// One box of a distributed array in this rank's memory.
struct MemoryBox {
  std::byte* data = nullptr;                       ///< first element of the box
  Extents offset;                                  ///< first global index
  Extents extent;                                  ///< size of the box
  std::vector<std::ptrdiff_t> strides_bytes = {};  ///< see DistributedLayout
};

/// This rank's share of a distributed array: any number of boxes.
struct DistributedArray {
  ElementType type;
  Extents global_shape;
  std::vector<MemoryBox> boxes;
};

/// The values that a per-rank variable had on each of the ranks that saved it.
class PerRankPieces {
 public:
  virtual ~PerRankPieces() = default;
  /// Number of ranks that saved.
  [[nodiscard]] virtual int count() const = 0;
  /// The bytes that rank @p saved_rank wrote. Not collective; reads and verifies that piece alone.
  /// @throws CorruptError, StorageError, UsageError (no such rank)
  [[nodiscard]] virtual std::vector<std::byte> bytes(int saved_rank) const = 0;
};

/// How the library reaches one replicated or per-rank value. Users meet it only if they write a binding of their own.
class ValueAccess {
 public:
  virtual ~ValueAccess() = default;
  [[nodiscard]] virtual ElementType type() const = 0;
  /// Current shape; empty for a scalar.
  [[nodiscard]] virtual Extents shape() const = 0;
  /// True if `assign` accepts another length than the current one.
  [[nodiscard]] virtual bool resizable() const = 0;
  /// The current content; valid until the value changes or `bytes` is called again.
  [[nodiscard]] virtual std::span<const std::byte> bytes() = 0;
  /// Memory of `size` bytes to receive a restored content, which `commit` then makes the value.
  [[nodiscard]] virtual std::span<std::byte> prepare(std::size_t size) = 0;
  virtual void commit() = 0;
};

namespace detail {

template <class T>
struct ContiguousElement {};
template <Element T, class Allocator>
requires(!std::same_as<T, bool>) struct ContiguousElement<std::vector<T, Allocator>> {
  using Type = T;
};
template <Element T, std::size_t n>
struct ContiguousElement<std::array<T, n>> {
  using Type = T;
};
template <Element T, std::size_t n>
struct ContiguousElement<std::span<T, n>> {
  using Type = T;
};
template <>
struct ContiguousElement<std::string> {
  using Type = char;
};

}  // namespace detail

/// Values that hold elements side by side: std::vector, std::array, std::span and std::string.
template <class T>
concept ContiguousValue = requires {
  typename detail::ContiguousElement<T>::Type;
};

/// Everything that can be a replicated or per-rank variable.
template <class T>
concept Storable = Element<T> || ContiguousValue<T> || Serializable<T>;

namespace detail {

template <Element T>
class ScalarAccess final : public ValueAccess {
 public:
  explicit ScalarAccess(T& value) : value_(&value) {}
  [[nodiscard]] ElementType type() const override { return element_type_of<T>(); }
  [[nodiscard]] Extents shape() const override { return {}; }
  [[nodiscard]] bool resizable() const override { return false; }
  [[nodiscard]] std::span<const std::byte> bytes() override { return std::as_bytes(std::span<const T>(value_, 1)); }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t) override {
    return std::as_writable_bytes(std::span<T>(value_, 1));
  }
  void commit() override {}

 private:
  T* value_;
};

template <class Container>
class ContiguousAccess final : public ValueAccess {
  using T = std::remove_cv_t<typename ContiguousElement<Container>::Type>;
  static constexpr bool kResizable = requires(Container & c) { c.resize(std::size_t{}); };

 public:
  explicit ContiguousAccess(Container& value) : value_(&value) {}
  [[nodiscard]] ElementType type() const override {
    if constexpr (std::same_as<Container, std::string>) {
      return {ElementClass::text, 1};
    } else {
      return element_type_of<T>();
    }
  }
  [[nodiscard]] Extents shape() const override { return {value_->size()}; }
  [[nodiscard]] bool resizable() const override { return kResizable; }
  [[nodiscard]] std::span<const std::byte> bytes() override {
    return std::as_bytes(std::span<const T>(value_->data(), value_->size()));
  }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t size) override {
    if constexpr (kResizable) {
      value_->resize(size / sizeof(T));
    }
    return std::as_writable_bytes(std::span<T>(value_->data(), value_->size()));
  }
  void commit() override {}

 private:
  Container* value_;
};

/// A span is itself a view: it is kept by value, so that a temporary span can be registered.
template <Element T>
class SpanAccess final : public ValueAccess {
 public:
  explicit SpanAccess(std::span<T> memory) : memory_(memory) {}
  [[nodiscard]] ElementType type() const override { return element_type_of<T>(); }
  [[nodiscard]] Extents shape() const override { return {memory_.size()}; }
  [[nodiscard]] bool resizable() const override { return false; }
  [[nodiscard]] std::span<const std::byte> bytes() override { return std::as_bytes(memory_); }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t) override { return std::as_writable_bytes(memory_); }
  void commit() override {}

 private:
  std::span<T> memory_;
};

template <Serializable T>
class SerializedAccess final : public ValueAccess {
 public:
  explicit SerializedAccess(T& value) : value_(&value) {}
  [[nodiscard]] ElementType type() const override { return {ElementClass::opaque, 1}; }
  [[nodiscard]] Extents shape() const override { return {Serializer<T>::save(*value_).size()}; }
  [[nodiscard]] bool resizable() const override { return true; }
  [[nodiscard]] std::span<const std::byte> bytes() override {
    buffer_ = Serializer<T>::save(*value_);
    return buffer_;
  }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t size) override {
    buffer_.resize(size);
    return buffer_;
  }
  void commit() override { Serializer<T>::load(*value_, buffer_); }

 private:
  T* value_;
  std::vector<std::byte> buffer_;
};

template <Storable T>
std::unique_ptr<ValueAccess> make_access(T& value) {
  if constexpr (Element<T>) {
    return std::make_unique<ScalarAccess<T>>(value);
  } else if constexpr (ContiguousValue<T>) {
    return std::make_unique<ContiguousAccess<T>>(value);
  } else {
    return std::make_unique<SerializedAccess<T>>(value);
  }
}

}  // namespace detail

/// Makes this rank's value of a per-rank variable after a restart on another number of ranks, from the values that were
/// saved. Called on every rank; `rank` and `size` are those of the restarted run.
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
class Checkpoint {
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

  /// Registers this rank's box of an n-dimensional array that is spread over the ranks. The boxes of all ranks must not
  /// overlap; elements that no rank holds are stored as zero. On restore every rank gets the elements of its present
  /// box, whatever the number of ranks or the split was when it was saved.
  /// @param data  first element of the box (with ghost layers: the first interior element)
  /// @throws UsageError if the name is not allowed or the layout is inconsistent or outside of the global shape
  template <Element T>
  void add_distributed(std::string name, T* data, DistributedLayout layout) {
    add_distributed_array(std::move(name), element_type_of<T>(), reinterpret_cast<std::byte*>(data), std::move(layout));
  }

  /// The general form: `describe` is called at every save and restore, so memory that moves and boxes that come and go
  /// (adaptive meshes) are possible. The type and the number of dimensions must stay the same.
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
