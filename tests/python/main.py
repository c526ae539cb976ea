# SPDX-License-Identifier: BSD-3-Clause
"""The tests of the Python module that need several ranks: `mpirun -n 3 python3 main.py [names of tests]`.

Every rank runs the same tests in the same order. The first failure on any rank ends the job. Exit code 77: mpi4py or numpy is
not installed (apps/install-packages.sh tests); for tests of their own PyTorch (torch), or PETSc and DOLFINx (petsc).
"""

import importlib
import sys
import traceback
import unittest

try:
    import numpy  # noqa: F401
    import reprieve

    reprieve.watch_signals()
    from mpi4py import MPI
except ImportError as error:
    if "reprieve" in str(error):
        raise
    print("skipped:", error)
    sys.exit(77)

FILES = ["state_test", "types_test", "loop_test", "restore_test", "open_test", "page_test", "mistakes_test", "device_test"]


class Result(unittest.TestResult):
    """Ends the job at the first failure: the other ranks may wait in a collective call."""

    def startTest(self, test):
        super().startTest(test)
        if MPI.COMM_WORLD.rank == 0:
            print(test.id(), flush=True)

    def addError(self, test, err):
        text = "".join(traceback.format_exception(*err))
        print(f"[rank {MPI.COMM_WORLD.rank}] {test.id()}\n{text}", flush=True)
        MPI.COMM_WORLD.Abort(1)

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(subtest, err)


def load(names):
    """The tests; exit code 77 if one of the files needs a module that is not installed."""
    for name in names:
        try:
            importlib.import_module(name.split(".")[0])
        except ModuleNotFoundError as error:
            print("skipped:", error)
            sys.exit(77)
    return unittest.defaultTestLoader.loadTestsFromNames(names)


if __name__ == "__main__":
    result = load(sys.argv[1:] or FILES).run(Result())
    MPI.COMM_WORLD.Barrier()
    if MPI.COMM_WORLD.rank == 0:
        print(f"{result.testsRun} tests on {MPI.COMM_WORLD.size} ranks")
    if result.errors or result.testsRun == 0:
        MPI.COMM_WORLD.Abort(1)
