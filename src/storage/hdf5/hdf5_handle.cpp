// SPDX-License-Identifier: BSD-3-Clause
#include "storage/hdf5/hdf5_handle.hpp"

#include <charconv>

#include "core/log.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve::storage {

namespace {

/// One line of the stack: "H5FD__sec2_write: file write failed: ... errno = 28 ...".
herr_t append_entry(unsigned /*depth*/, const H5E_error2_t* entry, void* text) {
  *static_cast<std::string*>(text) += std::string("\n  ") + entry->func_name + ": " + entry->desc;
  return 0;
}

std::string take_error_stack() {
  std::string text;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, append_entry, &text) < 0 || H5Eclear2(H5E_DEFAULT) < 0) {
    text += "\n  (HDF5 gives no more details)";
  }
  return text;
}

/// HDF5 writes the system's error number into its descriptions.
int error_number_in(const std::string& stack) {
  constexpr std::string_view key = "errno = ";
  const auto found = stack.find(key);
  int number = EIO;
  if (found != std::string::npos) {
    const char* first = stack.data() + found + key.size();
    std::from_chars(first, stack.data() + stack.size(), number);
  }
  return number;
}

}  // namespace

QuietHdf5::QuietHdf5() {
  if (H5Eget_auto2(H5E_DEFAULT, &function_, &data_) < 0 || H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) < 0) {
    core::log::debug("HDF5 goes on printing its errors");
  }
}

QuietHdf5::~QuietHdf5() {
  if (H5Eset_auto2(H5E_DEFAULT, function_, data_) < 0) {
    core::log::debug("HDF5's printing of errors could not be restored");
  }
}

void throw_hdf5_error(const std::string& action) {
  const std::string stack = take_error_stack();
  const ErrorCode code = storage_error("", "", error_number_in(stack)).code();
  throw StorageError(code, "HDF5 cannot " + action + ":" + stack);
}

Hdf5Handle::~Hdf5Handle() {
  if (id_ >= 0 && close_(id_) < 0) {
    core::log::error("an HDF5 object could not be closed:{}", take_error_stack());
  }
}

void Hdf5Handle::close(const std::string& action) { check_hdf5(close_(std::exchange(id_, -1)), action); }

Hdf5Handle make_property_list(hid_t property_class) {
  return {H5Pcreate(property_class), H5Pclose, "make a property list"};
}

}  // namespace reprieve::storage
