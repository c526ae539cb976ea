# SPDX-License-Identifier: BSD-3-Clause
"""Restores by other programs and on other numbers of ranks: the ranks of a part of the job save, all of them restore."""

import os

import numpy as np
import reprieve
from support import COMM, QUIET, RANK, SIZE, Case, of_last


class Others(Case):
    def save_on(self, ranks, make):
        """Ranks below `ranks` save what `make` gives for a rank and a number of ranks."""

        def save(part):
            with reprieve.Handler(part, self.directory, make(part.rank, part.size), settings=QUIET) as handler:
                for _ in handler.steps(1):
                    handler.request_checkpoint()

        self.on(ranks, save)

    def test_distributed_on_another_number_of_ranks(self):
        def make(rank, size):
            first, last = 12 * rank // size, 12 * (rank + 1) // size
            array = np.arange(first, last, dtype=np.float64)
            return {"u": reprieve.distributed(array, shape=(12,), offset=(first,)), "t": 7.5}

        self.save_on(1, make)
        state, expected = make(RANK, SIZE), make(RANK, SIZE)
        state["u"].value[:] = -1
        state["t"] = 0.0
        self.restore(state)
        np.testing.assert_array_equal(state["u"].value, expected["u"].value)
        self.assertEqual(state["t"], 7.5)

    def test_functions_for_another_number_of_ranks(self):
        if SIZE == 1:
            self.skipTest("needs 2 ranks")

        def values(rank):
            plain = {"text": f"rank {rank}", "n": rank + 1, "list": [rank], "own": reprieve.pickled({rank})}
            return plain | {"a": np.full(2, rank + 0.5), "rng": np.random.default_rng(rank)}

        def make(rank, size):
            def redistribute(pieces, rank, size):
                return pieces[rank % len(pieces)]

            state = {name: reprieve.per_rank(each, redistribute=redistribute) for name, each in values(rank).items()}
            return state | {"p": reprieve.per_rank(np.full((3, 2), rank), growing=True, redistribute="in_order")}

        self.save_on(SIZE - 1, make)
        state = self.restore(make(100, 0))
        for name, expected in values(RANK % (SIZE - 1)).items():
            found = state[name].value
            if name == "rng":
                found, expected = found.random(), expected.random()
            np.testing.assert_equal(found, expected, name)
        self.assertEqual(COMM.allreduce(len(state["p"].value)), 3 * (SIZE - 1))

    def test_items_of_another_width_are_a_mismatch(self):
        for saved, other in (((6, 2), (1, 3)), ((6, 2), (1,)), ((6,), (1, 3))):
            self.fresh()
            self.save({"p": reprieve.per_rank(np.ones(saved), growing=True)})
            self.refused(reprieve.MismatchError, "'p'", {"p": reprieve.per_rank(np.zeros(other), growing=True)})

    def test_older_versions_of_the_program(self):
        self.save({"nu": 0.5, "celsius": np.array([20.0]), "old": {"x": 1, "y": 2}})
        kelvin = np.zeros(1)
        seen = []

        def migrate(stored):
            seen.append(("celsius" in stored, "fahrenheit" in stored))
            kelvin[:] = stored.read("celsius", np.zeros(1)) + 273.15

        state = {
            "viscosity": reprieve.replicated(0.0, former_names=["nu"]),
            "new": reprieve.replicated(3, may_be_missing=True),
            "kelvin": reprieve.replicated(kelvin, may_be_missing=True),
        }
        self.restore(state, dropped=["old", "celsius"], on_migration=migrate)
        self.assertEqual((state["viscosity"].value, state["new"].value, seen), (0.5, 3, [(True, False)]))
        self.assertEqual(kelvin[0], 293.15)

    def test_blocks_are_made_in_the_middle(self):
        blocks = [np.full(5, RANK)]
        where = {"shape": (5 * SIZE,), "dtype": int}
        u = reprieve.distributed(lambda: [(block, (5 * RANK,)) for block in blocks], **where)
        state = {"length": 5, "u": u}
        self.save(state)
        blocks.clear()
        state["length"] = 0
        self.restore(state, when_values_restored=lambda: blocks.append(np.full(state["length"], -1)))
        self.assertEqual(list(blocks[0]), [RANK] * 5)

    def test_functions_that_return_the_memory_itself(self):
        file = os.path.join(self.directory, f"field-{RANK}")
        np.memmap(file, float, "w+", shape=(4,))
        fields = [np.zeros((4, 4)), np.zeros((4, 4))]
        line, grid, blocks = np.zeros((2, 2)), np.zeros((4, 4)), [np.zeros(2), np.zeros(2)]

        def state():
            rows = {"shape": (2 * SIZE, 2), "offset": (2 * RANK, 0), "dtype": float}
            four = {"shape": (4 * SIZE,), "offset": (4 * RANK,), "dtype": float}
            boxes = [(block, (4 * RANK + 2 * i,)) for i, block in enumerate(blocks)]
            return {
                "view": reprieve.distributed(lambda: grid[1:-1, 1:-1], **rows),
                "ghost": reprieve.distributed(lambda: fields[-1], ghost=1, **rows),
                "line": reprieve.distributed(lambda: line.reshape(-1), **four),
                "boxes": reprieve.distributed(lambda: boxes if RANK == 0 else [], **four),
                "none": reprieve.distributed(lambda: np.zeros((0, 2)), **{**rows, "offset": (0, 0)}),
                "rim": reprieve.distributed(lambda: np.zeros(2), ghost=1, **{**four, "offset": (0,)}),
                "file": reprieve.distributed(lambda: np.memmap(file, float, "r+"), **four),
            }

        arrays = [grid[1:-1, 1:-1], line, *blocks]
        for array in arrays:
            array[:] = np.arange(array.size).reshape(array.shape) + RANK
        np.memmap(file, float, "r+")[:] = RANK + 0.5
        expected = [array.copy() for array in arrays]
        with self.handler(state()) as handler:
            for _ in handler.steps(1):
                fields.append(np.full((4, 4), RANK + 7.0))  # another array than when the state was handed over
                handler.request_checkpoint()
        for array in (*arrays, fields[-1], np.memmap(file, float, "r+")):
            array[:] = -1
        fields.append(np.zeros((4, 4)))
        self.restore(state())
        for array, each in zip(arrays, expected):
            np.testing.assert_array_equal(array, each if RANK == 0 or array.size > 2 else -1)
        self.assertTrue((fields[-1][1:-1, 1:-1] == RANK + 7).all())
        self.assertTrue((np.memmap(file, float, "r+") == RANK + 0.5).all())

    def test_numbers_that_the_function_in_the_middle_sets(self):
        self.save({"n": 1, "text": "a"})
        state = {"n": 0, "text": ""}
        self.restore(state, when_values_restored=lambda: state.update(n=state["n"] + 5, text=state["text"] + "b"))
        self.assertEqual(state, {"n": 6, "text": "ab"})

    def test_a_value_that_one_rank_cannot_load(self):
        def load(data):
            if RANK == SIZE - 1:
                raise KeyError("unknown")

        state = {"own": reprieve.custom(lambda: b"x", load)}
        self.save(state)
        self.refused_later(of_last(KeyError), "unknown", state, lambda _: None, steps=1_000_000)
        with self.manager(state) as manager:
            with self.assertRaisesRegex(of_last(KeyError), "unknown|has raised an error"):
                manager.restore_latest()

    def test_a_manager_whose_state_does_not_fit_on_one_rank(self):
        state = {"n": 1}
        with self.manager(state) as manager:
            manager.save(1)
            state["n"] = 1.5 if RANK == SIZE - 1 else 2
            with self.assertRaises(of_last(reprieve.UsageError)) as caught:
                manager.save(2)
            if RANK < SIZE - 1:
                self.assertEqual(caught.exception.origin_rank, SIZE - 1)
            state["n"] = 3
            manager.save(3)
            self.assertEqual([info.number for info in manager.checkpoints()], [1, 3])

    def test_manager(self):
        state = {"n": 1, "w": np.arange(3.0)}
        with self.manager(state) as manager:
            self.assertIsNone(manager.restore_latest())
            self.assertEqual(manager.save(), 1)
            state["n"] = 2
            manager.save(7)
            state["n"] = 3
            manager.save_in_background(9)
            manager.finish_background_save()
            state["n"], state["w"][:] = 0, 0
            self.assertEqual([info.number for info in manager.checkpoints()], [1, 7, 9])
            self.assertEqual(manager.restore_latest().number, 9)
            self.assertEqual((state["n"], list(state["w"])), (3, [0, 1, 2]))
            manager.restore(manager.checkpoints()[0].path)
            self.assertEqual(state["n"], 1)
            with self.assertRaisesRegex(reprieve.StorageError, "nothing"):
                manager.restore("/nothing.h5")
        with self.assertRaisesRegex(reprieve.UsageError, r"the manager is closed \[RPV-0503\]$"):
            manager.save()

    def test_constants(self):
        constants = {"case": "cavity", "n": 5, "re": 0.5}
        self.save({"x": 1.0}, constants=constants)
        self.restore({"x": 1.0}, constants=constants)
        self.refused(reprieve.MismatchError, "tube", {"x": 1.0}, constants=constants | {"case": "tube"})
