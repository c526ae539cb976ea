# SPDX-License-Identifier: BSD-3-Clause
"""Every type of elements of numpy: what is stored as itself, as bytes, and what is an error."""

import unittest.mock

import numpy as np
import reprieve
from support import RANK, SIZE, Case


class Types(Case):
    def test_every_type_comes_back_to_the_bit(self):
        names = "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 g c8 c16 G ? S5 U3 M8[s] m8[ms] V7".split()
        rng = np.random.default_rng(5)

        def make(name):
            dtype = np.dtype(name)
            if dtype.kind in "fc":
                array = np.zeros(6, dtype)  # with zeros in the padding of long doubles
                array.real = rng.random(6) * 100
                if dtype.char in "gG" and np.finfo(dtype).nmant == 63:
                    array.view(np.uint8).reshape(-1, 16)[:, 10:] = 0
                return array.reshape(2, 3)
            if dtype.kind == "b":
                return np.array([[True, False, True], [False, False, True]])
            if dtype.kind == "U":
                return np.array([["äb", "c", ""], ["\u2603", "xyz", "q"]], dtype)
            return np.frombuffer(rng.bytes(6 * dtype.itemsize), dtype).reshape(2, 3).copy()

        arrays = {name.replace("?", "bool"): make(name) for name in names}
        expected = {name: array.tobytes() for name, array in arrays.items()}
        state = {
            "same": arrays,
            "each": {name: reprieve.per_rank(array.copy()) for name, array in arrays.items()},
            "all": {
                name: reprieve.distributed(array.copy(), shape=(2 * SIZE, 3), offset=(2 * RANK, 0))
                for name, array in arrays.items()
            },
        }
        self.save(state)
        for name in arrays:
            for array in (arrays[name], state["each"][name].value, state["all"][name].value):
                array.view(np.uint8)[...] = 0 if array.dtype.kind != "V" else 0
        self.restore(state)
        for name, bits in expected.items():
            self.assertEqual(arrays[name].tobytes(), bits, name)
            self.assertEqual(state["each"][name].value.tobytes(), bits, name)
            self.assertEqual(state["all"][name].value.tobytes(), bits, name)

    def test_structs_are_bytes(self):
        dtype = np.dtype([("x", "f8", 3), ("id", "i4")])
        atoms = np.zeros(4, dtype)
        atoms["x"] = np.arange(12.0).reshape(4, 3)
        atoms["id"] = [5, 6, 7, 8]
        expected = atoms.tobytes()
        self.save({"atoms": atoms, "list": reprieve.per_rank(atoms.copy(), growing=True)})
        atoms[:] = np.zeros((), dtype)
        state = self.restore({"atoms": atoms, "list": reprieve.per_rank(np.zeros(0, dtype), growing=True)})
        self.assertEqual(atoms.tobytes(), expected)
        self.assertEqual(state["list"].value.tobytes(), expected)

    def takes(self, make, before, now):
        """Saves a value of one type, and restores what should not be taken for it. Gives the error."""
        self.fresh()
        self.save({"x": make(before)})
        with self.assertRaisesRegex(reprieve.MismatchError, "'numpy type of x'") as caught:
            self.handler({"x": make(now)})
        self.restore({"x": make(before)})
        return str(caught.exception)

    def test_bytes_that_mean_something_else(self):
        shape = {"shape": (2 * SIZE,), "offset": (2 * RANK,)}
        makers = [
            lambda dtype: np.zeros(2, dtype),
            lambda dtype: reprieve.distributed(np.zeros(2, dtype), **shape),
            lambda dtype: reprieve.distributed(lambda array=np.zeros(2, dtype): array, dtype=dtype, **shape),
            lambda dtype: reprieve.replicated(np.zeros(2, dtype), growing=True),
            lambda dtype: reprieve.per_rank(np.zeros(2, dtype), growing=True),
        ]
        for i, make in enumerate(makers):
            with self.subTest(i):
                error = self.takes(make, [("x", "f8"), ("y", "f8")], [("y", "f8"), ("x", "f8")])
                self.assertIn("{'x': <f8 at 0, 'y': <f8 at 8; 16 bytes}", error)
                self.assertIn("'<M8[s]' when it was saved, '<M8[ms]' now", self.takes(make, "M8[s]", "M8[ms]"))
        self.takes(makers[0], [("a", "i4", 2), ("b", "i4")], [("a", "i4"), ("b", "i4", 2)])
        self.takes(makers[0], [("a", "i4"), ("b", [("c", "i4")])], [("a", "i4"), ("b", [("d", "i4")])])
        self.takes(makers[0], [("a", "m8[s]")], [("a", "m8[D]")])
        self.takes(lambda unit: np.timedelta64(5, unit), "s", "h")

    def test_bytes_that_mean_the_same(self):
        """However numpy writes the type; and older checkpoints do not say what it was."""
        apart = {"names": ["b", "a"], "formats": ["f8", "i4"], "offsets": [8, 0], "itemsize": 16}
        aligned = np.dtype([("a", "i4"), ("b", "f8")], align=True)
        self.save({"x": np.array([(1, 2.0)], aligned)})
        state = self.restore({"x": np.zeros(1, np.dtype(apart))})
        self.assertEqual((state["x"]["a"][0], state["x"]["b"][0]), (1, 2))
        self.fresh()
        now = {"x": np.zeros(1, "M8[s]"), "n" * 250: np.zeros(1, "M8[s]")}  # a name that leaves no place for more
        with unittest.mock.patch("reprieve._entries.Element.meaning", lambda self: ""):
            self.save({name: np.ones(1, "i8").view("M8[s]") for name in now})
        with reprieve.open(self.directory) as file:
            self.assertEqual(file.constants, {})
        self.restore(now)
        self.assertEqual([array.view("i8")[0] for array in now.values()], [1, 1])

    def test_ranks_with_types_of_their_own(self):
        def make(value):
            mine = np.full(2, value, f"m8[{'s' if RANK == 0 else 'h'}]")
            struct = np.full(2, value, [("x", "f8", RANK + 2)])
            return {"t": reprieve.per_rank(mine), "s": reprieve.per_rank(struct)}

        self.save(make(RANK + 1))
        state = self.restore(make(0))
        for name, value in make(RANK + 1).items():
            self.assertEqual(state[name].value.tobytes(), value.value.tobytes())

    def refused(self, array, text):
        with self.assertRaisesRegex(reprieve.UsageError, text):
            self.handler({"inner": {"a": array}})

    def test_what_cannot_be_saved(self):
        place = r"state\['inner'\]\['a'\]: .*"
        self.refused(np.array([{}, []], dtype=object), place + "reprieve.pickled")
        self.refused(np.zeros(2, ">f8"), place + "byte order.*newbyteorder")
        self.refused(np.broadcast_to(np.zeros(3), (2, 3)), place + "read-only.*copy")
        self.refused(np.ma.array([1.0, 2.0], mask=[0, 1]), place + "masked")
        self.refused(np.zeros(2, "V0"), place + "no bytes")
        self.refused({1, 2}, place + "builtins.set cannot be saved.*reprieve.pickled")
        self.refused([object()], place + "builtins.object cannot be saved")
        self.refused(2**70, r"state\['inner'\]\['a'\] was registered as int.*64 bits")
        self.refused(lambda: 1, place + "function cannot be saved")
        self.refused(reprieve.pickled(lambda: 1), place + "cannot be pickled")
        endless = []
        endless.append(endless)
        self.refused(endless, place + "contains itself")
        circle = {}
        circle["inner"] = circle
        self.refused(circle, place.replace(": ", r"\['inner'\]: ") + "contains itself")

    def test_replicated_values_of_another_length(self):
        text = "the ranks registered different variables" if SIZE > 1 else None
        for value in (reprieve.pickled("x" * RANK), "x" * RANK, [1] * RANK, reprieve.replicated(np.zeros(RANK), growing=True)):
            self.fresh()
            if text is None:
                self.save({"x": value})
                continue
            with self.assertRaisesRegex(reprieve.MismatchError, text):
                self.save({"x": value})
        self.fresh()
        self.save({"x": reprieve.per_rank(reprieve.pickled("x" * RANK))})
