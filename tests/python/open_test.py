# SPDX-License-Identifier: BSD-3-Clause
"""`reprieve.open` on what the Python module saved: arrays in chunks, values of all kinds, corruption."""

import importlib.util
import unittest

import numpy as np
import reprieve
from support import COMM, RANK, SIZE, Case


class Reader(Case):
    def test_values(self):
        state = {
            "part": {"n": 3, "real": 0.5, "text": "é"},
            "list": [1, None, (2.0, b"x")],
            "bytes": b"\0\1",
            "rng": np.random.default_rng(4),
            "each": reprieve.per_rank(f"rank {RANK}"),
            "matrix": reprieve.per_rank(np.full((RANK + 1, 2), RANK)),
            "flags": np.array([True, False]),
            "pickle": reprieve.pickled({1}),
        }
        self.save(state, constants={"case": "cavity"})
        with reprieve.open(self.directory) as file:
            self.assertEqual((file["part/n"].value, file["part/real"].value, file["part/text"].value), (3, 0.5, "é"))
            self.assertEqual(file["list"].value, [1, None, (2.0, b"x")])
            self.assertEqual(file["bytes"].value, b"\0\1")
            self.assertEqual(file["rng"].value, np.random.default_rng(4).bit_generator.state)
            self.assertEqual(file["each"].value, [f"rank {rank}" for rank in range(SIZE)])
            self.assertEqual([each.shape for each in file["matrix"].value], [(r + 1, 2) for r in range(SIZE)])
            self.assertEqual(list(file["flags"]), [True, False])
            self.assertEqual((file.number, file.completed_steps, file.world_size), (1, 1, SIZE))
            self.assertEqual(file.constants, {"case": "cavity"})
            self.assertEqual(len(file), 10)
            file.verify()

    def grid(self):
        """Columns of each rank: they lie in the file as chunks where there is more than one rank."""
        width = 300
        whole = np.arange(900.0 * width * SIZE).reshape(900, width * SIZE)
        mine = np.ascontiguousarray(whole[:, RANK * width : (RANK + 1) * width])
        place = {"shape": whole.shape, "offset": (0, RANK * width)}
        return whole, {"u": reprieve.distributed(mine, units="K", dims=("y", "x"), **place)}

    def test_boxes_of_arrays_that_lie_as_a_whole(self):
        whole = np.arange(3 * 70 * 5000.0).reshape(3, 70, 5000)
        self.save({"w": whole, "empty": np.zeros((0, 3))})
        with reprieve.open(self.directory) as file:
            self.assertIsNone(file["w"].chunk)
            for key in (np.s_[:, :, 7], np.s_[::2, 5::13, ::-1999], np.s_[1], np.s_[..., -3:], np.s_[2, 69, 4999], np.s_[:]):
                np.testing.assert_array_equal(file["w"][key], whole[key], str(key))
            self.assertEqual(file["empty"][...].shape, (0, 3))
            data = file["w"][1]
        self.assertTrue(data.flags.writeable)

    def test_many_variables(self):
        names = [f"v{i}" for i in range(300)]
        state = {name: reprieve.per_rank(np.full(1 + i % 3, 10.0 * i + RANK)) for i, name in enumerate(names)}
        self.save(state)
        with reprieve.open(self.directory) as file:
            for i, name in enumerate(names):
                expected = [[10.0 * i + rank] * (1 + i % 3) for rank in range(SIZE)]
                self.assertEqual([list(each) for each in file[name].value], expected)

    def test_a_file_that_is_cut_off_while_it_is_open(self):
        self.save({"w": np.zeros(100_000)})
        if RANK == 0:
            with reprieve.open(self.directory) as file:
                with open(file.path, "r+b") as raw:
                    raw.truncate(8192)
                with self.assertRaisesRegex(reprieve.CorruptError, "cut off while it was open"):
                    file["w"][...]
        COMM.Barrier()

    @unittest.skipIf(importlib.util.find_spec("xarray") is None, "xarray is not installed")
    def test_xarray_after_the_end(self):
        self.save({"w": np.arange(5.0)})
        with reprieve.open(self.directory) as file:
            data = file.to_xarray()
        self.assertEqual(float(data["w"].sum()), 10)

    def test_a_dictionary_is_a_group(self):
        self.save({"ocean": {"salt": np.arange(3.0), "deep": {"age": 7}}, "n": 1})
        with reprieve.open(self.directory) as file:
            self.assertEqual(list(file["ocean"]), ["deep/age", "salt"])
            self.assertEqual(list(file["ocean"]["salt"][1:]), [1, 2])
            self.assertEqual(file["ocean"]["deep"].value, {"age": 7})
            self.assertEqual(file["ocean/deep/age"].value, 7)
            with self.assertRaisesRegex(KeyError, "sea: .* has n, ocean/deep/age, ocean/salt"):
                file["sea"]

    def test_chunks(self):
        whole, state = self.grid()
        self.save(state)
        with reprieve.open(self.directory) as file:
            u = file["u"]
            self.assertEqual(u.chunk is not None, SIZE > 1)
            self.assertEqual([box.rank for box in u.boxes], list(range(SIZE)))
            for key in (
                ...,
                5,
                (slice(10, 20), slice(-30, None)),
                (slice(None, None, -7), 299),
                (..., slice(1, 0)),
                (slice(890, None), slice(280, 20, -3)),
                np.s_[[1, 5], 2],
                (-1, -1),
            ):
                np.testing.assert_array_equal(u[key], whole[key], str(key))
            np.testing.assert_array_equal(np.asarray(u), whole)
            (offset, part), = u.of_rank(SIZE - 1)
            np.testing.assert_array_equal(part, whole[:, offset[1] :])
            with self.assertRaises(IndexError):
                u[900, 0]
            file.verify()

    @staticmethod
    def flip(path, place):
        """Another byte than the one that is there, whatever that is."""
        with open(path, "r+b") as raw:
            raw.seek(place)
            (byte,) = raw.read(1)
            raw.seek(place)
            raw.write(bytes([byte ^ 0xFF]))

    def test_corruption_names_rank_and_elements(self):
        whole, state = self.grid()
        self.save(state)
        if RANK == 0:
            with reprieve.open(self.directory) as file:
                path, place = file.path, file["u"]._entry["file_offset"] + 8
            self.flip(path, place)
            with reprieve.open(path) as file:
                with self.assertRaisesRegex(reprieve.CorruptError, r"variable 'u', rank 0, elements \[0:"):
                    file.verify()
            for position, text in ((100, "the commit record is corrupt"), (0, "no commit record")):
                self.flip(path, position)
                with self.assertRaisesRegex(reprieve.CorruptError, text):
                    reprieve.open(path)
            with self.assertRaisesRegex(FileNotFoundError, "no checkpoint"):
                reprieve.open(self.directory)
        COMM.Barrier()
