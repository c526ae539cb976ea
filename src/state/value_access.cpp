// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/value_access.hpp"

#include "core/mapped_memory.hpp"
#include "reprieve/containers.hpp"
#include "reprieve/error.hpp"
#include "state/staging.hpp"
#include "state/strided.hpp"

namespace reprieve::detail {

namespace {

/// Memory that lies side by side is used in place, other memory goes through a buffer.
class StridedAccess final : public ValueAccess {
 public:
  StridedAccess(ElementType type, std::byte* data, Extents extent, state::Strides strides)
      : type_(type),
        data_(data),
        extent_(std::move(extent)),
        dense_(state::dense_strides(extent_, type.size_bytes)),
        strides_(strides.empty() ? dense_ : std::move(strides)),
        in_place_(state::is_dense(extent_, strides_, type.size_bytes)) {}

  [[nodiscard]] ElementType type() const override { return type_; }
  [[nodiscard]] Extents shape() const override { return extent_; }
  [[nodiscard]] bool resizable() const override { return false; }

  [[nodiscard]] std::span<const std::byte> bytes() override {
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

 private:
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(state::volume(extent_)) * type_.size_bytes; }

  /// Before it is touched here; memory that lies side by side is looked at where it is written from and read to.
  /// The space to which it belongs, if it is one of a device.
  [[nodiscard]] MemorySpace* check_memory() const {
    MemorySpace* const space = state::space_of(devices::Spaces(), data_, extent_, strides_, type_.size_bytes, named_);
    if (space != nullptr) {
      return space;
    }
    const state::Reach reach = state::reach_of(extent_, strides_, type_.size_bytes);
    if (!core::is_mapped(data_ + reach.begin, static_cast<std::size_t>(reach.end - reach.begin))) {
      throw UsageError(
          "the memory of a view is not the program's (any more): it was freed or moved after it was "
          "registered");
    }
    return nullptr;
  }

  ElementType type_;
  std::byte* data_;
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

class TextsAccess final : public ValueAccess {
  using Texts = std::vector<std::string>;

 public:
  explicit TextsAccess(Texts& texts) : serialized_(texts) {}

  [[nodiscard]] ElementType type() const override { return serialized_.type(); }
  [[nodiscard]] Extents shape() const override { return serialized_.shape(); }
  [[nodiscard]] bool resizable() const override { return true; }
  [[nodiscard]] bool is_text_list() const override { return true; }
  [[nodiscard]] std::span<const std::byte> bytes() override { return serialized_.bytes(); }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t size) override { return serialized_.prepare(size); }
  void commit() override { serialized_.commit(); }

 private:
  SerializedAccess<Texts> serialized_;
};

}  // namespace

std::unique_ptr<ValueAccess> make_strided_access(ElementType type, std::byte* data, Extents extent,
                                                 std::vector<std::ptrdiff_t> strides_bytes) {
  if (!strides_bytes.empty() && strides_bytes.size() != extent.size()) {
    throw UsageError("a view has " + std::to_string(strides_bytes.size()) + " strides for " +
                     std::to_string(extent.size()) + " dimensions");
  }
  if (data == nullptr && state::volume(extent) > 0) {
    throw UsageError("the data pointer of a view is null, but it has elements");
  }
  return std::make_unique<StridedAccess>(type, data, std::move(extent), std::move(strides_bytes));
}

std::unique_ptr<ValueAccess> make_texts_access(std::vector<std::string>& texts) {
  return std::make_unique<TextsAccess>(texts);
}

std::unique_ptr<ValueAccess> make_bits_access(std::vector<bool>& bits) { return std::make_unique<BitsAccess>(bits); }

}  // namespace reprieve::detail
