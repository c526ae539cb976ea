// SPDX-License-Identifier: BSD-3-Clause
#include "state/strided.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "core/memory.hpp"
#include "reprieve/containers.hpp"
#include "reprieve/error.hpp"
#include "reprieve/value_access.hpp"
#include "state/staging.hpp"

namespace reprieve::state {

std::uint64_t volume(std::span<const std::uint64_t> extent) {
  return std::accumulate(extent.begin(), extent.end(), std::uint64_t{1}, std::multiplies<>());
}

bool checked_bytes(std::span<const std::uint64_t> extent, std::uint64_t element_size, std::uint64_t& bytes) {
  bytes = 0;
  if (std::ranges::find(extent, 0U) != extent.end()) {
    return true;
  }
  std::uint64_t product = element_size;
  for (const std::uint64_t length : extent) {
    if (__builtin_mul_overflow(product, length, &product)) {
      return false;
    }
  }
  bytes = product;
  return product <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

Strides dense_strides(const Extents& extent, std::size_t element_size) {
  Strides strides(extent.size());
  auto stride = static_cast<std::uint64_t>(element_size);
  for (std::size_t d = extent.size(); d-- > 0;) {
    strides[d] = static_cast<std::ptrdiff_t>(stride);
    stride *= extent[d];
  }
  return strides;
}

bool is_dense(const Extents& extent, const Strides& strides_bytes, std::size_t element_size) {
  const Strides dense = dense_strides(extent, element_size);
  for (std::size_t d = 0; d < extent.size(); ++d) {
    if (extent[d] > 1 && strides_bytes[d] != dense[d]) {
      return false;
    }
  }
  return true;
}

Reach reach_of(const Extents& extent, const Strides& strides_bytes, std::size_t element_size) {
  Reach reach{0, volume(extent) == 0 ? 0 : static_cast<std::ptrdiff_t>(element_size)};
  if (reach.end == 0) {
    return reach;
  }
  for (std::size_t d = 0; d < extent.size(); ++d) {
    std::ptrdiff_t distance = 0;
    std::ptrdiff_t& side = strides_bytes[d] < 0 ? reach.begin : reach.end;
    if (__builtin_mul_overflow(extent[d] - 1, strides_bytes[d], &distance) ||
        __builtin_add_overflow(side, distance, &side)) {
      throw UsageError("the strides of a box reach further than memory does");
    }
  }
  return reach;
}

bool next_index(Extents& index, const Extents& extent, std::size_t dimensions) {
  for (std::size_t d = dimensions; d-- > 0;) {
    if (++index[d] < extent[d]) {
      return true;
    }
    index[d] = 0;
  }
  return false;
}

std::ptrdiff_t distance(const Extents& index, const Strides& strides, std::size_t dimensions) {
  std::ptrdiff_t bytes = 0;
  for (std::size_t d = 0; d < dimensions; ++d) {
    bytes += static_cast<std::ptrdiff_t>(index[d]) * strides[d];
  }
  return bytes;
}

std::size_t outer_dimensions(const Extents& extent, const Strides& strides, std::size_t element_size) {
  std::size_t outer = extent.size();
  auto run = static_cast<std::ptrdiff_t>(element_size);
  while (outer > 0 && (extent[outer - 1] == 1 || strides[outer - 1] == run)) {
    run *= static_cast<std::ptrdiff_t>(extent[outer - 1]);
    --outer;
  }
  return outer;
}

std::size_t inner_bytes(const Extents& extent, std::size_t outer, std::size_t element_size) {
  std::size_t bytes = element_size;
  for (std::size_t d = outer; d < extent.size(); ++d) {
    bytes *= static_cast<std::size_t>(extent[d]);
  }
  return bytes;
}

namespace {

/// A row of single elements; the size is a constant, so that each copy is one load and one store.
template <std::size_t size>
void copy_row(std::byte* to, std::ptrdiff_t to_stride, const std::byte* from, std::ptrdiff_t from_stride,
              std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, size);
    to += to_stride;
    from += from_stride;
  }
}

using CopyRow = void (*)(std::byte*, std::ptrdiff_t, const std::byte*, std::ptrdiff_t, std::uint64_t);

CopyRow copy_row_of(std::size_t element_size) {
  switch (element_size) {
    case 1:
      return copy_row<1>;
    case 2:
      return copy_row<2>;
    case 4:
      return copy_row<4>;
    case 8:
      return copy_row<8>;
    case 16:
      return copy_row<16>;
    default:
      return nullptr;
  }
}

}  // namespace

