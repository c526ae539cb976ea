# SPDX-License-Identifier: BSD-3-Clause
"""`reprieve.open` on the files of C++, which python_writer made, without mpi4py and h5py.

usage: reader_test.py DIRECTORY
Exit code 77: numpy is not installed.
"""

import pathlib
import sys
import unittest

try:
    import numpy as np
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)
import reprieve

DIRECTORY = pathlib.Path(sys.argv[1])


class Reader(unittest.TestCase):
    def setUp(self):
        self.file = reprieve.open(DIRECTORY)
        self.other = reprieve.open(DIRECTORY / "apart" / "ckpt-1.h5")

    def test_nothing_else_is_loaded(self):
        found = [name for name in sys.modules if name.partition(".")[0] in ("mpi4py", "h5py", "netCDF4")]
        self.assertEqual(found, [])
        with open("/proc/self/maps") as maps:
            self.assertNotRegex(maps.read(), "libreprieve|libmpi|libhdf5")

    def test_what_a_file_says(self):
        self.assertEqual(self.file.path.name, "ckpt-1.h5")
        self.assertEqual((self.file.number, self.file.world_size, self.file.reason), (1, 2, "user"))
        self.assertIsNone(self.file.completed_steps)
        self.assertEqual(list(self.file), ["list", "pressure", "temperature", "time", "x"])
        with self.assertRaisesRegex(KeyError, "temperature"):
            self.file["nothing"]

    def test_arrays(self):
        temperature = self.file["temperature"]
        self.assertEqual((temperature.units, temperature.dims), ("K", ("y", "x")))
        self.assertEqual(temperature.description, "temperature of the air (\u00b0)")
        self.assertEqual([(box.rank, box.offset, box.extent) for box in temperature.boxes], [(0, (0, 0), (1, 3)), (1, (1, 0), (1, 3))])
        np.testing.assert_array_equal(temperature, [[280, 281, 282], [281, 282, 283]])
        self.assertEqual(list(temperature[:, 1]), [281, 282])
        self.assertEqual(self.file["time"].value, 2.5)
        self.assertEqual([list(each) for each in self.file["list"].value], [[0], [1, 1]])

    def test_structs_and_texts(self):
        particles = self.other["particles"].of_rank(1)
        self.assertEqual(list(particles["id"]), [1, 11])
        self.assertEqual(particles["wave"][0], 1 + 2j)
        self.assertEqual(self.other["species"].value, ["argon", "helium", "café"])
        self.assertEqual(self.other["host"].value, ["node0", "node10"])
        self.assertEqual(self.other["notes"].value, [[], ["of rank 1"]])
        self.assertEqual(self.other["title"].value, "a title")

    def test_checksums(self):
        self.file.verify()
        self.other.verify()

    def test_xarray(self):
        try:
            import xarray  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        data = self.file.to_xarray()
        self.assertEqual(data["temperature"].attrs["units"], "K")
        self.assertEqual(list(data["temperature"].sel(x=0.5).values), [281, 282])
        self.assertEqual(float(data["pressure"].mean()), 2)
        self.assertEqual(data["x"].attrs["units"], "m")
        self.assertEqual(float(data["time"]), 2.5)
        self.assertNotIn("list", data)

    def test_what_is_closed(self):
        with self.file as file:
            pass
        with self.assertRaisesRegex(reprieve.UsageError, "closed"):
            file["time"].value


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
