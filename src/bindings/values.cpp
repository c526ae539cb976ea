// SPDX-License-Identifier: BSD-3-Clause
#include "bindings/values.hpp"

#include "bindings/guard.hpp"
#include "reprieve/error.hpp"
#include "storage/format/blocks.hpp"

namespace reprieve::bindings {

namespace {

[[noreturn]] void reject(const std::string& name, const std::string& problem) {
  throw UsageError("variable '" + name + "': " + problem);
}

/// @throws UsageError if there are more than 2^63 bytes
std::size_t size_bytes(const std::string& name, const Extents& shape, std::size_t element_size) {
  std::uint64_t size = 0;
  if (!storage::checked_bytes(shape, element_size, size)) {
    reject(name, "it is larger than 2^63 bytes: check the shape");
  }
  return static_cast<std::size_t>(size);
}

class ResizableValue final : public ValueAccess {
 public:
  ResizableValue(std::string name, ElementType type, std::uint64_t item_elements, reprieve_memory_fn memory, void* user)
      : name_(std::move(name)), type_(type), item_elements_(item_elements), memory_(memory), user_(user) {}

  [[nodiscard]] ElementType type() const override { return type_; }
  [[nodiscard]] Extents shape() const override {
    const std::uint64_t count = ask(-1).second;
    return item_elements_ == 1 ? Extents{count} : Extents{count, item_elements_};
  }
  [[nodiscard]] bool resizable() const override { return true; }
  [[nodiscard]] std::span<const std::byte> bytes() override {
    const auto [data, count] = ask(-1);
    return {data, count * item_size()};
  }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t size) override {
    if (size % item_size() != 0) {
      throw MismatchError("variable '" + name_ + "': the stored " + std::to_string(size) +
                          " bytes are no whole number of items of " + std::to_string(item_size()) + " bytes");
    }
    const auto wanted = static_cast<std::uint64_t>(size / item_size());
    const auto [data, count] = ask(static_cast<std::int64_t>(wanted));
    if (count != wanted) {
      reject(name_, "the memory function was asked to make room for " + std::to_string(wanted) +
                        " items, but made it " + std::to_string(count));
    }
    return {data, size};
  }
  void commit() override {}

 private:
  [[nodiscard]] std::size_t item_size() const { return item_elements_ * type_.size_bytes; }

  [[nodiscard]] std::pair<std::byte*, std::uint64_t> ask(std::int64_t wanted) const {
    void* data = nullptr;
    std::int64_t count = 0;
    check_callback("the memory function of variable '" + name_ + "'",
                   [&] { return memory_(wanted, &data, &count, user_); });
    if (count < 0 || (count > 0 && data == nullptr)) {
      reject(name_, "the memory function gave " + std::to_string(count) + " items" +
                        (data == nullptr ? " at the address NULL" : ""));
    }
    static_cast<void>(size_bytes(name_, {static_cast<std::uint64_t>(count)}, item_size()));
    return {static_cast<std::byte*>(data), static_cast<std::uint64_t>(count)};
  }

  std::string name_;
  ElementType type_;
  std::uint64_t item_elements_;
  reprieve_memory_fn memory_;
  void* user_;
};

class CustomValue final : public ValueAccess {
 public:
  CustomValue(std::string name, reprieve_save_fn save, reprieve_load_fn load, void* user)
      : name_(std::move(name)), save_(save), load_(load), user_(user) {}

  [[nodiscard]] ElementType type() const override { return {ElementClass::opaque, 1}; }
  [[nodiscard]] Extents shape() const override { return {saved().size()}; }
  [[nodiscard]] bool resizable() const override { return true; }
  [[nodiscard]] std::span<const std::byte> bytes() override { return saved(); }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t size) override {
    restored_.resize(size);
    return restored_;
  }
  void commit() override {
    check_callback("the load function of variable '" + name_ + "'",
                   [this] { return load_(restored_.data(), restored_.size(), user_); });
    restored_ = {};
  }

 private:
  [[nodiscard]] std::span<const std::byte> saved() const {
    const void* bytes = nullptr;
    std::size_t size = 0;
    check_callback("the save function of variable '" + name_ + "'", [&] { return save_(&bytes, &size, user_); });
    if (bytes == nullptr && size > 0) {
      reject(name_, "the save function gave " + std::to_string(size) + " bytes at the address NULL");
    }
    return {static_cast<const std::byte*>(bytes), size};
  }

  std::string name_;
  reprieve_save_fn save_;
  reprieve_load_fn load_;
  void* user_;
  std::vector<std::byte> restored_;
};

}  // namespace

std::unique_ptr<ValueAccess> fixed_value(const std::string& name, ElementType type, std::byte* data, Extents shape,
                                         std::vector<std::ptrdiff_t> strides_bytes) {
  if (size_bytes(name, shape, type.size_bytes) == 0) {
    strides_bytes.clear();  // an empty array may have any
  } else if (data == nullptr) {
    reject(name, "the data pointer is NULL: pass the address of the first element");
  }
  const auto element = static_cast<std::ptrdiff_t>(type.size_bytes);
  for (std::size_t d = 0; d < strides_bytes.size(); ++d) {
    if (shape[d] > 1 && strides_bytes[d] > -element && strides_bytes[d] < element) {
      reject(name, "the stride of " + std::to_string(strides_bytes[d]) + " bytes in dimension " + std::to_string(d) +
                       " is smaller than an element of " + std::to_string(element) + " bytes");
    }
  }
  return detail::make_strided_access(type, data, std::move(shape), std::move(strides_bytes));
}

std::unique_ptr<ValueAccess> resizable_value(const std::string& name, ElementType type, std::int64_t item_elements,
                                             reprieve_memory_fn memory, void* user) {
  if (memory == nullptr) {
    reject(name, "the memory function is NULL");
  }
  if (item_elements < 1) {
    reject(name, "an item cannot have " + std::to_string(item_elements) + " elements; allowed: 1 and more");
  }
  return std::make_unique<ResizableValue>(name, type, static_cast<std::uint64_t>(item_elements), memory, user);
}

std::unique_ptr<ValueAccess> custom_value(const std::string& name, reprieve_save_fn save, reprieve_load_fn load,
                                          void* user) {
  if (save == nullptr || load == nullptr) {
    reject(name, std::string("the ") + (save == nullptr ? "save" : "load") + " function is NULL");
  }
  return std::make_unique<CustomValue>(name, save, load, user);
}

}  // namespace reprieve::bindings
