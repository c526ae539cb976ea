# SPDX-License-Identifier: BSD-3-Clause
"""What is saved comes back: values of every kind, to the same bits, where the program has them."""

import collections
import decimal
import enum
import fractions
import random

import numpy as np
import reprieve
from support import RANK, SIZE, Case


class Phase(str, enum.Enum):
    WAITING = "waiting"
    STEPPING = "stepping"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mode(enum.Enum):
    ONE = 1
    TWO = (2, 3)


class Bits(enum.Flag):
    A = 1
    B = 2


class Holder:
    """Returns its state by itself."""

    def __init__(self, value):
        self.value = value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def derived(kind, *arguments):
    """A value of a class that is derived from another."""
    return type(f"My{kind.__name__}", (kind,), {})(*arguments)


PLAIN = [True, 2**62, 0.1, 1 + 2j, "caf\xe9", b"\0\xff", bytearray(b"ab"), None, [1, [2.5]], (1, "x")]
PLAIN += [np.float32(0.25), np.uint8(7), np.bool_(True), np.str_("ab")]
#: By name, each with another value of its kind. They come back as what they were.
KEPT = {f"{type(value).__module__}.{type(value).__name__}": (value, type(value)()) for value in PLAIN} | {
    "datetime64": (np.datetime64("2026-01-02T03:04"), np.datetime64(0, "m")),
    "ndarray": (np.arange(6.0).reshape(2, 3), np.zeros((2, 3))),
}
#: As the value of a name.
KEPT_OF_A_NAME = {
    "str Enum": (Phase.STEPPING, Phase.WAITING),
    "IntEnum": (Level.HIGH, Level.LOW),
    "Enum": (Mode.TWO, Mode.ONE),
    "Flag": (Bits.B, Bits.A),
    "matrix": (np.matrix([[1.0, 2.0]]), np.matrix([[0.0, 0.0]])),
}
#: In a list, or in what a state_dict() returns. As the value of a name, a dictionary is a part of the tree.
KEPT_INSIDE = {
    "dict": ({"a": 1, 2: "b", ("c",): None}, {}),
    "OrderedDict": (collections.OrderedDict([("b", 1), ("a", 2)]), collections.OrderedDict()),
    "Counter": (collections.Counter("abba"), collections.Counter()),
    "large int": (2**100, 0),
}
BASES = [(str, "x"), (int, 3), (float, 3.0), (list, [1]), (tuple, (1,)), (bytes, b"x")]
REFUSED = [derived(kind, value) for kind, value in BASES] + [collections.namedtuple("Pair", "a b")(1, 2)]
REFUSED += [np.ma.masked_array([1.0, 1000.0], [False, True]), np.array([None, 1], dtype=object)]
REFUSED += [Bits.A | Bits.B, collections.deque([1]), {1}, frozenset({1}), range(3), slice(3), len, Phase, ...]
REFUSED += [fractions.Fraction(1, 3), decimal.Decimal("0.1")]
REFUSED_INSIDE = [derived(dict, {"a": 1}), collections.defaultdict(list, a=[1]), Phase.STEPPING, Level.HIGH, Mode.TWO]
REFUSED_INSIDE += [np.matrix([[1.0]]), np.zeros(3).view(np.recarray), np.zeros((), "i4,f8")[()]]
REFUSED_INSIDE += [np.zeros(3).view(type("Derived", (np.ndarray,), {}))]


class Types(Case):
    """Each value is what it was, or refused where it is registered."""

    def assert_same(self, found, expected, name):
        self.assertIs(type(found), type(expected), name)
        if isinstance(expected, np.ndarray):
            self.assertEqual(found.dtype, expected.dtype, name)
            np.testing.assert_array_equal(found, expected, name)
        else:
            self.assertEqual(found, expected, name)

    def test_what_is_kept(self):
        def make(which):
            state = {f"{name} named": value[which] for name, value in (KEPT | KEPT_OF_A_NAME).items()}
            for name, value in (KEPT | KEPT_INSIDE).items():
                state[f"{name} in a list"] = [value[which], {"inner": (value[which],)}]
                state[f"{name} in a state"] = Holder(value[which])
            return {name: value.copy() if hasattr(value, "copy") else value for name, value in state.items()}

        self.save(make(0))
        found, expected = self.restore(make(1)), make(0)
        for name, value in expected.items():
            if isinstance(value, Holder):
                self.assert_same(found[name].value, value.value, name)
            elif name.endswith("in a list"):
                self.assert_same(found[name][0], value[0], name)
                self.assert_same(found[name][1]["inner"][0], value[1]["inner"][0], name)
            else:
                self.assert_same(found[name], value, name)
        self.assertEqual(list(found["OrderedDict in a list"][0]), ["b", "a"])

    def test_what_is_refused(self):
        cases = [(value, True) for value in REFUSED] + [(value, False) for value in REFUSED_INSIDE]
        for value, is_everywhere in cases:
            for each in ([value], Holder(value), Holder({"inner": [value]}), *[value] * is_everywhere):
                with self.subTest(repr(value)):
                    self.refused(reprieve.UsageError, "", {"value": each})

    def test_a_member_that_is_gone(self):
        self.save({"phase": Phase.STEPPING})
        other = enum.Enum("Phase", "WAITING")
        self.refused(reprieve.Error, "'STEPPING', which is no member of Phase", {"phase": other.WAITING})


