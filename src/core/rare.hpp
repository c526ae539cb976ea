// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Values that few of many objects have.

#include <memory>
#include <utility>

namespace reprieve::core {

/// A `T` that is mostly `T{}`: then it takes no more than an empty pointer. Copies share the value, which never
/// changes: another one takes its place. As safe on threads as a `T`.
template <class T>
class Rare {
 public:
  Rare() = default;
  /// @throws std::bad_alloc
  Rare(T value) : value_(value == T{} ? nullptr : std::make_shared<const T>(std::move(value))) {}

  [[nodiscard]] const T& operator*() const noexcept {
    static const T none{};
    return value_ ? *value_ : none;
  }
  [[nodiscard]] const T* operator->() const noexcept { return &**this; }
  operator const T&() const noexcept { return **this; }
  /// False: it is `T{}`.
  [[nodiscard]] bool is_set() const noexcept { return value_ != nullptr; }

  friend bool operator==(const Rare& a, const Rare& b) { return *a == *b; }

 private:
  std::shared_ptr<const T> value_;  ///< null: T{}
};

}  // namespace reprieve::core
