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

DIRECTORY = pathlib.Path(sys.argv[1])
FILE = DIRECTORY / "ckpt-1.h5"
OTHER_FILE = DIRECTORY / "apart" / "ckpt-1.h5"


class H5py(unittest.TestCase):
    def setUp(self):
        self.state = self.open(FILE)["state"]

    def open(self, path):
        file = h5py.File(path, "r")
        self.addCleanup(file.close)
        return file

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

    def test_kinds(self):
        """Types, shapes and metadata."""
        file = self.open(DIRECTORY / "kinds" / "ckpt-7.h5")
        state, attributes = file["state"], file["reprieve"].attrs
        for name, dtype, value in (
            ("flag", bool, True),
            ("a/b/real", float, 0.25),
            ("wide", np.longdouble, 1.5),
            ("a/numbers", np.uint16, [1, 2, 65535]),
            ("waves", complex, [1 + 2j, 3 + 4j]),
            ("mine", np.int32, [1]),
            ("rows", np.float32, [[0] * 4, [1] * 4]),
        ):
            self.assertEqual((state[name].dtype, state[name][()].tolist()), (dtype, value), name)
        opaque = state["bytes"].id.get_type()
        self.assertEqual(opaque.get_class(), h5py.h5t.OPAQUE)
        self.assertEqual(opaque.get_tag(), b"reprieve: bytes, or a serialized value")
        self.assertEqual(attributes["number"], 7)
        version = state["version"][()].decode()
        expected = {"reason": "preemption", "reason_message": "the end is near", "library_version": version}
        for name, text in expected.items():
            found = attributes[name]
            self.assertEqual(found.decode() if isinstance(found, bytes) else found, text)
        self.assertIn(b'"reason"', file["reprieve/manifest"][()])

    def test_structs_have_members(self):
        particles = self.open(OTHER_FILE)["state/particles"][:]
        self.assertEqual(particles.dtype.names, ("position", "id", "name", "wave"))
        self.assertEqual(list(particles["id"]), [0, 10, 1, 11])
        self.assertEqual(list(particles["position"][2]), [0.5, 1.5, 2.5])
        self.assertEqual(list(particles["name"]), [b"p", b"q", b"p", b"q"])
        self.assertEqual(particles["wave"][0], 1 + 2j)

    def test_texts_are_arrays_of_texts(self):
        state = self.open(OTHER_FILE)["state"]
        self.assertEqual(list(state["species"].asstr()[:]), ["argon", "helium", "caf\u00e9"])
        self.assertEqual(list(state["host"].asstr()[:]), ["node0", "node10"])
        self.assertEqual(list(state["notes"].asstr()[:]), ["of rank 1"])
        self.assertEqual(state["title"][()], b"a title")


class Netcdf(unittest.TestCase):
    """Both libraries that xarray reads such files with."""

    def test_arrays(self):
        netcdf4 = {"engine": "netcdf4", "group": "state", "decode_times": False}
        for options in (netcdf4, netcdf4 | {"engine": "h5netcdf", "phony_dims": "sort"}):
            with self.subTest(options["engine"]), xr.open_dataset(FILE, **options) as data:
                temperature = data["temperature"]
                self.assertEqual(temperature.dims, ("y", "x"))
                self.assertEqual(temperature.attrs["units"], "K")
                self.assertEqual(temperature.attrs["long_name"], "temperature of the air (\u00b0)")
                np.testing.assert_array_equal(temperature, [[280, 281, 282], [281, 282, 283]])
                np.testing.assert_array_equal(temperature.sel(x=0.5), [281, 282])
                self.assertEqual(data["x"].attrs["units"], "m")
                self.assertEqual(data["pressure"].dims, ("y", "x"))
                self.assertEqual(data["list"].dims, ("item",))
                self.assertEqual(list(data["list"]), [0, 1, 1])
                self.assertNotIn("y", data.variables)

    def test_structs_and_texts(self):
        with xr.open_dataset(OTHER_FILE, group="state", engine="h5netcdf", phony_dims="sort") as data:
            self.assertEqual([text.decode() for text in data["species"].values], ["argon", "helium", "caf\u00e9"])
            self.assertEqual(list(data["particles"].values["id"]), [0, 10, 1, 11])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
