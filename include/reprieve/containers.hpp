// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Serializers for the containers of the standard library, nested as deep as you like:
/// std::vector<std::vector<double>>, std::map<std::string, std::optional<std::array<int, 3>>>, ...
///
/// What they may hold: elements (numbers, enums, std::complex, records), std::string, types with a Serializer or with a
/// function `serialize`, and each other. The bytes begin with a signature of the type, so that they are never taken for
/// another one. Numbers are stored as the machine has them. Unordered containers may come back in another order of
/// iteration.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "reprieve/element_type.hpp"
#include "reprieve/error.hpp"
#include "reprieve/serializer.hpp"

namespace reprieve {

namespace detail {

/// Takes bytes from the front of what is left. @throws MismatchError if there are fewer
class PackedReader {
 public:
  explicit PackedReader(std::span<const std::byte> bytes) : left_(bytes) {}

  [[nodiscard]] std::span<const std::byte> take(std::size_t size) {
    if (size > left_.size()) {
      throw MismatchError("the stored bytes of a container end too early");
    }
    const auto taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }

  template <class T>
  [[nodiscard]] T number() {
    T value;
    std::memcpy(static_cast<void*>(&value), take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  /// A number of items, each of one byte or more.
  [[nodiscard]] std::size_t count() {
    const auto count = number<std::uint64_t>();
    if (count > left_.size()) {
      throw MismatchError("the stored bytes of a container end too early");
    }
    return static_cast<std::size_t>(count);
  }

  [[nodiscard]] bool at_end() const noexcept { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
};

using Packed = std::vector<std::byte>;

inline void append(Packed& out, const void* data, std::size_t size) {
  const auto* const bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

inline void append_count(Packed& out, std::size_t count) {
  const std::uint64_t number = count;
  append(out, &number, sizeof number);
}

/// How a type is packed: `signature()`, `pack(out, value)`, `unpack(reader, value)`. Without a specialisation: not at
/// all.
template <class T>
struct Packer;

template <class T>
concept Packable = requires {
  { Packer<T>::signature() } -> std::same_as<std::string>;
};

template <Element T>
struct Packer<T> {
  static std::string signature() { return to_string(element_type_of<T>()); }
  static void pack(Packed& out, const T& value) { append(out, &value, sizeof value); }
  static void unpack(PackedReader& in, T& value) { value = in.number<T>(); }
};

template <>
struct Packer<std::string> {
  static std::string signature() { return "text"; }
  static void pack(Packed& out, const std::string& value) {
    append_count(out, value.size());
    append(out, value.data(), value.size());
  }
  static void unpack(PackedReader& in, std::string& value) {
    const auto bytes = in.take(in.count());
    value.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
};

/// Several types, one after the other.
template <class... Ts>
std::string signatures(std::string_view name) {
  std::string text(name);
  ((text += " " + Packer<Ts>::signature()), ...);
  return "(" + text + ")";
}

/// An item that a container makes room for, then takes in.
template <class T>
T unpacked(PackedReader& in) {
  T value{};
  Packer<T>::unpack(in, value);
  return value;
}

/// A number of items: lists, sets, and maps as sets of pairs.
template <class Items, class Item = typename Items::value_type>
struct ItemsPacker {
  static constexpr bool kIsList = requires(Items & items, Item item) { items.push_back(item); };
  static std::string signature() { return signatures<Item>(kIsList ? "list" : "set"); }
  static void pack(Packed& out, const Items& items) {
    append_count(out, items.size());
    for (const auto& item : items) {
      Packer<Item>::pack(out, item);
    }
  }
  static void unpack(PackedReader& in, Items& items) {
    items.clear();
    for (std::size_t left = in.count(); left > 0; --left) {
      items.insert(items.end(), unpacked<Item>(in));
    }
  }
};

template <class T, template <class...> class Template>
inline constexpr bool kIs = false;
template <class... Ts, template <class...> class Template>
inline constexpr bool kIs<Template<Ts...>, Template> = true;
template <class T, template <class...> class... Templates>
inline constexpr bool kIsOneOf = (kIs<T, Templates> || ...);

template <class T>
inline constexpr bool kIsItems =
    kIsOneOf<T, std::vector, std::deque, std::list, std::set, std::multiset, std::unordered_set>;
template <class T>
inline constexpr bool kIsMap = kIsOneOf<T, std::map, std::multimap, std::unordered_map>;

template <class T>
requires(kIsItems<T>&& Packable<typename T::value_type>) struct Packer<T> : ItemsPacker<T> {
};
template <class T>
requires(kIsMap<T>&& Packable<typename T::key_type>&& Packable<typename T::mapped_type>) struct Packer<T>
    : ItemsPacker<T, std::pair<typename T::key_type, typename T::mapped_type>> {
};

template <Packable T, std::size_t n>
struct Packer<std::array<T, n>> {
  static std::string signature() { return signatures<T>("array " + std::to_string(n)); }
  static void pack(Packed& out, const std::array<T, n>& values) {
    for (const T& value : values) {
      Packer<T>::pack(out, value);
    }
  }
  static void unpack(PackedReader& in, std::array<T, n>& values) {
    for (T& value : values) {
      Packer<T>::unpack(in, value);
    }
  }
};

/// The parts of a pair or a tuple.
template <class Tuple, class... Parts>
struct TuplePacker {
  static std::string signature() { return signatures<Parts...>("tuple"); }
  static void pack(Packed& out, const Tuple& value) {
    std::apply([&out](const Parts&... parts) { (Packer<Parts>::pack(out, parts), ...); }, value);
  }
  static void unpack(PackedReader& in, Tuple& value) {
    std::apply([&in](Parts&... parts) { (Packer<Parts>::unpack(in, parts), ...); }, value);
  }
};

template <Packable A, Packable B>
struct Packer<std::pair<A, B>> : TuplePacker<std::pair<A, B>, A, B> {};
template <Packable First, Packable... Rest>
struct Packer<std::tuple<First, Rest...>> : TuplePacker<std::tuple<First, Rest...>, First, Rest...> {};

template <Packable T>
struct Packer<std::optional<T>> {
  static std::string signature() { return signatures<T>("optional"); }
  static void pack(Packed& out, const std::optional<T>& value) {
    Packer<bool>::pack(out, value.has_value());
    if (value) {
      Packer<T>::pack(out, *value);
    }
  }
  static void unpack(PackedReader& in, std::optional<T>& value) {
    value = in.number<std::uint8_t>() != 0 ? std::optional<T>(unpacked<T>(in)) : std::nullopt;
  }
};

template <Packable... Ts>
struct Packer<std::variant<Ts...>> {
  static std::string signature() { return signatures<Ts...>("variant"); }
  static void pack(Packed& out, const std::variant<Ts...>& value) {
    append_count(out, value.index());
    std::visit([&out](const auto& held) { Packer<std::remove_cvref_t<decltype(held)>>::pack(out, held); }, value);
  }
  static void unpack(PackedReader& in, std::variant<Ts...>& value) {
    const auto index = in.number<std::uint64_t>();
    if (index >= sizeof...(Ts)) {
      throw MismatchError("the stored bytes of a std::variant name an alternative that there is not");
    }
    unpack_alternative(in, value, index, std::index_sequence_for<Ts...>());
  }

 private:
  template <std::size_t... alternatives>
  static void unpack_alternative(PackedReader& in, std::variant<Ts...>& value, std::uint64_t index,
                                 std::index_sequence<alternatives...>) {
    ((alternatives == index ? static_cast<void>(value.template emplace<alternatives>(unpacked<Ts>(in))) : void()), ...);
  }
};

template <class T>
requires(!std::is_array_v<T>) struct Packer<std::unique_ptr<T>> {
  static std::string signature() { return "pointer"; }  // without that of T, which may hold pointers of the same type
  static void pack(Packed& out, const std::unique_ptr<T>& value) {
    Packer<bool>::pack(out, value != nullptr);
    if (value) {
      Packer<T>::pack(out, *value);
    }
  }
  static void unpack(PackedReader& in, std::unique_ptr<T>& value) {
    value = in.number<std::uint8_t>() != 0 ? std::make_unique<T>(unpacked<T>(in)) : nullptr;
  }
};

/// The standard containers and wrappers that get a Serializer here.
template <class T>
inline constexpr bool kIsOfStandard =
    kIsItems<T> || kIsMap<T> || kIsOneOf<T, std::pair, std::tuple, std::optional, std::variant>;
template <class T, class... Rest>
inline constexpr bool kIsOfStandard<std::vector<T, Rest...>> = !Element<T>;
template <class T, std::size_t n>
inline constexpr bool kIsOfStandard<std::array<T, n>> = !Element<T>;
template <class T>
inline constexpr bool kIsOfStandard<std::unique_ptr<T>> = !std::is_array_v<T>;

/// Types with a Serializer that is not made here: of the user's own, and random engines.
template <class T>
requires(!Element<T> && !kIsOfStandard<T> && Serializable<T>) struct Packer<T> {
  static std::string signature() { return "serialized"; }
  static void pack(Packed& out, const T& value) {
    const std::vector<std::byte> bytes = Serializer<T>::save(value);
    append_count(out, bytes.size());
    append(out, bytes.data(), bytes.size());
  }
  static void unpack(PackedReader& in, T& value) { Serializer<T>::load(value, in.take(in.count())); }
};

}  // namespace detail

template <class T>
requires(detail::kIsOfStandard<T>&& detail::Packable<T>) struct Serializer<T> {
  static constexpr bool kOfContainers = true;  ///< not the program's own

  static std::vector<std::byte> save(const T& value) {
    detail::Packed out;
    detail::Packer<std::string>::pack(out, detail::Packer<T>::signature());
    detail::Packer<T>::pack(out, value);
    return out;
  }

  static void load(T& value, std::span<const std::byte> bytes) {
    detail::PackedReader in(bytes);
    const auto stored = detail::unpacked<std::string>(in);
    if (stored != detail::Packer<T>::signature()) {
      throw MismatchError("the stored bytes are those of " + stored + ", not of " + detail::Packer<T>::signature());
    }
    T loaded{};
    detail::Packer<T>::unpack(in, loaded);
    if (!in.at_end()) {
      throw MismatchError("the stored bytes of " + stored + " continue after its end");
    }
    value = std::move(loaded);
  }
};

/// What a function `serialize` gets, in both directions, as in cereal and Boost.Serialization:
///
///     struct Block {
///       int level; std::vector<double> values; std::unique_ptr<Block> next;
///       template <class Archive> void serialize(Archive& archive) { archive("level", level, "values", values, next); }
///     };
///
/// A member of the type itself, not of a base, or a function in its namespace; with or without Boost's version as the
/// last argument (the greatest number: what newer versions added is saved, too).
/// `archive & level & values` means the same. A text before a value is its name: a restore finds out if they are
/// others. Values are what a container may hold, and arrays of C. A restore writes them one after the other.
template <bool saves>
class Archive {
 public:
  using is_saving = std::bool_constant<saves>;    // NOLINT: a name of cereal and Boost
  using is_loading = std::bool_constant<!saves>;  // NOLINT: the same
  using Bytes = std::conditional_t<saves, detail::Packed, detail::PackedReader>;

  explicit Archive(Bytes& bytes) : bytes_(bytes) {}

  /// @throws MismatchError if other values were stored
  template <class... Ts>
  Archive& operator()(Ts&&... values) {
    (take(values), ...);
    return *this;
  }
  template <class T>
  Archive& operator&(T&& value) {
    return (*this)(value);
  }

 private:
  template <class T>
  void take(T& value) {
    if constexpr (std::is_array_v<T> && std::is_const_v<T>) {
      take_name(value);
    } else if constexpr (std::is_array_v<T>) {
      for (auto& item : value) {
        take(item);
      }
    } else {
      static_assert(detail::Packable<T>, "this member cannot be stored: give its type a function serialize");
      if constexpr (saves) {
        detail::Packer<T>::pack(bytes_, value);
      } else {
        detail::Packer<T>::unpack(bytes_, value);
      }
    }
  }

  void take_name(const std::string& name) {
    if constexpr (saves) {
      detail::Packer<std::string>::pack(bytes_, name);
    } else if (const auto stored = detail::unpacked<std::string>(bytes_); stored != name) {
      throw MismatchError("the stored bytes hold \"" + stored + "\" where the program has \"" + name + "\"");
    }
  }

  Bytes& bytes_;
};

namespace detail {

inline constexpr unsigned kNewestVersion = std::numeric_limits<unsigned>::max();

template <class Class, class Result, class... Arguments>
Class* class_of(Result (Class::*)(Arguments...));

/// A member `serialize` of a base says nothing of what T adds.
template <class T, class A>
concept InheritsSerialize = requires {
  class_of(&T::template serialize<A>);
  requires !std::same_as<decltype(class_of(&T::template serialize<A>)), T*>;
};

template <class T, class A>
concept SerializesItself = requires(T& value, A& archive) {
  value.serialize(archive);
}
|| requires(T& value, A& archive) { value.serialize(archive, kNewestVersion); }
|| requires(T& value, A& archive) { serialize(archive, value); }
|| requires(T& value, A& archive) { serialize(archive, value, kNewestVersion); };

template <class A, class T>
void call_serialize(A& archive, T& value) {
  if constexpr (requires { value.serialize(archive); }) {
    value.serialize(archive);
  } else if constexpr (requires { value.serialize(archive, kNewestVersion); }) {
    value.serialize(archive, kNewestVersion);
  } else if constexpr (requires { serialize(archive, value); }) {
    serialize(archive, value);
  } else {
    serialize(archive, value, kNewestVersion);
  }
}

}  // namespace detail

/// Types with a function `serialize`.
template <class T>
requires(!Element<T> && !detail::kIsOfStandard<T> && detail::SerializesItself<T, Archive<true>>) struct Serializer<T> {
  static std::vector<std::byte> save(const T& value) {
    static_assert(!detail::InheritsSerialize<T, Archive<true>>,
                  "the member serialize is that of a base, and would leave out what this type adds: give it its own");
    detail::Packed out;
    Archive<true> archive(out);
    detail::call_serialize(archive, const_cast<T&>(value));  // NOLINT: one function for both directions
    return out;
  }

  static void load(T& value, std::span<const std::byte> bytes) {
    detail::PackedReader in(bytes);
    Archive<false> archive(in);
    detail::call_serialize(archive, value);
    if (!in.at_end()) {
      throw MismatchError("the stored bytes continue after what serialize has read");
    }
  }
};

}  // namespace reprieve
