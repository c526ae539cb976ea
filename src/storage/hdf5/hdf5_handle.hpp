// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// HDF5 identifiers that close themselves, and errors as exceptions with HDF5's own account of them.

#include <hdf5.h>

#include <concepts>
#include <map>
#include <string>
#include <utility>

#include "reprieve/element_type.hpp"
#include "reprieve/error.hpp"
#include "reprieve/layout.hpp"
#include "reprieve/record.hpp"

namespace reprieve::storage {

/// Silences HDF5's printing of errors while it lives: errors travel in exceptions.
class QuietHdf5 {
 public:
  QuietHdf5();
  ~QuietHdf5();
  QuietHdf5(const QuietHdf5&) = delete;
  QuietHdf5& operator=(const QuietHdf5&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// Throws the error of a failed HDF5 call: StorageError with @p action and HDF5's error stack, its code taken from the
/// system's error number in that stack if there is one.
[[noreturn]] void throw_hdf5_error(const std::string& action);

/// Passes on the result of an HDF5 call, or throws if it is negative. @p action completes "cannot ...".
template <std::signed_integral Result>
Result check_hdf5(Result result, const std::string& action) {
  if (result < 0) {
    throw_hdf5_error(action);
  }
  return result;
}

/// Owns an HDF5 identifier.
class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);

  /// Takes the result of the call that made the identifier, and throws if it failed.
  Hdf5Handle(hid_t id, Close closer, const std::string& action) : id_(check_hdf5(id, action)), close_(closer) {}
  ~Hdf5Handle();
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&&) = delete;
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;

  [[nodiscard]] hid_t get() const noexcept { return id_; }

  /// Closes and reports failure, which for a file means that its content is not complete.
  void close(const std::string& action);

 private:
  hid_t id_;
  Close close_;
};

/// A property list of one of HDF5's classes (H5P_FILE_ACCESS, ...).
[[nodiscard]] Hdf5Handle make_property_list(hid_t property_class);

/// A dataspace of this shape; a scalar without dimensions.
[[nodiscard]] Hdf5Handle make_hdf5_space(const Extents& shape);

/// A UTF-8 string of @p size bytes.
[[nodiscard]] Hdf5Handle make_hdf5_string(std::size_t size);

/// A compound of @p size_bytes with these members, where they lie in memory.
[[nodiscard]] Hdf5Handle make_hdf5_compound(const Members& members, std::size_t size_bytes);

/// HDF5 types made once and shared by thousands of datasets.
class Hdf5Types {
 public:
  hid_t get(ElementType type);

 private:
  std::map<std::pair<ElementClass, std::uint32_t>, Hdf5Handle> types_;
};

}  // namespace reprieve::storage
