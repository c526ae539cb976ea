// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What ranks saved of a per-rank variable, without a file.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reprieve/stored_state.hpp"

namespace reprieve::test {

class SavedPieces final : public PerRankPieces {
 public:
  SavedPieces() = default;
  SavedPieces(ElementType type, std::vector<std::vector<std::byte>> pieces) : type_(type), pieces_(std::move(pieces)) {}

  /// From one list of each rank.
  template <Element T>
  static SavedPieces of_lists(const std::vector<std::vector<T>>& lists) {
    std::vector<std::vector<std::byte>> pieces;
    for (const std::vector<T>& list : lists) {
      const auto bytes = std::as_bytes(std::span(list));
      pieces.emplace_back(bytes.begin(), bytes.end());
    }
    return {element_type_of<T>(), std::move(pieces)};
  }

  void add_sibling(const std::string& name, SavedPieces pieces) { siblings_.emplace(name, std::move(pieces)); }

  [[nodiscard]] int count() const override { return static_cast<int>(pieces_.size()); }
  [[nodiscard]] ElementType type() const override { return type_; }
  [[nodiscard]] Extents shape(int saved_rank) const override {
    return {pieces_.at(static_cast<std::size_t>(saved_rank)).size() / type_.size_bytes};
  }
  [[nodiscard]] std::vector<std::byte> bytes(int saved_rank) const override {
    return pieces_.at(static_cast<std::size_t>(saved_rank));
  }
  [[nodiscard]] const PerRankPieces& of(const std::string& name) const override { return siblings_.at(name); }

 private:
  ElementType type_;
  std::vector<std::vector<std::byte>> pieces_;
  std::map<std::string, SavedPieces> siblings_;
};

}  // namespace reprieve::test
