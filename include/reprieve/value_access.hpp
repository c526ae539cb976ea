// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// `ValueAccess`: how the library reaches one replicated or per-rank value, and the values that it can reach by itself.

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprieve/element_type.hpp"
#include "reprieve/export.h"
#include "reprieve/layout.hpp"
#include "reprieve/record.hpp"
#include "reprieve/serializer.hpp"

namespace reprieve {

/// How the library reaches one replicated or per-rank value. Users meet it only if they write a binding of their own.
class REPRIEVE_EXPORT ValueAccess {
 public:
  virtual ~ValueAccess() = default;
  [[nodiscard]] virtual ElementType type() const = 0;
  /// Current shape; empty for a scalar.
  [[nodiscard]] virtual Extents shape() const = 0;
  /// True if `assign` accepts another length than the current one.
  [[nodiscard]] virtual bool resizable() const { return false; }
  /// The current content; valid until the value changes or `bytes` is called again.
  [[nodiscard]] virtual std::span<const std::byte> bytes() = 0;
  /// Memory of `size` bytes to receive a restored content, which `commit` then makes the value.
  [[nodiscard]] virtual std::span<std::byte> prepare(std::size_t size) = 0;
  virtual void commit() {}
  /// True for a list of texts, if its bytes are those that reprieve/containers.hpp makes of a std::vector<std::string>:
  /// the file then shows it as an array of texts.
  [[nodiscard]] virtual bool is_text_list() const { return false; }
  /// Called before `bytes` and `prepare`, with the space that was set for the value (`Checkpoint::set_memory_space`).
  /// True if these check the space themselves, since they give a copy on the host and not the value's own memory.
  [[nodiscard]] virtual bool checks_space(MemorySpace* /*named*/) { return false; }
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

/// Lists of texts, unless the program has a Serializer of its own for them.
template <class T>
concept TextList = std::same_as<T, std::vector<std::string>> &&
    (!Serializable<T> || requires { Serializer<T>::kOfContainers; });

/// Arrays of the language: `double rotation[3][3]`, `char name[80]`.
template <class T>
concept ElementArray = std::is_array_v<T> && Element<std::remove_all_extents_t<T>>;

/// Everything that can be a replicated or per-rank variable.
template <class T>
concept Storable = Element<T> || ElementArray<T> || ContiguousValue<T> || std::same_as<T, std::vector<bool>> ||
    TextList<T> || Serializable<T>;

namespace detail {

template <class T>
void explain_how_to_store() {
  static_assert(!std::is_const_v<T>, "this variable is const: a restore could not write it");
  static_assert(!enable_record<T> || std::is_trivially_copyable_v<T>,
                "enable_record is for structs whose bytes are their value: a member of this one (std::string, "
                "std::vector), a virtual function or a destructor is against it. Give it a function serialize instead");
  static_assert(std::is_const_v<T> || Storable<T>,
                "Reprieve cannot store this type. A container of the standard library needs reprieve/containers.hpp. A "
                "plain struct needs reprieve::enable_record, any other type that header and a function serialize, or a "
                "reprieve::Serializer (apps/guide/state.md)");
}

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

 private:
  Container* value_;
};

/// Elements side by side. A span is itself a view: it is kept by value, so that a temporary span can be registered.
template <Element T>
class SpanAccess final : public ValueAccess {
 public:
  explicit SpanAccess(std::span<T> memory) : SpanAccess(memory, {memory.size()}) {}
  SpanAccess(std::span<T> memory, Extents shape) : memory_(memory), shape_(std::move(shape)) {}
  [[nodiscard]] ElementType type() const override { return element_type_of<T>(); }
  [[nodiscard]] Extents shape() const override { return shape_; }
  [[nodiscard]] std::span<const std::byte> bytes() override { return std::as_bytes(memory_); }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t) override { return std::as_writable_bytes(memory_); }

 private:
  std::span<T> memory_;
  Extents shape_;
};

template <Serializable T>
class SerializedAccess : public ValueAccess {
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

/// Elements of a program's own memory that need not lie side by side.
REPRIEVE_EXPORT std::unique_ptr<ValueAccess> make_strided_access(ElementType type, std::function<void*()> find,
                                                                 Extents extent,
                                                                 std::vector<std::ptrdiff_t> strides_bytes);
/// A std::vector<bool> keeps bits; the file has a byte for each.
REPRIEVE_EXPORT std::unique_ptr<ValueAccess> make_bits_access(std::vector<bool>& bits);

/// The file has an array of texts, where one is possible.
REPRIEVE_EXPORT std::unique_ptr<ValueAccess> make_texts_access(std::vector<std::string>& texts);

template <Element T>
std::unique_ptr<ValueAccess> make_access(const StridedView<T>& view) {
  return make_strided_access(
      element_type_of<T>(), [data = view.data]() -> void* { return data; }, view.extent, view.strides_bytes);
}

template <Storable T>
std::unique_ptr<ValueAccess> make_access(T& value) {
  if constexpr (Element<T>) {
    return std::make_unique<SpanAccess<T>>(std::span<T>(&value, 1), Extents());
  } else if constexpr (ElementArray<T>) {
    using Part = std::remove_all_extents_t<T>;
    Extents shape;
    MemberParts<T>::add_extents(shape);
    return std::make_unique<SpanAccess<Part>>(std::span(reinterpret_cast<Part*>(&value), sizeof(T) / sizeof(Part)),
                                              shape);
  } else if constexpr (std::same_as<T, std::vector<bool>>) {
    return make_bits_access(value);
  } else if constexpr (TextList<T>) {
    return make_texts_access(value);
  } else if constexpr (ContiguousValue<T>) {
    return std::make_unique<ContiguousAccess<T>>(value);
  } else {
    return std::make_unique<SerializedAccess<T>>(value);
  }
}

}  // namespace detail

}  // namespace reprieve
