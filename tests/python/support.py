# SPDX-License-Identifier: BSD-3-Clause
"""What the tests under mpirun have in common."""

import shutil
import tempfile
import unittest

import reprieve
from mpi4py import MPI

COMM = MPI.COMM_WORLD
RANK = COMM.rank
SIZE = COMM.size
QUIET = {"log": {"level": "error", "other_ranks": "error"}}


class Case(unittest.TestCase):
    """A test with a directory that all ranks share."""

    def setUp(self):
        self.directories = []
        self.fresh()

    def fresh(self):
        """Another directory from here on."""
        self.directory = COMM.bcast(tempfile.mkdtemp(prefix="reprieve-python-") if RANK == 0 else None)
        self.directories.append(self.directory)

    def tearDown(self):
        COMM.Barrier()
        if RANK == 0:
            for directory in self.directories:
                shutil.rmtree(directory, ignore_errors=True)

    def handler(self, state, **arguments):
        arguments.setdefault("settings", QUIET)
        return reprieve.Handler(COMM, self.directory, state, **arguments)

    def save(self, state, **arguments):
        """Makes one step, and leaves a checkpoint of what is in the state."""
        with self.handler(state, **arguments) as handler:
            for _ in handler.steps(1):
                handler.request_checkpoint()
        assert handler._handle.value is None

    def save_changed(self, state, change):
        """Registers a state, then changes it, then saves."""
        with self.handler(state) as handler:
            for _ in handler.steps(1):
                change(state)
            handler.request_checkpoint()
            handler.boundary()

    def restore(self, state, **arguments):
        """A new start, with other values at first."""
        with self.handler(state, **arguments) as handler:
            self.assertIsNotNone(handler.restored_from)
        return state