class Values(Case):
    def test_values_in_dictionaries_and_names(self):
        self.save({"ocean": {"salt": 1.5, "ice": {"thick": np.arange(3.0)}}, "air": {}, "list": [1, 2.5]})
        thick, the_list = np.zeros(3), []
        state = self.restore({"ocean": {"salt": 0.0, "ice": {"thick": thick}}, "air": {}, "list": the_list})
        self.assertEqual(the_list, [1, 2.5], "it is the same list")
        self.assertIs(state["list"], the_list)
        self.assertEqual(state["ocean"]["salt"], 1.5)
        self.assertEqual(list(thick), [0, 1, 2])

    def test_marked_values(self):
        def make(time, text):
            return {"t": reprieve.replicated(time, units="s", description="model time"), "x": reprieve.per_rank(text)}

        self.save(make(2.5, f"rank {RANK}"))
        state = self.restore(make(0.0, ""))
        self.assertEqual((state["t"].value, state["x"].value), (2.5, f"rank {RANK}"))

    def test_generators_go_on(self):
        kinds = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]

        def make(seed):
            generators = {kind.__name__: np.random.Generator(kind(seed + RANK)) for kind in kinds}
            generators["old"] = np.random.RandomState(seed + RANK)
            generators["python"] = random.Random(seed + RANK)
            return generators, {name: reprieve.per_rank(each) for name, each in generators.items()}

        generators, state = make(1)
        for each in generators.values():
            each.random()
            if hasattr(each, "normal"):
                each.normal()
        self.save(state)
        others, state = make(99)
        self.restore(state)
        for name, each in generators.items():
            self.assertEqual([each.random() for _ in range(5)], [others[name].random() for _ in range(5)])

    def test_pickled_and_custom(self):
        taken = []

        def make(value, text):
            return {
                "set": reprieve.pickled(value),
                "each": reprieve.per_rank(reprieve.pickled(value)),
                "own": reprieve.custom(lambda: text, taken.append),
            }

        self.save(make({1, 2, 3}, b"abc"))
        state = self.restore(make(None, b""))
        self.assertEqual(state["set"].value, {1, 2, 3})
        self.assertEqual(state["each"].value.value, {1, 2, 3})
        self.assertEqual(taken, [b"abc"])

    def test_what_changes_between_the_saves_is_saved(self):
        def change(state):
            state["list"].append(state["n"])
            state["n"] += 1
            state["text"] += "x"
            state["w"] += 1

        self.save_changed({"n": 0, "text": "", "list": [], "w": np.zeros(2)}, change, steps=3)
        other = self.restore({"n": 0, "text": "", "list": [], "w": np.zeros(2)})
        self.assertEqual((other["n"], other["text"], other["list"], list(other["w"])), (3, "xxx", [0, 1, 2], [3, 3]))

    def test_a_dictionary_in_the_place_of_another(self):
        state = {"p": {"rate": 0.0, "of": {"text": "a"}}}
        self.save_changed(state, lambda state: state.update(p={"rate": 2.5, "of": {"text": "b"}}))
        self.assertEqual(self.restore({"p": {"rate": 0.0, "of": {"text": ""}}}), {"p": {"rate": 2.5, "of": {"text": "b"}}})

    def test_values_that_become_of_another_type(self):
        marked = '{"$python":null}'
        values = [None, "model-7", "", marked, 2.5, b"\0", [1], (2,), {"a": None}]

        def first():
            kinds = {"none": lambda: None, "text": str, "list": list}
            return {f"{kind} {i}": make() for kind, make in kinds.items() for i in range(len(values))}

        later = {name: values[int(name[-1])] for name in first()}
        self.save_changed(first(), lambda state: state.update(later))
        self.assertEqual(self.restore(first()), later)


