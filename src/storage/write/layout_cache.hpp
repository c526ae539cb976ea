#pragma once

/// @file
/// The layout of a file, kept from one save to the next.

#include <memory>
#include <optional>
#include <utility>

#include "core/file_address.hpp"

namespace reprieve::storage {

/// What a rank keeps from one save to the next: as long as no rank registers other variables or shapes than before, the
/// file is not laid out anew, and the ranks tell each other nothing of them.
class LayoutCache {
 public:
  LayoutCache();
  ~LayoutCache();
  LayoutCache(LayoutCache&&) noexcept;
  LayoutCache& operator=(LayoutCache&&) noexcept;

  /// A file that is complete, as one that has just been restored: if the first save has the same variables, it takes
  /// the structure from there. Counts on the chief. Local.
  void take_from(core::FileAddress file) { model_ = std::move(file); }

  struct Content;
  [[nodiscard]] std::unique_ptr<Content>& content() noexcept { return content_; }
  [[nodiscard]] std::optional<core::FileAddress>& model() noexcept { return model_; }

 private:
  std::unique_ptr<Content> content_;  ///< nothing before the first save
  std::optional<core::FileAddress> model_;
};

}  // namespace reprieve::storage
