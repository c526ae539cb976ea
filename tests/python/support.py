# SPDX-License-Identifier: BSD-3-Clause
"""What the tests under mpirun have in common."""

import shutil
import tempfile
import unittest

import numpy as np
import reprieve
from mpi4py import MPI

COMM = MPI.COMM_WORLD
RANK = COMM.rank
SIZE = COMM.size
QUIET = {"log": {"level": "error", "other_ranks": "error"}}


def of_last(kind):
    """The error of this rank, if the last one meets that kind: the others get the message of the last one."""
    return kind if RANK == SIZE - 1 else reprieve.ClusterError


class Case(unittest.TestCase):
    """A test with a directory that all ranks share."""

    def setUp(self):
        self.fresh()

    def fresh(self):
        """Another directory from here on."""
        self.directory = COMM.bcast(tempfile.mkdtemp(prefix="reprieve-python-") if RANK == 0 else None)
        if RANK == 0:
            self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.addCleanup(COMM.Barrier)  # before that

    def handler(self, state, settings={}, **arguments):
        """With a quiet log: settings in a dictionary are added to that."""
        settings = QUIET | settings if isinstance(settings, dict) else settings
        return reprieve.Handler(COMM, self.directory, state, settings=settings, **arguments)

    def manager(self, state, **arguments):
        return reprieve.Manager(COMM, self.directory, state, settings=QUIET, **arguments)

    def on(self, ranks, run):
        """Runs it on the first ranks, with the communicator of these."""
        part = COMM.Split(0 if RANK < ranks else 1, RANK)
        if RANK < ranks:
            run(part)
        part.Free()
        COMM.Barrier()

    def save(self, state, **arguments):
        """Makes one step, and leaves a checkpoint of what is in the state."""
        with self.handler(state, **arguments) as handler:
            for _ in handler.steps(1):
                handler.request_checkpoint()
        assert handler._handle.value is None

    def save_changed(self, state, change, steps=1):
        """Registers a state, then changes it in each step, then saves."""
        with self.handler(state) as handler:
            for _ in handler.steps(steps):
                change(state)
            handler.request_checkpoint()
            handler.boundary()

    def restore(self, state, **arguments):
        """A new start, with other values at first."""
        with self.handler(state, **arguments) as handler:
            self.assertIsNotNone(handler.restored_from)
        return state

    def comes_back(self, state, *arrays):
        """Saves the state, and restores it into the same arrays to the bit; they have other elements meanwhile."""
        expected = [array.tobytes() for array in arrays]
        self.save(state)
        for array in arrays:
            array[...] = np.frombuffer(b"\xff" * array.itemsize, array.dtype)[0]
        self.restore(state)
        for array, bits in zip(arrays, expected):
            self.assertEqual(array.tobytes(), bits, array.dtype)

    def refused(self, kind, text, state, **arguments):
        """Such a state is an error on every rank. Gives the error."""
        with self.assertRaisesRegex(kind, text) as caught:
            self.handler(state, **arguments)
        return caught.exception

    def refused_later(self, kind, text, state, change, steps=2):
        """A state that is changed so in each step is an error at one of the next boundaries."""
        with self.assertRaisesRegex(kind, text):
            with self.handler(state) as handler:
                for _ in handler.steps(steps):
                    change(state)
