// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How element types look in HDF5.

#include <map>
#include <utility>

#include "reprieve/element_type.hpp"
#include "reprieve/error.hpp"
#include "reprieve/record.hpp"
#include "storage/hdf5/hdf5_handle.hpp"

namespace reprieve::storage {

/// Makes the HDF5 type of an element type: numbers as native types, bool as the enumeration and complex numbers as the
/// compound that h5py uses, text as fixed-length strings (a text of any length as many of one byte), the rest opaque.
[[nodiscard]] Hdf5Handle make_hdf5_type(ElementType type);

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
