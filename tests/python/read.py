# SPDX-License-Identifier: BSD-3-Clause
"""What h5py, xarray and netCDF4 see of a checkpoint that python_writer wrote on two ranks.

usage: read.py DIRECTORY
Exit code 77: the modules are not installed (apps/install-packages.sh tests).
"""

import pathlib
import sys
import unittest

try:
    import h5py
    import netCDF4
    import numpy as np
    import xarray as xr
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

FILE = str(pathlib.Path(sys.argv[1]) / "ckpt-1.h5")
OTHER_FILE = str(pathlib.Path(sys.argv[1]) / "apart" / "ckpt-1.h5")
KINDS_FILE = str(pathlib.Path(sys.argv[1]) / "kinds" / "ckpt-7.h5")
TEMPERATURE = [[280, 281, 282], [281, 282, 283]]


class H5py(unittest.TestCase):
    def setUp(self):
        self.file = h5py.File(FILE, "r")
        self.state = self.file["state"]

    def tearDown(self):
        self.file.close()

    def test_attributes_are_texts(self):
        attributes = self.state["temperature"].attrs
        self.assertEqual(attributes["units"], "K")
        self.assertEqual(attributes["long_name"], "temperature of the air (\u00b0)")
        self.assertNotIn("long_name", self.state["pressure"].attrs)

    def test_dimensions_have_names_and_scales(self):
        dims = self.state["temperature"].dims
        self.assertEqual([dim[0].name for dim in dims], ["/state/y", "/state/x"])
        self.assertEqual(list(dims[1][0][:]), [0, 0.5, 1])
        self.assertEqual(dims[0][0].shape, (2,))
        self.assertTrue(h5py.h5ds.is_scale(self.state["x"].id))
        self.assertEqual(self.state["list"].dims[0][0].name, "/state/item")

    def test_scales_without_coordinates_take_no_place(self):
        self.assertEqual(self.state["y"].id.get_storage_size(), 0)

    def test_types_and_shapes(self):
        with h5py.File(KINDS_FILE, "r") as file:
            state = file["state"]
            self.assertEqual((state["flag"].dtype, bool(state["flag"][()])), (bool, True))
            self.assertEqual((state["a/b/real"].dtype, state["a/b/real"][()]), (float, 0.25))
            self.assertEqual((state["wide"].dtype, state["wide"][()]), (np.longdouble, 1.5))
            self.assertEqual((state["a/numbers"].dtype, list(state["a/numbers"])), (np.uint16, [1, 2, 65535]))
            self.assertEqual((state["waves"].dtype, list(state["waves"])), (complex, [1 + 2j, 3 + 4j]))
            opaque = state["bytes"].id.get_type()
            self.assertEqual(opaque.get_class(), h5py.h5t.OPAQUE)
            self.assertEqual(opaque.get_tag(), b"reprieve: bytes, or a serialized value")
            self.assertEqual(list(state["mine"]), [1])
            self.assertEqual(state["rows"][()].tolist(), [[0] * 4, [1] * 4])

    def test_metadata(self):
        with h5py.File(KINDS_FILE, "r") as file:
            attributes = file["reprieve"].attrs
            self.assertEqual(attributes["number"], 7)
            version = file["state/version"][()].decode()
            expected = {"reason": "preemption", "reason_message": "the end is near", "library_version": version}
            for name, text in expected.items():
                found = attributes[name]
                self.assertEqual(found.decode() if isinstance(found, bytes) else found, text)
            self.assertIn(b'"reason"', file["reprieve/manifest"][()])

    def test_structs_have_members(self):
        with h5py.File(OTHER_FILE, "r") as file:
            particles = file["state/particles"][:]
        self.assertEqual(particles.dtype.names, ("position", "id", "name", "wave"))
        self.assertEqual(list(particles["id"]), [0, 10, 1, 11])
        self.assertEqual(list(particles["position"][2]), [0.5, 1.5, 2.5])
        self.assertEqual(list(particles["name"]), [b"p", b"q", b"p", b"q"])
        self.assertEqual(particles["wave"][0], 1 + 2j)

    def test_texts_are_arrays_of_texts(self):
        with h5py.File(OTHER_FILE, "r") as file:
            state = file["state"]
            self.assertEqual(list(state["species"].asstr()[:]), ["argon", "helium", "caf\u00e9"])
            self.assertEqual(list(state["host"].asstr()[:]), ["node0", "node10"])
            self.assertEqual(list(state["notes"].asstr()[:]), ["of rank 1"])
            self.assertEqual(state["title"][()], b"a title")


class Netcdf(unittest.TestCase):
    """Both libraries that xarray reads such files with."""

    def check(self, engine, **options):
        with xr.open_dataset(FILE, group="state", engine=engine, **options) as data:
            temperature = data["temperature"]
            self.assertEqual(temperature.dims, ("y", "x"))
            self.assertEqual(temperature.attrs["units"], "K")
            self.assertEqual(temperature.attrs["long_name"], "temperature of the air (\u00b0)")
            np.testing.assert_array_equal(temperature, TEMPERATURE)
            np.testing.assert_array_equal(temperature.sel(x=0.5), [281, 282])
            self.assertEqual(data["x"].attrs["units"], "m")
            self.assertEqual(data["pressure"].dims, ("y", "x"))
            self.assertEqual(data["list"].dims, ("item",))
            self.assertEqual(list(data["list"]), [0, 1, 1])
            self.assertNotIn("y", data.variables)

    def test_h5netcdf(self):
        self.check("h5netcdf", decode_times=False, phony_dims="sort")

    def test_structs_and_texts(self):
        with xr.open_dataset(OTHER_FILE, group="state", engine="h5netcdf", phony_dims="sort") as data:
            self.assertEqual([text.decode() for text in data["species"].values], ["argon", "helium", "caf\u00e9"])
            self.assertEqual(list(data["particles"].values["id"]), [0, 10, 1, 11])

    def test_netcdf4(self):
        self.check("netcdf4", decode_times=False)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
