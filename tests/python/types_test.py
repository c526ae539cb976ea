# SPDX-License-Identifier: BSD-3-Clause
"""Every type of elements of numpy: what is stored as itself, as bytes, and what is an error."""

import contextlib
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

        same = {name.replace("?", "bool"): make(name) for name in names}
        each, whole = ({name: array.copy() for name, array in same.items()} for _ in range(2))
        where = {"shape": (2 * SIZE, 3), "offset": (2 * RANK, 0)}
        state = {
            "same": same,
            "each": {name: reprieve.per_rank(array) for name, array in each.items()},
            "all": {name: reprieve.distributed(array, **where) for name, array in whole.items()},
        }
        self.comes_back(state, *same.values(), *each.values(), *whole.values())

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
        error = self.refused(reprieve.MismatchError, "'numpy type of x'", {"x": make(now)})
        self.restore({"x": make(before)})
        return str(error)

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

    def test_what_cannot_be_saved(self):
        endless, circle = [], {}
        endless.append(endless)
        circle["inner"] = circle
        for value, text in (
            (np.array([{}, []], dtype=object), ": .*reprieve.pickled"),
            (np.zeros(2, ">f8"), ": .*byte order.*newbyteorder"),
            (np.broadcast_to(np.zeros(3), (2, 3)), ": .*read-only.*copy"),
            (np.ma.array([1.0, 2.0], mask=[0, 1]), ": .*masked"),
            (np.zeros(2, "V0"), ": .*no bytes"),
            ({1, 2}, ": .*builtins.set cannot be saved.*reprieve.pickled"),
            ([object()], ": .*builtins.object cannot be saved"),
            (2**70, " was registered as int.*64 bits"),
            (lambda: 1, ": .*function cannot be saved"),
            (reprieve.pickled(lambda: 1), ": .*cannot be pickled"),
            (endless, ": .*contains itself"),
            (circle, r"\['inner'\]: .*contains itself"),
        ):
            with self.subTest(text):
                self.refused(reprieve.UsageError, r"state\['inner'\]\['a'\]" + text, {"inner": {"a": value}})

    def test_replicated_values_of_another_length(self):
        for value in (reprieve.pickled("x" * RANK), "x" * RANK, [1] * RANK, reprieve.replicated(np.zeros(RANK), growing=True)):
            self.fresh()
            error = self.assertRaisesRegex(reprieve.MismatchError, "the ranks registered different variables")
            with error if SIZE > 1 else contextlib.nullcontext():
                self.save({"x": value})
        self.fresh()
        self.save({"x": reprieve.per_rank(reprieve.pickled("x" * RANK))})