void copy_box(std::byte* to, const Strides& to_strides, const std::byte* from, const Strides& from_strides,
              const Extents& extent, std::size_t element_size) {
  if (volume(extent) == 0) {
    return;
  }
  const std::size_t outer = std::max(outer_dimensions(extent, to_strides, element_size),
                                     outer_dimensions(extent, from_strides, element_size));
  const CopyRow copy_single = copy_row_of(element_size);
  // Single elements: the last dimension that is stepped through becomes a loop of its own.
  const bool row_wise = outer == extent.size() && outer > 0 && copy_single != nullptr;
  const std::size_t stepped = row_wise ? outer - 1 : outer;
  const std::size_t run = inner_bytes(extent, outer, element_size);
  Extents index(stepped, 0);
  do {
    std::byte* target = to + distance(index, to_strides, stepped);
    const std::byte* source = from + distance(index, from_strides, stepped);
    if (row_wise) {
      copy_single(target, to_strides[stepped], source, from_strides[stepped], extent[stepped]);
    } else {
      std::memcpy(target, source, run);
    }
  } while (next_index(index, extent, stepped));
}

void zero_box(std::byte* to, const Strides& strides, const Extents& extent, std::size_t element_size) {
  if (volume(extent) == 0) {
    return;
  }
  const std::size_t outer = outer_dimensions(extent, strides, element_size);
  const std::size_t run = inner_bytes(extent, outer, element_size);
  Extents index(outer, 0);
  do {
    std::memset(to + distance(index, strides, outer), 0, run);
  } while (next_index(index, extent, outer));
}

Box whole(const Extents& shape) { return {Extents(shape.size(), 0), shape}; }

BlockSplit::BlockSplit(Box box, std::size_t element_size, std::uint64_t max_bytes) : box_(std::move(box)) {
  const Extents& extent = box_.extent;
  if (volume(extent) == 0) {
    return;
  }
  // The slowest dimension with at least one index that fits into a block, with all dimensions after it.
  cut_dimension_ = extent.empty() ? 0 : extent.size() - 1;
  std::uint64_t inner_bytes = element_size;
  while (cut_dimension_ > 0 && inner_bytes * extent[cut_dimension_] <= max_bytes) {
    inner_bytes *= extent[cut_dimension_];
    --cut_dimension_;
  }
  count_ = 1;
  if (extent.empty()) {
    return;
  }
  cut_length_ = std::clamp<std::uint64_t>(max_bytes / inner_bytes, 1, extent[cut_dimension_]);
  cuts_ = (extent[cut_dimension_] - 1) / cut_length_ + 1;
  count_ = cuts_;
  for (std::size_t d = 0; d < cut_dimension_; ++d) {
    count_ *= extent[d];
  }
}

Box BlockSplit::block(std::uint64_t index) const {
  Box block = box_;
  if (box_.extent.empty()) {
    return block;
  }
  const std::uint64_t start = (index % cuts_) * cut_length_;
  block.offset[cut_dimension_] += start;
  block.extent[cut_dimension_] = std::min(cut_length_, box_.extent[cut_dimension_] - start);
  std::uint64_t rest = index / cuts_;
  for (std::size_t d = cut_dimension_; d-- > 0;) {
    block.offset[d] += rest % box_.extent[d];
    block.extent[d] = 1;
    rest /= box_.extent[d];
  }
  return block;
}

}  // namespace reprieve::state

namespace reprieve::detail {

namespace {

/// Memory that lies side by side is used in place, other memory goes through a buffer.
class StridedAccess final : public ValueAccess {
 public:
  StridedAccess(ElementType type, std::function<void*()> find, Extents extent, state::Strides strides)
      : type_(type),
        find_(std::move(find)),
        extent_(std::move(extent)),
        dense_(state::dense_strides(extent_, type.size_bytes)),
        strides_(strides.empty() ? dense_ : std::move(strides)),
        in_place_(state::is_dense(extent_, strides_, type.size_bytes)) {}

  [[nodiscard]] ElementType type() const override { return type_; }
  [[nodiscard]] Extents shape() const override { return extent_; }

  [[nodiscard]] std::span<const std::byte> bytes() override {
    find_data();
    if (in_place_) {
      return {data_, size()};
    }
    MemorySpace* const space = check_memory();
    buffer_.resize(size());
    if (space != nullptr) {
      state::Staging().copy_out(*space, buffer_.data(), dense_, data_, strides_, extent_, type_.size_bytes);
    } else {
      state::copy_box(buffer_.data(), dense_, data_, strides_, extent_, type_.size_bytes);
    }
    return buffer_;
  }

