// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The members of a struct, so that HDF5 tools show its values by their names.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprieve/element_type.hpp"
#include "reprieve/export.h"

namespace reprieve {

/// A member of a struct, as it lies in memory and in the file.
struct Member {
  std::string name;
  ElementType type;                    ///< of one element; {text, n} for a `char[n]`
  std::uint64_t offset = 0;            ///< of its first byte
  std::vector<std::uint64_t> shape{};  ///< of an array, slowest-varying first; empty: one element
  std::vector<Member> members{};       ///< of a struct that has a list of its own

  friend bool operator==(const Member&, const Member&) = default;
};

/// A list of members in the order in which tools show them. Members that are not in it are saved and restored like the
/// others; tools do not see them.
using Members = std::vector<Member>;

namespace detail {

/// What an array of arrays is made of.
template <class M>
struct MemberParts {
  using Type = M;
  static void add_extents(std::vector<std::uint64_t>&) {}
};
template <class M, std::size_t n>
struct MemberParts<M[n]> {
  using Type = typename MemberParts<M>::Type;
  static void add_extents(std::vector<std::uint64_t>& shape) {
    shape.push_back(n);
    MemberParts<M>::add_extents(shape);
  }
};
template <class M, std::size_t n>
struct MemberParts<std::array<M, n>> : MemberParts<M[n]> {};

}  // namespace detail

/// Makes a list of members of T: `members_of<Particle>().add("x", &Particle::x).add("id", &Particle::id).list()`.
template <class T>
class MembersOf {
 public:
  /// @param name    what tools show it as
  /// @param member  an element (number, enum, std::complex, struct with `enable_record` or a list of its own), or an
  ///                array of these (C or std::array). A `char[n]` is shown as text
  template <class M>
  MembersOf& add(std::string name, M T::*member) {
    using Part = typename detail::MemberParts<M>::Type;
    static_assert(Element<Part>, "a member must be an element, or an array of elements");
    Member& added = list_.emplace_back(Member{std::move(name), element_type_of<Part>(), offset_of(member), {}, {}});
    detail::MemberParts<M>::add_extents(added.shape);
    if constexpr (std::is_array_v<M> && std::is_same_v<Part, char>) {
      added.type = {ElementClass::text, static_cast<std::uint32_t>(added.shape.back())};
      added.shape.pop_back();
    }
    if constexpr (HasMembers<Part>) {
      added.members = RecordMembers<Part>::list();
    }
    return *this;
  }

  [[nodiscard]] Members list() const { return list_; }

 private:
  /// The room for a T is one: trivially copyable types come to life in bytes.
  template <class M>
  static std::uint64_t offset_of(M T::*member) {
    static_assert(std::is_trivially_copyable_v<T>, "the bytes of a record must be its value");
    alignas(T) std::array<std::byte, sizeof(T)> room{};
    const T* const object = reinterpret_cast<const T*>(room.data());
    return static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(std::addressof(object->*member)) -
                                      room.data());
  }

  Members list_;
};

template <class T>
MembersOf<T> members_of() {
  return {};
}

namespace detail {

/// The members of a type that has a list of them; empty for the others.
template <class T>
Members members_if_any() {
  if constexpr (HasMembers<T>) {
    return RecordMembers<T>::list();
  } else {
    return {};
  }
}

}  // namespace detail

}  // namespace reprieve
