// SPDX-License-Identifier: BSD-3-Clause
#include "storage/hdf5/hdf5_handle.hpp"

#include <array>
#include <charconv>
#include <vector>

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

[[noreturn]] void reject(ElementType type) {
  throw UsageError("no HDF5 type for elements of type " + to_string(type) + " (" + std::to_string(type.size_bytes) +
                   " bytes)");
}

Hdf5Handle copy_of(hid_t type) { return {H5Tcopy(type), H5Tclose, "copy a type"}; }

hid_t native_integer(ElementType type) {
  const bool is_signed = type.element_class == ElementClass::signed_integer;
  switch (type.size_bytes) {
    case 1:
      return is_signed ? H5T_NATIVE_INT8 : H5T_NATIVE_UINT8;
    case 2:
      return is_signed ? H5T_NATIVE_INT16 : H5T_NATIVE_UINT16;
    case 4:
      return is_signed ? H5T_NATIVE_INT32 : H5T_NATIVE_UINT32;
    case 8:
      return is_signed ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT64;
    default:
      reject(type);
  }
}

/// IEEE 754 binary16, which this HDF5 has no name for: the sign in bit 15, 5 bits of exponent, 10 of mantissa.
Hdf5Handle make_half() {
  Hdf5Handle half = copy_of(H5T_NATIVE_FLOAT);
  check_hdf5(H5Tset_fields(half.get(), 15, 10, 5, 0, 10), "make the type of half numbers");
  check_hdf5(H5Tset_size(half.get(), 2), "make the type of half numbers");
  check_hdf5(H5Tset_ebias(half.get(), 15), "make the type of half numbers");
  return half;
}

hid_t native_floating(ElementType type) {
  switch (type.size_bytes) {
    case sizeof(float):
      return H5T_NATIVE_FLOAT;
    case sizeof(double):
      return H5T_NATIVE_DOUBLE;
    case sizeof(long double):
      return H5T_NATIVE_LDOUBLE;
    default:
      reject(type);
  }
}

/// Little-endian, as everything in a file: the first byte of a TRUE of any width is 1.
Hdf5Handle make_boolean(ElementType type) {
  Hdf5Handle boolean(H5Tenum_create(native_integer({ElementClass::signed_integer, type.size_bytes})), H5Tclose,
                     "make the type of bool");
  const std::array<std::pair<const char*, std::int64_t>, 2> values{{{"FALSE", 0}, {"TRUE", 1}}};
  for (const auto& [name, value] : values) {
    check_hdf5(H5Tenum_insert(boolean.get(), name, &value), "make the type of bool");
  }
  return boolean;
}

Hdf5Handle make_complex(ElementType type) {
  const std::uint32_t half = type.size_bytes / 2;
  const hid_t part = native_floating({ElementClass::floating, half});
  Hdf5Handle complex(H5Tcreate(H5T_COMPOUND, type.size_bytes), H5Tclose, "make a complex type");
  check_hdf5(H5Tinsert(complex.get(), "r", 0, part), "make a complex type");
  check_hdf5(H5Tinsert(complex.get(), "i", half, part), "make a complex type");
  return complex;
}

/// The tag is what HDF5 tools show of it.
Hdf5Handle make_opaque(ElementType type) {
  Hdf5Handle opaque(H5Tcreate(H5T_OPAQUE, type.size_bytes), H5Tclose, "make an opaque type");
  const std::string tag = type.size_bytes == 1 ? "reprieve: bytes, or a serialized value"
                                               : "reprieve: a struct of " + std::to_string(type.size_bytes) + " bytes";
  check_hdf5(H5Tset_tag(opaque.get(), tag.c_str()), "tag an opaque type");
  return opaque;
}

/// Makes the HDF5 type of an element type: numbers as native types, bool as the enumeration and complex numbers as the
/// compound that h5py uses, text as fixed-length strings (a text of any length as many of one byte), the rest opaque.
Hdf5Handle make_hdf5_type(ElementType type) {
  switch (type.element_class) {
    case ElementClass::boolean:
      return make_boolean(type);
    case ElementClass::signed_integer:
    case ElementClass::unsigned_integer:
      return copy_of(native_integer(type));
    case ElementClass::floating:
      return type.size_bytes == 2 ? make_half() : copy_of(native_floating(type));
    case ElementClass::complex:
      return make_complex(type);
    case ElementClass::text:
      return make_hdf5_string(type.size_bytes);
    case ElementClass::opaque:
      return make_opaque(type);
  }
  reject(type);
}

Hdf5Handle make_member_type(const Member& member) {
  Hdf5Handle type =
      member.members.empty() ? make_hdf5_type(member.type) : make_hdf5_compound(member.members, member.type.size_bytes);
  if (member.shape.empty()) {
    return type;
  }
  const std::vector<hsize_t> lengths(member.shape.begin(), member.shape.end());
  return {H5Tarray_create2(type.get(), static_cast<unsigned>(lengths.size()), lengths.data()), H5Tclose,
          "make the type of an array"};
}

}  // namespace

QuietHdf5::QuietHdf5() {
  if (H5Eget_auto2(H5E_DEFAULT, &function_, &data_) < 0 || H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) < 0) {
    core::log::debug("HDF5 continues printing its errors");
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

Hdf5Handle make_hdf5_space(const Extents& shape) {
  if (shape.empty()) {
    return {H5Screate(H5S_SCALAR), H5Sclose, "make a dataspace"};
  }
  const std::vector<hsize_t> lengths(shape.begin(), shape.end());
  return {H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr), H5Sclose,
          "make a dataspace of shape " + core::list_text(shape)};
}

Hdf5Handle make_hdf5_string(std::size_t size) {
  Hdf5Handle text = copy_of(H5T_C_S1);
  check_hdf5(H5Tset_size(text.get(), size), "set the length of a text");
  check_hdf5(H5Tset_strpad(text.get(), H5T_STR_NULLPAD), "set the padding of a text");
  check_hdf5(H5Tset_cset(text.get(), H5T_CSET_UTF8), "set the encoding of a text");
  return text;
}

Hdf5Handle make_hdf5_compound(const Members& members, std::size_t size_bytes) {
  Hdf5Handle compound(H5Tcreate(H5T_COMPOUND, size_bytes), H5Tclose, "make the type of a struct");
  for (const Member& member : members) {
    check_hdf5(H5Tinsert(compound.get(), member.name.c_str(), member.offset, make_member_type(member).get()),
               "add the member " + member.name + " to the type of a struct");
  }
  return compound;
}

hid_t Hdf5Types::get(ElementType type) {
  const std::pair key{type.element_class, type.size_bytes};
  auto found = types_.find(key);
  if (found == types_.end()) {
    found = types_.emplace(key, make_hdf5_type(type)).first;
  }
  return found->second.get();
}

}  // namespace reprieve::storage
