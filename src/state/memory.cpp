// SPDX-License-Identifier: BSD-3-Clause
// Distributed arrays in memory that is looked at anew at every save and restore.

#include "reprieve/memory.hpp"

#include "reprieve/checkpoint.hpp"
#include "reprieve/error.hpp"
#include "state/registry.hpp"
#include "state/strided.hpp"

namespace reprieve {

namespace {

std::string product_text(const Extents& extents) {
  std::string text;
  for (const std::uint64_t length : extents) {
    text += (text.empty() ? "" : " x ") + std::to_string(length);
  }
  return text;
}

/// A box of a distributed array in the memory that a function finds.
class BoxInMemory {
 public:
  BoxInMemory(std::string name, ElementType type, Checkpoint::LookAtMemory look, DistributedLayout layout)
      : name_(std::move(name)), type_(type), look_(std::move(look)), layout_(std::move(layout)) {
    // What can be wrong whatever the memory is, is an error now.
    state::check_shapes(name_, described(nullptr, layout_.strides_bytes));
  }

  DistributedArray operator()() const {
    const detail::SeenMemory seen = look_();
    if (seen.has_shape) {
      check_view(seen);
      return described(seen.data, seen.strides_bytes);
    }
    const std::uint64_t elements = state::volume(seen.extent);
    check_size(elements);
    if (layout_.strides_bytes.empty() || state::volume(layout_.extent) == 0) {
      return described(seen.data + layout_.first_element * type_.size_bytes, layout_.strides_bytes);
    }
    check_reach(elements);
    return described(seen.data + layout_.first_element * type_.size_bytes, layout_.strides_bytes);
  }

 private:
  [[nodiscard]] DistributedArray described(std::byte* data, std::vector<std::ptrdiff_t> strides_bytes) const {
    return {type_, layout_.global_shape, {{data, layout_.offset, layout_.extent, std::move(strides_bytes)}}};
  }

  [[noreturn]] void reject(const std::string& problem) const {
    throw UsageError("distributed variable '" + name_ + "': " + problem);
  }

  void check_view(const detail::SeenMemory& seen) const {
    if (seen.extent != layout_.extent) {
      reject("it was registered with a box of " + product_text(layout_.extent) + " elements, but its memory has " +
             product_text(seen.extent) + " now");
    }
    if (!layout_.strides_bytes.empty()) {
      reject("its layout has strides, and its memory is a view with strides of its own: leave out one of them");
    }
  }

  void check_size(std::uint64_t elements) const {
    const bool dense = layout_.strides_bytes.empty();
    std::uint64_t expected = layout_.memory_elements;
    if (expected == 0 && dense) {
      expected = state::volume(layout_.extent) + layout_.first_element;
    }
    if (expected != 0 || dense) {
      if (elements != expected) {
        reject("it was registered with a box of " + product_text(layout_.extent) + " elements in memory of " +
               std::to_string(expected) + ", but its memory has " + std::to_string(elements) + " now");
      }
    }
  }

  /// Strides may lead anywhere.
  void check_reach(std::uint64_t elements) const {
    const state::Reach reach = state::reach_of(layout_.extent, layout_.strides_bytes, type_.size_bytes);
    const auto first = static_cast<std::ptrdiff_t>(layout_.first_element * type_.size_bytes);
    if (first + reach.begin < 0 || reach.end > static_cast<std::ptrdiff_t>(elements * type_.size_bytes) - first) {
      reject("its box of " + product_text(layout_.extent) + " elements reaches out of its memory of " +
             std::to_string(elements) + " elements, as its strides and its first element " +
             std::to_string(layout_.first_element) + " say");
    }
  }

  std::string name_;
  ElementType type_;
  Checkpoint::LookAtMemory look_;
  DistributedLayout layout_;
};

}  // namespace

void Checkpoint::add_distributed_memory(std::string name, ElementType type, LookAtMemory look,
                                        DistributedLayout layout) {
  DistributedArray declared{type, layout.global_shape, {{nullptr, layout.offset, layout.extent, {}}}};
  const std::string registered_name = name;
  BoxInMemory box(name, type, std::move(look), std::move(layout));
  add_distributed(std::move(name), std::move(box));
  registry_->variables.at(registered_name).declared = std::make_unique<const DistributedArray>(std::move(declared));
}

void Checkpoint::add_distributed_view(std::string name, LookAtMemory look, Extents global_shape, Extents offset) {
  add_distributed(
      std::move(name), [look = std::move(look), global_shape = std::move(global_shape), offset = std::move(offset)] {
        const detail::SeenMemory seen = look();
        return DistributedArray{seen.type, global_shape, {{seen.data, offset, seen.extent, seen.strides_bytes}}};
      });
}

}  // namespace reprieve
