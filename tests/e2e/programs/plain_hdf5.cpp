// SPDX-License-Identifier: BSD-3-Clause
// e2e_plain_hdf5 FILE: writes an HDF5 file with one dataset, as any other program does.

#include <hdf5.h>

#include <array>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: e2e_plain_hdf5 FILE\n";
    return 2;
  }
  const std::array<hsize_t, 1> shape{3};
  const std::array<double, 3> values{1, 2, 3};
  const hid_t file = H5Fcreate(argv[1], H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(1, shape.data(), nullptr);
  const hid_t dataset = H5Dcreate2(file, "temperature", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const bool written = H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0;
  const bool closed = H5Dclose(dataset) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0;
  return written && closed ? 0 : 1;
}
