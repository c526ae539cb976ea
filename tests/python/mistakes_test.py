"""Mistakes: each is an error of the right class on every rank, also if it is made on one rank only."""

import gc
import os

import numpy as np
import reprieve
from support import COMM, QUIET, RANK, SIZE, Case


class Mistakes(Case):
    def refused(self, kind, text, state=None, **arguments):
        with self.assertRaisesRegex(kind, text) as caught:
            self.handler({"x": 1.0} if state is None else state, **arguments)
        return caught.exception

    def test_one_rank_makes_it(self):
        state = {"x": object() if RANK == SIZE - 1 else 1.0}
        error = self.refused(reprieve.UsageError, r"state\['x'\]: .*builtins.object cannot be saved", state)
        self.assertEqual(error.origin_rank, SIZE - 1)
        self.assertEqual(error.code, "usage")
        self.assertEqual(error.__cause__ is not None, RANK == SIZE - 1)

    def test_names(self):
        self.refused(reprieve.UsageError, r"state\[3\]: names .*pickled", {3: 1.0})
        self.refused(reprieve.UsageError, r"state\['a/b'\]", {"a/b": 1.0})
        self.refused(reprieve.UsageError, "null byte", {"a\0b": 1.0})
        self.refused(reprieve.UsageError, "pass a dictionary", [1.0])

    def test_settings(self):
        self.refused(reprieve.ConfigError, "grace_perod_s", settings={"termination": {"grace_perod_s": 3}})
        self.refused(reprieve.ConfigError, "max_to_keep", settings={"checkpoints.max_to_keep": -3})
        self.refused(reprieve.StorageError, "nowhere.json", settings="/nowhere.json")
        self.refused(reprieve.UsageError, "settings is a int", settings=5)
        self.refused(reprieve.UsageError, "exit is 'bye'", exit="bye")

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

    def test_a_directory_that_cannot_be(self):
        with self.assertRaises(reprieve.StorageError):
            reprieve.Handler(COMM, "/dev/null/x", {"x": 1.0}, settings=QUIET)

    def test_another_state(self):
        self.save({"x": 1.0, "w": np.zeros(3)})
        self.refused(reprieve.MismatchError, "'w'", {"x": 1.0, "w": np.zeros(4)})
        self.refused(reprieve.MismatchError, "'y'", {"x": 1.0, "w": np.zeros(3), "y": 1})

    def test_a_damaged_file(self):
        self.save({"w": np.arange(1000.0)})
        if RANK == 0:
            for name in os.listdir(self.directory):
                if name.startswith("ckpt") and name.endswith(".h5"):
                    with open(os.path.join(self.directory, name), "r+b") as file:
                        file.truncate(5000)
        COMM.Barrier()
        self.refused(reprieve.CorruptError, "ckpt", {"w": np.zeros(1000)})

    def test_numbers_that_do_not_fit(self):
        for start, later in ((1, 2.5), (1, 2**70), (True, 2), (1.0, "x"), (1.0, None)):
            state = {"x": start}
            with self.assertRaisesRegex(reprieve.UsageError, r"state\['x'\] was registered as"):
                with self.handler(state) as handler:
                    for _ in handler.steps(2):
                        state["x"] = later

    def test_what_is_registered_lives_as_long_as_the_handler(self):
        with self.handler({"w": np.arange(1e5), "u": reprieve.per_rank(np.arange(1e5))}) as handler:
            gc.collect()
            for _ in handler.steps(2):
                handler.request_checkpoint()
        state = self.restore({"w": np.zeros(100_000), "u": reprieve.per_rank(np.zeros(100_000))})
        np.testing.assert_array_equal(state["w"], np.arange(1e5))
        np.testing.assert_array_equal(state["u"].value, np.arange(1e5))
