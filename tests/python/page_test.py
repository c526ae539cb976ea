# SPDX-License-Identifier: BSD-3-Clause
"""The code of apps/guide/python.md."""

import os
import pathlib
import signal
import sys

import numpy as np
import reprieve
from mpi4py import MPI
from support import QUIET, RANK, SIZE, Case


def advance(u):
    return u + 1


class Page(Case):
    def setUp(self):
        super().setUp()
        os.environ["REPRIEVE_LOG_LEVEL"] = "error"
        before = os.getcwd()
        os.chdir(self.directory)
        self.addCleanup(os.environ.pop, "REPRIEVE_LOG_LEVEL")
        self.addCleanup(os.chdir, before)

    def test_ten_lines(self):
        n, rows = 4 * SIZE, 4
        first = 4 * RANK
        u = np.zeros((rows + 2, n))
        steps, dt = 5, 0.5

        state = reprieve.State(
            u=reprieve.distributed(u, shape=(n, n), offset=(first, 0), ghost=(1, 0), units="K", dims=("y", "x")),
            time=0.0,
            rng=reprieve.per_rank(np.random.default_rng(MPI.COMM_WORLD.rank)),
        )
        with reprieve.Handler(MPI.COMM_WORLD, "checkpoints", state) as handler:
            for step in handler.steps(steps):
                state.u = advance(state.u)
                state.time += dt

        self.assertEqual(state.time, 2.5)
        with reprieve.Handler(MPI.COMM_WORLD, "other", state) as handler:
            handler.request_checkpoint()
            handler.boundary()
        MPI.COMM_WORLD.Barrier()

        with reprieve.open("other") as checkpoint:  # a file, or a directory: its newest one
            u = checkpoint["u"]
            print(u.shape, u.units, u.boxes[0])
            row = u[3, :]  # reads this row alone
            time = checkpoint["time"].value
            engines = checkpoint["rng"].value  # per-rank: a list of all ranks' values
            checkpoint.verify()  # CorruptError names rank and elements
            data = checkpoint.to_xarray()
        print(float(data["u"].max()))  # it has the file open for itself

        self.assertEqual((len(row), time, len(engines)), (n, 2.5, SIZE))
        self.assertEqual((data["u"].dims, float(data["u"].max())), (("y", "x"), 5.0))

    def test_own_order(self):
        state = {"n": 0}
        steps, settings = 1000, QUIET

        def evaluate():
            if RANK == 0:
                os.kill(os.getpid(), signal.SIGTERM)

        def close_output():
            pass

        with reprieve.Handler(MPI.COMM_WORLD, "checkpoints", state, return_when_saved=True) as handler:
            for step in handler.steps(steps):
                if handler.preempted:  # the state is saved; the answer is the same on every rank
                    break
                state["n"] += 1
                if step % 50 == 0:
                    evaluate()
        close_output()
        with self.assertRaises(SystemExit) as caught:
            sys.exit(handler.exit_code)  # 42, or 0 if the loop came to its end

        self.assertEqual(caught.exception.code, 42)
        pathlib.Path("input.json").write_text("{}")
        MPI.COMM_WORLD.Barrier()

        with reprieve.Handler(
            MPI.COMM_WORLD,
            "others",
            state,
            settings={"termination": {"save_every_s": 600}, "checkpoints": {"background": True}},
            step=lambda: state["n"],  # the program's own count names the checkpoints
            watcher=lambda: os.path.exists("/tmp/stop-here") and "somebody wants the machine",
            constants={"case": "cavity", "input": pathlib.Path("input.json")},
        ) as handler:
            for step in handler.steps(10):
                state["n"] += 1

        self.assertGreaterEqual(state["n"], 10)