  [[nodiscard]] std::span<std::byte> prepare(std::size_t) override {
    find_data();
    if (in_place_) {
      return {data_, size()};
    }
    space_ = check_memory();
    buffer_.resize(size());
    return buffer_;
  }

  [[nodiscard]] bool checks_space(MemorySpace* named) override {
    named_ = named;
    return !in_place_;
  }

  void commit() override {
    if (!in_place_ && space_ != nullptr) {
      state::Staging().copy_in(*space_, data_, strides_, buffer_.data(), dense_, extent_, type_.size_bytes);
    } else if (!in_place_) {
      state::copy_box(data_, strides_, buffer_.data(), dense_, extent_, type_.size_bytes);
    }
  }

  void find_data() {
    data_ = static_cast<std::byte*>(find_());
    if (data_ == nullptr && state::volume(extent_) > 0) {
      throw UsageError("the data pointer of a view is null, but it has elements");
    }
  }

 private:
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(state::volume(extent_)) * type_.size_bytes; }

  /// Before it is touched here; memory that lies side by side is checked where it is written from and read to.
  /// The space to which it belongs, if it is one of a device.
  [[nodiscard]] MemorySpace* check_memory() const {
    MemorySpace* const space = state::space_of(devices::Spaces(), data_, extent_, strides_, type_.size_bytes, named_);
    if (space != nullptr) {
      return space;
    }
    const state::Reach reach = state::reach_of(extent_, strides_, type_.size_bytes);
    if (!core::is_mapped(data_ + reach.begin, static_cast<std::size_t>(reach.end - reach.begin))) {
      throw UsageError(
          "the memory of a view is not the program's, or no longer: it was freed or moved after it was "
          "registered");
    }
    return nullptr;
  }

  ElementType type_;
  std::function<void*()> find_;
  std::byte* data_ = nullptr;  ///< as it was found last
  Extents extent_;
  state::Strides dense_;
  state::Strides strides_;
  bool in_place_;
  std::vector<std::byte> buffer_;
  MemorySpace* named_ = nullptr;  ///< the space that was set for the value
  MemorySpace* space_ = nullptr;  ///< of the value that is being restored
};

class BitsAccess final : public ValueAccess {
 public:
  explicit BitsAccess(std::vector<bool>& bits) : bits_(&bits) {}

  [[nodiscard]] ElementType type() const override { return element_type_of<bool>(); }
  [[nodiscard]] Extents shape() const override { return {bits_->size()}; }
  [[nodiscard]] bool resizable() const override { return true; }

  [[nodiscard]] std::span<const std::byte> bytes() override {
    buffer_.clear();
    for (const bool bit : *bits_) {
      buffer_.push_back(bit ? std::byte{1} : std::byte{0});
    }
    return buffer_;
  }

  [[nodiscard]] std::span<std::byte> prepare(std::size_t size) override {
    buffer_.resize(size);
    return buffer_;
  }

  void commit() override {
    bits_->clear();
    for (const std::byte byte : buffer_) {
      bits_->push_back(byte != std::byte{0});
    }
  }

 private:
  std::vector<bool>* bits_;
  std::vector<std::byte> buffer_;
};

class TextsAccess final : public SerializedAccess<std::vector<std::string>> {
 public:
  using SerializedAccess::SerializedAccess;

  [[nodiscard]] bool is_text_list() const override { return true; }
};

}  // namespace

std::unique_ptr<ValueAccess> make_strided_access(ElementType type, std::function<void*()> find, Extents extent,
                                                 std::vector<std::ptrdiff_t> strides_bytes) {
  if (!strides_bytes.empty() && strides_bytes.size() != extent.size()) {
    throw UsageError("a view has " + std::to_string(strides_bytes.size()) + " strides for " +
                     std::to_string(extent.size()) + " dimensions");
  }
  auto access = std::make_unique<StridedAccess>(type, std::move(find), std::move(extent), std::move(strides_bytes));
  access->find_data();
  return access;
}

std::unique_ptr<ValueAccess> make_texts_access(std::vector<std::string>& texts) {
  return std::make_unique<TextsAccess>(texts);
}

std::unique_ptr<ValueAccess> make_bits_access(std::vector<bool>& bits) { return std::make_unique<BitsAccess>(bits); }

}  // namespace reprieve::detail
