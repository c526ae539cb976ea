#pragma once

/// @file
/// The layout of a file, kept from one save to the next.

#include <memory>

namespace reprieve::storage {

/// What the chief keeps from one save to the next: as long as all ranks register the same variables and shapes, the
/// file is not laid out anew.
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
