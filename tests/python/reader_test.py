# SPDX-License-Identifier: BSD-3-Clause
"""`reprieve.open` on the files of C++, which python_writer made, without mpi4py and h5py.

usage: reader_test.py DIRECTORY
Exit code 77: numpy is not installed.
"""

import collections
import importlib.util
import json
import os
import pathlib
import random
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)
import reprieve
from reprieve import _layout

DIRECTORY = pathlib.Path(sys.argv[1])

NUMBERS = (0, 1, 2, 7, 4096, 1 << 40, (1 << 64) - 1)


def distort(value, random_):
    """The value, or what is in it, as something else."""
    if isinstance(value, (dict, list)) and value and random_.random() < 0.9:
        key = random_.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if random_.random() < 0.1:
            del value[key]
        else:
            value[key] = distort(value[key], random_)
        return value
    return random_.choice((None, True, -1, 1.5, *NUMBERS, "", "\x9b", [], {}, [[[]]], [value, value], {"name": value}))


def forge(path, into, random_):
    """Writes the file with another manifest and table of boxes behind it, and the right digests of these."""
    raw = bytearray(path.read_bytes())
    words = np.frombuffer(raw[:4096], "<u8").copy()
    manifest = json.loads(raw[words[3] : words[3] + words[4]])
    boxes = np.frombuffer(raw[words[6] : words[6] + words[7]], "<u8").copy()
    if random_ and random_.random() < 0.3:
        boxes[random_.randrange(len(boxes))] = random_.choice(NUMBERS)
    elif random_:
        manifest = distort(manifest, random_)
    for place, table in ((3, json.dumps(manifest).encode()), (6, boxes.tobytes())):
        digest = _layout.hasher()(np.frombuffer(table, np.uint8))
        raw += bytes(-len(raw) % 8)
        words[place : place + 3] = len(raw), len(table), digest
        raw += table
    words[2] = len(raw)
    words[511] = _layout.hasher()(words[:511].view(np.uint8))
    raw[:4096] = words.tobytes()
    into.write_bytes(raw)


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
        said = (temperature.units, temperature.dims, temperature.description)
        self.assertEqual(said, ("K", ("y", "x"), "temperature of the air (\u00b0)"))
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

    def test_compressed_arrays(self):
        file = reprieve.open(DIRECTORY / "compressed" / "ckpt-1.h5")
        field, mine = file["field"], file["mine"]
        self.assertGreater(len(field._compressed), 0)
        self.assertGreater(len(mine._compressed), 0)
        rows, columns = field.shape
        expected = np.arange(rows * columns).reshape(rows, columns) // 100
        for key in (np.s_[::101, 7], np.s_[-1], np.s_[2046:2051, 990:], np.s_[:]):
            np.testing.assert_array_equal(field[key], expected[key])
        for rank, value in enumerate(mine.value):
            np.testing.assert_array_equal(value, np.arange(rows // 2 * columns) // 10 + rank)
        file.verify()

    @unittest.skipIf(importlib.util.find_spec("xarray") is None, "xarray is not installed")
    def test_xarray(self):
        import xarray

        data = self.file.to_xarray()
        self.assertEqual(data["temperature"].attrs["units"], "K")
        self.assertEqual(list(data["temperature"].sel(x=0.5).values), [281, 282])
        self.assertEqual(float(data["pressure"].mean()), 2)
        self.assertEqual(data["x"].attrs["units"], "m")
        self.assertEqual(float(data["time"]), 2.5)
        self.assertNotIn("list", data)
        with xarray.open_dataset(self.other.path, drop_variables="notes") as other:
            self.assertEqual(list(other["species"].values), ["argon", "helium", "café"])
            self.assertEqual(other["title"].item(), "a title")
            self.assertEqual(list(other["particles"].values["id"].ravel()), [0, 10, 1, 11])

    def test_a_pipe_is_no_checkpoint(self):
        with tempfile.TemporaryDirectory() as directory:
            pipe = pathlib.Path(directory) / "ckpt-2.h5"
            os.mkfifo(pipe)
            with self.assertRaisesRegex(reprieve.CorruptError, "no regular file"):
                reprieve.open(pipe)
            with self.assertRaises(FileNotFoundError):
                reprieve.open(directory)

    def test_manifests_that_lie(self):
        """Values of the manifest and of the table of boxes become others; all digests are right."""
        if _layout.hasher() is None:
            self.skipTest("nothing to compute digests with")
        random_ = random.Random(1)
        found = collections.Counter()
        with tempfile.TemporaryDirectory() as directory:
            forged = pathlib.Path(directory) / "ckpt-1.h5"
            for number in range(3000):
                path = random_.choice((self.file.path, self.other.path))
                forge(path, forged, random_ if number else None)
                try:
                    with reprieve.open(forged) as file:
                        for variable in file.values():
                            variable.boxes, variable.of_rank(0), variable[...], repr(variable)
                        file.verify()
                        found["good"] += 1
                except reprieve.CorruptError as error:
                    self.assertGreater(number, 0, error)
                    found["refused"] += 1
                except IndexError as error:
                    self.assertIn("ranks saved", str(error))  # there is no rank 0
                except Exception as error:
                    self.fail(f"forgery {number}: {error!r}")
        self.assertGreater(min(found["good"], found["refused"]), 300, found)

    def test_what_is_closed(self):
        with self.file as file:
            pass
        with self.assertRaisesRegex(reprieve.UsageError, "closed"):
            file["time"].value


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
