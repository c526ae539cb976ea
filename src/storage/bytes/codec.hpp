// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Tables of 64-bit words in files, and messages.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/message.hpp"

namespace reprieve::storage {

// 64-bit words that are only read, whoever owns their memory.

/// Copies share the same words, which live as long as the last of them: in memory of this process alone, or in memory
/// that all ranks of a node share.
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

using core::Bytes;
using core::Decoder;
using core::Encoder;

}  // namespace reprieve::storage
