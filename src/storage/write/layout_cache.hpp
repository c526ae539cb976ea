// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The layout of a file, kept from one save to the next.

#include <memory>
#include <optional>
#include <utility>

#include "core/file_address.hpp"
#include "storage/format/file_index.hpp"
#include "storage/write/written_ranges.hpp"

namespace reprieve::storage {

/// What a rank keeps from one save to the next: as long as no rank registers other variables or shapes than before, the
/// file is not laid out anew, and the ranks tell each other nothing of them.
class LayoutCache {
 public:
  /// A complete file, and what it says about itself.
  struct Model {
    core::FileAddress file;
    FileIndex index;
  };

  LayoutCache();
  ~LayoutCache();
  LayoutCache(LayoutCache&&) noexcept;
  LayoutCache& operator=(LayoutCache&&) noexcept;

  /// A file that is complete, as one that has just been restored: if the first save has the same variables, it takes
  /// the structure from there. Counts on the chief. Local.
  void take_from(Model model) { model_ = std::move(model); }

  /// What this rank has written before, into files that may be written over.
  [[nodiscard]] WriteHistory& history() noexcept { return history_; }

  struct Content;
  [[nodiscard]] std::unique_ptr<Content>& content() noexcept { return content_; }
  [[nodiscard]] std::optional<Model>& model() noexcept { return model_; }

 private:
  std::unique_ptr<Content> content_;  ///< nothing before the first save
  std::optional<Model> model_;
  WriteHistory history_;
};

}  // namespace reprieve::storage
