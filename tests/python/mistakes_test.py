# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes: each is an error of the right class on every rank, also if it is made on one rank only."""

import gc
import os
import pathlib
import unittest.mock

import numpy as np
import reprieve
from reprieve import _native
from support import COMM, RANK, SIZE, Case, of_last


class Mistakes(Case):
    def test_one_rank_makes_it(self):
        state = {"x": object() if RANK == SIZE - 1 else 1.0}
        error = self.refused(reprieve.UsageError, r"state\['x'\]: .*builtins.object cannot be saved", state)
        self.assertEqual(error.origin_rank, SIZE - 1)
        self.assertEqual(error.code, "usage")
        self.assertIsNone(error.__cause__)

    def test_names(self):
        self.refused(reprieve.UsageError, r"state\[3\]: names .*pickled", {3: 1.0})
        self.refused(reprieve.UsageError, r"state\['a/b'\]", {"a/b": 1.0})
        self.refused(reprieve.UsageError, "null byte", {"a\0b": 1.0})
        self.refused(reprieve.UsageError, "pass a dictionary", [1.0])

    def test_settings(self):
        state = {"x": 1.0}
        self.refused(reprieve.ConfigError, "grace_perod_s", state, settings={"termination": {"grace_perod_s": 3}})
        self.refused(reprieve.ConfigError, "max_to_keep", state, settings={"checkpoints.max_to_keep": -3})
        self.refused(reprieve.StorageError, "nowhere.json", state, settings="/nowhere.json")
        self.refused(reprieve.UsageError, "settings is a int", state, settings=5)
        self.refused(reprieve.UsageError, "exit is 'bye'", state, exit="bye")

    def test_arguments(self):
        with self.assertRaisesRegex(TypeError, "MPI.COMM_WORLD"):
            reprieve.Handler(5, self.directory, {})
        place = r"state\['x'\].*"
        bad = {
            "dtype=": reprieve.distributed(lambda: [], shape=(3,)),
            "offset=": reprieve.distributed(np.zeros(3), shape=(3,)),
            "another number of dimensions": reprieve.distributed(np.zeros(3), shape=(3,), offset=(0, 0)),
            "same number of dimensions": reprieve.distributed(np.zeros((3, 1)), shape=(3,), offset=(0,)),
            "ghost layers": reprieve.distributed(np.zeros(3), shape=(3,), offset=(0,), ghost=2),
            "only numpy arrays": reprieve.per_rank([], growing=True),
            "contiguous": reprieve.per_rank(np.zeros(9)[::2], growing=True),
            "names of dimensions": reprieve.replicated(np.zeros(3), dims=("x", "y")),
            "'in_order'": reprieve.per_rank(1.0, redistribute="anyhow"),
        }
        for text, value in bad.items():
            with self.subTest(text):
                self.refused(reprieve.UsageError, place + text, {"x": value})

    def test_in_order_without_items(self):
        class Optimizer:
            def state_dict(self):
                return {"rate": 0.5}

            def load_state_dict(self, state):
                pass

        own = reprieve.custom(lambda: b"x", len)
        values = [np.zeros(3), 1.0, "text", b"bytes", [1], None, np.random.default_rng(1), reprieve.pickled({1}), own, Optimizer()]
        for value in values:
            with self.subTest(type(value).__name__):
                text = r"state\['x'\]\.value: 'in_order' deals the items of growing arrays; pass a function"
                self.refused(reprieve.UsageError, text, {"x": reprieve.per_rank(value, redistribute="in_order")})

    def test_functions_that_return_copies(self):
        text = r"state\['x'\]\.value: the function returns a copy: a restore would fill that, .* or a view of it"
        u = np.zeros((6, 5))
        line = {"shape": (12 * SIZE,), "offset": (12 * RANK,), "dtype": float}
        grid = {"shape": (6 * SIZE, 5), "offset": (6 * RANK, 0), "dtype": float}
        values = [
            reprieve.distributed(lambda: u[1:-1, 1:-1].reshape(-1), **line),
            reprieve.distributed(lambda: u.copy(), **grid),
            reprieve.distributed(lambda: np.pad(u, 1), ghost=1, **grid),
            reprieve.distributed(lambda: [(u[:3], (6 * RANK, 0)), (u[3:] + 0, (6 * RANK + 3, 0))], **grid),
        ]
        for i, value in enumerate(values):
            with self.subTest(i):
                self.refused(reprieve.UsageError, text, {"x": value})
        only_one = reprieve.distributed(lambda: u.copy() if RANK == SIZE - 1 else u, **grid)
        self.assertEqual(self.refused(reprieve.UsageError, text, {"x": only_one}).origin_rank, SIZE - 1)

    def test_functions_that_return_copies_later(self):
        """Where there are no elements yet, or there is another function now, the next save tells it."""

        def given(blocks):
            return lambda: [(block.copy(), (5 * RANK,)) for block in blocks or [np.zeros(0)]]

        where, block, blocks = {"shape": (5 * SIZE,), "dtype": float}, np.zeros(5), []
        no_boxes = reprieve.distributed(given(blocks), **where)
        an_array = reprieve.distributed(block, offset=(5 * RANK,), **where)
        no_copy = reprieve.distributed(lambda: block, offset=(5 * RANK,), **where)
        for value, change in (
            (no_boxes, lambda: blocks.append(block)),
            (an_array, lambda: setattr(an_array, "value", given([block]))),
            (no_copy, lambda: setattr(no_copy, "value", given([block]))),
        ):
            self.fresh()
            with self.assertRaisesRegex(reprieve.Error, r"state\['x'\]\.value: the function returns a copy") as caught:
                with self.handler({"x": value}) as handler:
                    for _ in handler.steps(1):
                        change()
                        handler.request_checkpoint()
            self.assertIsNone(caught.exception.__cause__)

    def test_a_restore_into_copies(self):
        where = {"shape": (5 * SIZE,), "dtype": float}
        self.save({"x": reprieve.distributed(np.ones(5), offset=(5 * RANK,), **where)})
        blocks = []
        state = {"x": reprieve.distributed(lambda: [(block.copy(), (5 * RANK,)) for block in blocks], **where)}
        text = r"state\['x'\]\.value: the function returns a copy"
        self.refused(reprieve.Error, text, state, when_values_restored=lambda: blocks.append(np.zeros(5)))

    def test_a_directory_that_cannot_be(self):
        self.directory = "/dev/null/x"
        self.refused(reprieve.StorageError, "", {"x": 1.0})

    def test_another_state(self):
        self.save({"x": 1.0, "w": np.zeros(3)})
        self.refused(reprieve.MismatchError, "'w'", {"x": 1.0, "w": np.zeros(4)})
        self.refused(reprieve.MismatchError, "'y'", {"x": 1.0, "w": np.zeros(3), "y": 1})

    def test_a_corrupt_file(self):
        self.save({"w": np.arange(1000.0)})
        if RANK == 0:
            for file in pathlib.Path(self.directory).glob("ckpt*.h5"):
                os.truncate(file, 5000)
        COMM.Barrier()
        self.refused(reprieve.CorruptError, "ckpt", {"w": np.zeros(1000)})

    def test_what_is_replaced(self):
        """By values that a restart could not put in that place."""
        marked, generator = reprieve.replicated, np.random.default_rng(1)
        other, kind = np.random.Generator(np.random.Philox(1)), r" was registered as"
        rounded = [(np.int64(1), 3.5), (np.int32(1), 2**40), (np.float32(1), 0.1), (np.float64(1), 2j)]
        rounded += [(1.0, 2**53 + 1), (np.float64(1), np.int64(2**53 + 1)), (np.float32(1), np.float64(1e300))]
        rounded += [(1, 2.5), (1, 2**70), (True, 2), (1.0, "x"), (1.0, None)]
        for first, later, text in (
            (marked(0.0), 3.5, r" was replaced: put the new value into state\['x'\].value"),
            (marked(0.0), marked(1.0), " was replaced"),
            ({"x": 1}, 3, " was a dictionary .* is a int now"),
            ({"x": 1}, {"y": 1}, r" has 1 .* \('x', 'y'\)"),
            (b"", None, kind),
            (generator, None, kind),
            (generator, other, kind),
            (reprieve.pickled(1), 2, kind),
            ("", generator, kind),
            *((first, later, kind) for first, later in rounded),
        ):
            with self.subTest(first=first, later=later):
                state, change = {"x": first}, {"x": later}
                self.refused_later(reprieve.UsageError, r"state\['x'\]" + text, state, lambda _: state.update(change))

    def test_arrays_that_are_changed_from_within(self):
        text = r"state\['w'\] has another shape, type or memory"
        for change in (
            lambda state: state["w"].resize(100_000, refcheck=False),
            lambda state: setattr(state["w"], "shape", (2, 2)),
        ):
            self.refused_later(reprieve.UsageError, text, {"w": np.zeros(4)}, change)

    def test_numbers_that_c_cannot_hold(self):
        state = {"x": 1.0}
        for number in (2**64 + 5, -(2**63) - 1):
            self.refused(reprieve.UsageError, "the constant 'n' is .* must lie between", state, constants={"n": number})
        with self.manager(state) as manager:
            for number in (-1, 2**64 + 5):
                for save in (manager.save, manager.save_in_background):
                    with self.assertRaisesRegex(reprieve.UsageError, "the number of the checkpoint is"):
                        save(number)
        errors = (reprieve.UsageError, reprieve.ClusterError)  # the error of this rank, or of the first one
        with self.assertRaisesRegex(errors, "the program's own count of steps is -1"):
            with self.handler(state, step=lambda: -1) as handler:
                for _ in handler.steps(2):
                    handler.request_checkpoint()

    def test_ghost_layers(self):
        where = {"shape": (4, 4), "offset": (0, 0)}
        for ghost in (np.int64(1), (1, np.int32(1)), ((1, 1), (1, 1)), np.ones((2, 2), int)):
            self.assertEqual(reprieve.distributed(np.zeros((6, 6)), ghost=ghost, **where).ghost, ((1, 1), (1, 1)))
        for ghost in (-1, ((0, -1), 0)):
            with self.assertRaisesRegex(reprieve.UsageError, "fewer than 0 ghost layers"):
                reprieve.distributed(np.zeros((4, 4)), ghost=ghost, **where)

    def test_the_library_tells_what_it_is(self):
        lines = reprieve.version_details().splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["reprieve", "commit", "MPI", "HDF5", "options"])

    def test_another_version_of_the_library(self):
        with unittest.mock.patch.object(_native.described, "VERSION", "0.0.1"):
            with self.assertRaisesRegex(ImportError, "and the Python module of 0.0.1"):
                _native.library.__wrapped__()

    def test_a_call_of_one_rank(self):
        """What C refuses on one rank, in a call that the others do not make, is told to them."""
        with self.assertRaisesRegex(of_last(reprieve.UsageError), "no step is open"):
            with self.handler({"x": 1.0}) as handler:
                for _ in handler.steps(1_000_000):
                    if RANK == SIZE - 1:
                        _native.call("step_end", handler._handle)
                        _native.call("step_end", handler._handle)

    def test_numbers_that_fit(self):
        nan = float("nan")
        first = {"a": 1.0, "b": np.float32(1), "c": np.int32(1), "d": 1.0, "e": np.float32(1)}
        later = {"a": 3, "b": 0.25, "c": 2.0, "d": np.float64(nan), "e": nan}
        self.save_changed(dict(first), lambda state: state.update(later))
        found = {name: str(float(value)) for name, value in self.restore(dict(first)).items()}
        self.assertEqual(found, {name: str(float(value)) for name, value in later.items()})

    def test_what_is_registered_lives_as_long_as_the_handler(self):
        with self.handler({"w": np.arange(1e5), "u": reprieve.per_rank(np.arange(1e5))}) as handler:
            gc.collect()
            for _ in handler.steps(2):
                handler.request_checkpoint()
        state = self.restore({"w": np.zeros(100_000), "u": reprieve.per_rank(np.zeros(100_000))})
        np.testing.assert_array_equal(state["w"], np.arange(1e5))
        np.testing.assert_array_equal(state["u"].value, np.arange(1e5))