class Arrays(Case):
    def test_any_strides(self):
        """An array comes back into the same memory."""
        base = np.arange(60.0)
        for array in (
            base.copy(),
            base.copy().reshape(3, 4, 5),
            base.copy().reshape(3, 4, 5).T,
            np.asfortranarray(base.reshape(6, 10)),
            base.copy().reshape(6, 10)[1:-1, 2:-1:3],
            base.copy()[::-2],
            np.array(7.0),
            np.zeros((0, 3)),
        ):
            with self.subTest(shape=array.shape, strides=array.strides):
                self.fresh()
                self.comes_back({"a": array}, array)

    def test_what_lies_between_strides_is_left_alone(self):
        base = np.arange(10.0)
        self.save({"a": base[::2]})
        base[:] = -1
        self.restore({"a": base[::2]})
        self.assertEqual(list(base), [0, -1, 2, -1, 4, -1, 6, -1, 8, -1])

    def test_per_rank_shapes_differ(self):
        array = np.full((RANK + 1, 2), RANK, np.int32)
        self.comes_back({"a": reprieve.per_rank(array)}, array)

    def test_growing(self):
        self.save({"p": reprieve.per_rank(np.full((RANK + 2, 3), 0.5 + RANK), growing=True)})
        state = self.restore({"p": reprieve.per_rank(np.zeros((0, 3)), growing=True)})
        self.assertEqual(state["p"].value.shape, (RANK + 2, 3))
        self.assertTrue((state["p"].value == 0.5 + RANK).all())

    def test_growing_may_be_another_array_at_each_save(self):
        state = {"p": reprieve.replicated(np.zeros(0, np.int64), growing=True)}
        with self.handler(state) as handler:
            for step in handler.steps(3):
                state["p"].value = np.append(state["p"].value, step)
                handler.request_checkpoint()
            handler.boundary()
        other = self.restore({"p": reprieve.replicated(np.zeros(9, np.int64), growing=True)})
        self.assertEqual(list(other["p"].value), [0, 1, 2])


class DistributedArrays(Case):
    @staticmethod
    def grid(fill, ghost=((1, 2), (0, 3))):
        """A band of rows of a grid of 4 columns, with ghost layers around."""
        rows = 2 + RANK % 2
        first = sum(2 + rank % 2 for rank in range(RANK))
        total = sum(2 + rank % 2 for rank in range(SIZE))
        padded = np.full((rows + sum(ghost[0]), 4 + sum(ghost[1])), -1.0)
        inner = padded[ghost[0][0] : ghost[0][0] + rows, ghost[1][0] : ghost[1][0] + 4]
        if fill:
            inner[:] = 4.0 * (first + np.arange(rows))[:, None] + np.arange(4)
        value = reprieve.distributed(padded, shape=(total, 4), offset=(first, 0), ghost=ghost, dims=("y", "x"))
        return {"u": value}, padded, inner

    def test_ghost_layers_are_left_alone(self):
        self.save(self.grid(True)[0])
        state, padded, _ = self.grid(False)
        self.restore(state)
        np.testing.assert_array_equal(padded, self.grid(True)[1])

    def test_arrays_that_change_places(self):
        state, padded, _ = self.grid(True)
        self.save_changed(state, lambda state: setattr(state["u"], "value", padded + 100))
        state, _, inner = self.grid(False)
        self.restore(state)
        np.testing.assert_array_equal(inner, self.grid(True)[2] + 100)

    def test_a_function_finds_the_array(self):
        fields = [np.full((1, 3), 1.0 + RANK), np.full((1, 3), 11.0 + RANK)]
        present = [0]
        where = {"shape": (SIZE, 3), "offset": (RANK, 0), "dtype": np.float64}
        state = {"u": reprieve.distributed(lambda: fields[present[0]], **where)}
        self.save_changed(state, lambda _: present.__setitem__(0, 1))
        fields[1][:] = 0
        self.restore(state)
        self.assertTrue((fields[1] == 11.0 + RANK).all() and (fields[0] == 1.0 + RANK).all())

    def test_any_number_of_boxes(self):
        blocks = [(np.full(2, 10 * RANK + i, np.int32), (2 * SIZE * i + 2 * RANK,)) for i in range(RANK + 1)]
        state = {"b": reprieve.distributed(lambda: blocks, shape=(2 * SIZE * SIZE,), dtype=np.int32)}
        self.comes_back(state, *[array for array, _ in blocks])

    def test_ranks_without_a_part(self):
        rows = 3 if RANK == SIZE - 1 else 0
        array = np.full((rows, 2), 5.0)
        self.comes_back({"u": reprieve.distributed(array, shape=(3, 2), offset=(0, 0))}, array)

    def test_shared_borders_keep_their_own_bits(self):
        array = np.array([RANK, RANK + 0.5])
        self.comes_back({"u": reprieve.distributed(array, shape=(SIZE + 1,), offset=(RANK,), shared=True)}, array)
