// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Values as bytes, for messages between ranks: numbers, enums, texts, paths, times, `std::optional`, `Rare`, lists,
/// maps, tuples, and structs that list their fields once, next to the struct:
///
///     constexpr auto fields_of(const Box*) { return std::tuple(&Box::offset, &Box::extent); }
///
/// or that list them with their names (json_fields.hpp).
///
/// Every number takes 64 bits, little-endian as the machines are. The bytes say nothing of the types: who reads them
/// knows these.

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/values.hpp"
#include "reprieve/error.hpp"

namespace reprieve::core {

static_assert(std::endian::native == std::endian::little, "checkpoint files and messages hold little-endian words");

namespace packing {

template <class T, template <class...> class Template>
inline constexpr bool kIs = false;
template <template <class...> class Template, class... Ts>
inline constexpr bool kIs<Template<Ts...>, Template> = true;

template <class T>
concept Struct = requires(const T* value) {
  fields_of(value);
};
template <class T>
concept NamedFields = requires(const T& value) {
  T::fields(value, [](const char*, const auto&) {});
};
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept Number = std::is_integral_v<T> || std::is_enum_v<T>;

}  // namespace packing

class Encoder {
 public:
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }

  template <class T>
  void put(const T& value) {
    if constexpr (packing::Number<T>) {
      word(static_cast<std::uint64_t>(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      word(std::bit_cast<std::uint64_t>(static_cast<double>(value)));
    } else if constexpr (std::is_same_v<T, std::string>) {
      text(value);
    } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
      text(value.native());
    } else if constexpr (packing::kIs<T, std::chrono::duration>) {
      put(value.count());
    } else if constexpr (packing::kIs<T, std::chrono::time_point>) {
      put(value.time_since_epoch());
    } else if constexpr (packing::kIs<T, Rare> || packing::kIs<T, std::optional>) {
      const bool is_set = is_there(value);
      put(is_set);
      if (is_set) {
        put(*value);
      }
    } else if constexpr (std::is_same_v<T, std::vector<std::uint64_t>>) {
      words(value);
    } else if constexpr (std::is_same_v<T, Bytes>) {
      bytes(value);
    } else if constexpr (packing::kIs<T, std::vector> || packing::kIs<T, std::map>) {
      put(value.size());
      for (const auto& item : value) {
        put(item);
      }
    } else if constexpr (packing::Struct<T>) {
      std::apply([&](auto... fields) { (put(value.*fields), ...); }, fields_of(&value));
    } else if constexpr (packing::NamedFields<T>) {
      T::fields(value, [&](const char* /*name*/, const auto& field) { put(field); });
    } else {
      static_assert(packing::TupleLike<T>, "a struct needs fields_of");
      std::apply([&](const auto&... parts) { (put(parts), ...); }, value);
    }
  }

  void word(std::uint64_t value) { raw(&value, sizeof value); }
  void words(std::span<const std::uint64_t> values) {
    word(values.size());
    plain_words(values);
  }
  /// Without their number, which the reader knows.
  void plain_words(std::span<const std::uint64_t> values) { raw(values.data(), values.size_bytes()); }
  void text(const std::string& value) { bytes(std::as_bytes(std::span(value))); }
  void bytes(std::span<const std::byte> value) {
    word(value.size());
    raw(value.data(), value.size());
  }
  [[nodiscard]] Bytes take() { return std::move(bytes_); }

 private:
  void raw(const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }

  template <class T>
  static bool is_there(const Rare<T>& value) {
    return value.is_set();
  }
  template <class T>
  static bool is_there(const std::optional<T>& value) {
    return value.has_value();
  }

  Bytes bytes_;
};

/// Reads what an Encoder wrote. @throws Error (internal) if the message ends too early
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  [[nodiscard]] T get() {
    T value{};
    get(value);
    return value;
  }

  template <class T>
  void get(T& value) {
    if constexpr (packing::Number<T>) {
      value = static_cast<T>(word());
    } else if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(std::bit_cast<double>(word()));
    } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::filesystem::path>) {
      value = text();
    } else if constexpr (packing::kIs<T, std::chrono::duration>) {
      value = T(get<typename T::rep>());
    } else if constexpr (packing::kIs<T, std::chrono::time_point>) {
      value = T(get<typename T::duration>());
    } else if constexpr (packing::kIs<T, Rare>) {
      value = get<bool>() ? T(get<std::remove_cvref_t<decltype(*value)>>()) : T();
    } else if constexpr (packing::kIs<T, std::optional>) {
      value = get<bool>() ? T(get<typename T::value_type>()) : std::nullopt;
    } else if constexpr (std::is_same_v<T, std::vector<std::uint64_t>>) {
      value.clear();
      plain_words(word(), value);
    } else if constexpr (std::is_same_v<T, Bytes>) {
      value = bytes();
    } else if constexpr (packing::kIs<T, std::vector>) {
      value.clear();
      for (std::uint64_t left = word(); left > 0; --left) {
        get(value.emplace_back());
      }
    } else if constexpr (packing::kIs<T, std::map>) {
      value.clear();
      for (std::uint64_t left = word(); left > 0; --left) {
        value.insert(get<std::pair<typename T::key_type, typename T::mapped_type>>());
      }
    } else if constexpr (packing::Struct<T>) {
      std::apply([&](auto... fields) { (get(value.*fields), ...); }, fields_of(&value));
    } else if constexpr (packing::NamedFields<T>) {
      T::fields(value, [&](const char* /*name*/, auto& field) { get(field); });
    } else {
      static_assert(packing::TupleLike<T>, "a struct needs fields_of");
      std::apply([&](auto&... parts) { (get(parts), ...); }, value);
    }
  }

  std::uint64_t word() {
    std::uint64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  /// Adds the next @p count words to @p values.
  void plain_words(std::uint64_t count, std::vector<std::uint64_t>& values) {
    const auto part = take(checked(count, sizeof(std::uint64_t)));
    const std::size_t before = values.size();
    values.resize(before + static_cast<std::size_t>(count));
    if (count > 0) {
      std::memcpy(values.data() + before, part.data(), part.size());
    }
  }
  std::vector<std::uint64_t> words() { return get<std::vector<std::uint64_t>>(); }
  std::string text() { return to_text(take(checked(word(), 1))); }
  Bytes bytes() {
    const auto part = take(checked(word(), 1));
    return {part.begin(), part.end()};
  }
  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }

 private:
  [[nodiscard]] std::size_t checked(std::uint64_t count, std::size_t size) const {
    if (count > rest_.size() / size) {
      throw Error(ErrorCode::internal, "a message between ranks is shorter than it says");
    }
    return static_cast<std::size_t>(count) * size;
  }
  std::span<const std::byte> take(std::size_t size) {
    const auto part = rest_.first(checked(size, 1));
    rest_ = rest_.subspan(size);
    return part;
  }

  std::span<const std::byte> rest_;
};

template <class T>
[[nodiscard]] Bytes to_message(const T& value) {
  Encoder message;
  message.put(value);
  return message.take();
}

template <class T>
[[nodiscard]] T from_message(std::span<const std::byte> bytes) {
  return Decoder(bytes).get<T>();
}

}  // namespace reprieve::core
