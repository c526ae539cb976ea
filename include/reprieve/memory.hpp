// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Memory of the program, found again at every save and restore: containers, views, and functions that return one of
/// them.

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprieve/element_type.hpp"
#include "reprieve/layout.hpp"
#include "reprieve/record.hpp"
#include "reprieve/value_access.hpp"

namespace reprieve {

namespace detail {

template <class T>
inline constexpr bool kIsView = MdspanLike<T>;
template <class T, std::size_t n>
inline constexpr bool kIsView<std::span<T, n>> = Element<T>;
template <class T>
inline constexpr bool kIsView<StridedView<T>> = Element<T>;

/// A container, and not what a function made of it: a copy would be saved, and restored into nothing.
template <class M>
inline constexpr bool kIsContainer = ContiguousValue<M> && !kIsView<M>;

}  // namespace detail

/// What knows the address and the number of its elements: std::vector, std::array, std::string; std::span,
/// StridedView, mdspan. Views are kept by value, the others by reference.
template <class M>
concept ElementMemory = detail::kIsView<std::remove_cvref_t<M>> ||
    (detail::kIsContainer<std::remove_reference_t<M>>&& std::is_lvalue_reference_v<M>);

/// A function that returns memory: a view, or a reference to a container.
template <class F>
concept MemoryFunction = std::invocable<F&> && ElementMemory<std::invoke_result_t<F&>>;

/// A function that returns a value: a view, or a reference to anything that can be registered.
template <class F>
concept ValueFunction = MemoryFunction<F> ||(std::invocable<F&>&& std::is_lvalue_reference_v<std::invoke_result_t<F&>>&&
                                                 Storable<std::remove_reference_t<std::invoke_result_t<F&>>>);

namespace detail {

/// Where elements are at the moment.
struct SeenMemory {
  ElementType type;
  std::byte* data = nullptr;
  Extents extent{};                             ///< of a container: one number
  std::vector<std::ptrdiff_t> strides_bytes{};  ///< of a view; empty: side by side
  bool has_shape = false;                       ///< a view with an extent and strides of its own
};

/// A view with strides: an mdspan or a StridedView.
template <class T>
const StridedView<T>& as_strided(const StridedView<T>& view) {
  return view;
}
template <MdspanLike M>
auto as_strided(const M& view) {
  return strided_view(view);
}

/// The type of the elements of a view or a container.
template <class M>
struct MemoryElement {
  using Type = std::remove_pointer_t<decltype(as_strided(std::declval<const M&>()).data)>;
};
template <ContiguousValue M>
struct MemoryElement<M> : ContiguousElement<M> {};

template <class M>
constexpr ElementType memory_type() {
  if constexpr (std::same_as<M, std::string>) {
    return {ElementClass::text, 1};
  } else {
    return element_type_of<typename MemoryElement<M>::Type>();
  }
}

template <class M>
SeenMemory see(M& memory) {
  using Memory = std::remove_const_t<M>;
  if constexpr (ContiguousValue<Memory>) {
    return {memory_type<Memory>(), reinterpret_cast<std::byte*>(memory.data()), {memory.size()}};
  } else {
    const auto& view = as_strided(memory);
    return {memory_type<Memory>(), reinterpret_cast<std::byte*>(view.data), view.extent, view.strides_bytes, true};
  }
}

/// What a function finds.
template <class F>
using Found = std::remove_cvref_t<std::invoke_result_t<F&>>;

/// The members of the elements of a value, a container or a view, if they have a list of them.
template <class T>
Members members_of_elements() {
  if constexpr (Element<T> || ElementArray<T>) {
    return members_if_any<std::remove_all_extents_t<T>>();
  } else if constexpr (ContiguousValue<T> || kIsView<T>) {
    return members_if_any<typename MemoryElement<T>::Type>();
  } else {
    return {};
  }
}

/// A value that a function finds again at every save and restore.
template <ValueFunction F>
class FoundAccess final : public ValueAccess {
 public:
  explicit FoundAccess(F find) : find_(std::move(find)) {}
  [[nodiscard]] ElementType type() const override { return current()->type(); }
  [[nodiscard]] Extents shape() const override { return current()->shape(); }
  [[nodiscard]] bool resizable() const override { return current()->resizable(); }
  [[nodiscard]] bool is_text_list() const override { return current()->is_text_list(); }
  [[nodiscard]] std::span<const std::byte> bytes() override {
    find();
    return found_->bytes();
  }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t size) override {
    find();
    return found_->prepare(size);
  }
  void commit() override { found_->commit(); }
  [[nodiscard]] bool checks_space(MemorySpace* named) override {
    named_ = named;
    return current()->checks_space(named);
  }

 private:
  void find() {
    found_ = current();
    static_cast<void>(found_->checks_space(named_));
  }
  [[nodiscard]] std::unique_ptr<ValueAccess> current() const {
    using Value = Found<F>;
    if constexpr (!kIsView<Value>) {
      return make_access(find_());
    } else if constexpr (ContiguousValue<Value>) {
      return std::make_unique<SpanAccess<typename ContiguousElement<Value>::Type>>(find_());
    } else {
      return make_access(as_strided(find_()));
    }
  }

  mutable F find_;
  std::unique_ptr<ValueAccess> found_;
  MemorySpace* named_ = nullptr;
};

}  // namespace detail

}  // namespace reprieve
