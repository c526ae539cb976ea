// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Compact binary messages between ranks, and tables of 64-bit words in files. Little-endian, as the machines are.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/values.hpp"
#include "reprieve/error.hpp"

namespace reprieve::storage {

// 64-bit words that are only read, whoever owns their memory.

/// Copies look at the same words, which live as long as the last of them: in memory of this process alone, or in memory
/// that all ranks of a node look at.
class SharedWords {
 public:
  SharedWords() = default;
  explicit SharedWords(std::vector<std::uint64_t> words) {
    auto own = std::make_shared<const std::vector<std::uint64_t>>(std::move(words));
    words_ = *own;
    owner_ = std::move(own);
  }
  /// @param owner  keeps the memory of the words
  SharedWords(std::span<const std::uint64_t> words, std::shared_ptr<const void> owner)
      : words_(words), owner_(std::move(owner)) {}

  /// Some of the words, in the same memory.
  [[nodiscard]] SharedWords part(std::size_t first, std::size_t count) const {
    return {words_.subspan(first, count), owner_};
  }

  [[nodiscard]] std::span<const std::uint64_t> span() const noexcept { return words_; }
  [[nodiscard]] std::size_t size() const noexcept { return words_.size(); }
  [[nodiscard]] std::uint64_t operator[](std::size_t index) const { return words_[index]; }
  [[nodiscard]] auto begin() const noexcept { return words_.begin(); }
  [[nodiscard]] auto end() const noexcept { return words_.end(); }

 private:
  std::span<const std::uint64_t> words_;
  std::shared_ptr<const void> owner_;
};

static_assert(std::endian::native == std::endian::little, "checkpoint files and messages hold little-endian words");

using core::Bytes;

class Encoder {
 public:
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  void word(std::uint64_t value) { raw(&value, sizeof value); }
  void words(std::span<const std::uint64_t> values) {
    word(values.size());
    raw(values.data(), values.size_bytes());
  }
  /// Without their number, which the reader knows.
  void plain_words(std::span<const std::uint64_t> values) { raw(values.data(), values.size_bytes()); }
  void text(const std::string& value) {
    word(value.size());
    raw(value.data(), value.size());
  }
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

  Bytes bytes_;
};

/// Reads what an Encoder wrote. @throws Error (internal) if the message ends too early
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::uint64_t word() {
    std::uint64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::vector<std::uint64_t> words() {
    std::vector<std::uint64_t> values;
    plain_words(word(), values);
    return values;
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
  std::string text() {
    const auto part = take(checked(word(), 1));
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
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

}  // namespace reprieve::storage
