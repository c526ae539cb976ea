#pragma once

/// @file
/// The layout of a file, kept from one save to the next.

#include <memory>

namespace reprieve::storage {

/// What a rank keeps from one save to the next: as long as no rank registers other variables or shapes than before, the
/// file is not laid out anew, and the ranks tell each other nothing of them.
class LayoutCache {
 public:
  LayoutCache();
  ~LayoutCache();
  LayoutCache(LayoutCache&&) noexcept;
  LayoutCache& operator=(LayoutCache&&) noexcept;

  struct Content;
  [[nodiscard]] std::unique_ptr<Content>& content() noexcept { return content_; }

 private:
  std::unique_ptr<Content> content_;  ///< nothing before the first save
};

}  // namespace reprieve::storage
