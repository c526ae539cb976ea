# SPDX-License-Identifier: BSD-3-Clause
"""Whole programs: real signals, kills, restarts on other numbers of ranks, and the same bits as in C++.

usage: process_test.py BUILD_DIRECTORY [names of tests]
Exit code 77: mpi4py or numpy is not installed.
"""

import importlib.util
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import unittest
import unittest.mock

from jobs import TUTORIAL, Job, children

if importlib.util.find_spec("mpi4py") is None or importlib.util.find_spec("numpy") is None:
    print("skipped: mpi4py or numpy is not installed")
    sys.exit(77)

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
if not (BUILD / "bin" / "tutorial_cpp").exists():
    print("skipped: the programs of the tutorial are not built")
    sys.exit(77)
HERE = pathlib.Path(__file__).resolve().parent
STEPS = 2500  # more than a second, in which the signals come


class Programs(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="reprieve-python-")
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name)

    def run_job(self, ranks, *command, code=0, **environment):
        job = Job(BUILD, self.directory, ranks, *command, **environment)
        self.assertEqual(job.wait(), code, job.out + job.err)
        return job

    def heat(self, ranks, program=TUTORIAL / "heat.py", steps=STEPS, **environment):
        return self.run_job(ranks, program, steps, **environment).out

    def expected(self, steps=STEPS):
        """The line of a run of C++ that nothing disturbs."""
        if not hasattr(Programs, "sum_of_cpp"):
            Programs.sum_of_cpp = self.heat(1, BUILD / "bin" / "tutorial_cpp_before")
        return Programs.sum_of_cpp

    def test_the_tutorial_before_is_that_of_cpp(self):
        self.assertEqual(self.heat(2, TUTORIAL / "heat_before.py"), self.expected())

    def preempt(self, ranks, send):
        job = Job(BUILD, self.directory, ranks, TUTORIAL / "heat.py", STEPS)
        job.wait_until(job.is_ready)
        time.sleep(0.05)
        send(job)
        self.assertEqual(job.wait(), 42, job.out + job.err)
        self.assertEqual(job.out, "")

    def test_sigterm_to_a_rank_and_more_ranks(self):
        self.preempt(2, lambda job: os.kill(job.ranks()[1], signal.SIGTERM))
        self.assertEqual(self.heat(3), self.expected())

    def test_a_signal_to_mpirun_and_cpp_goes_on(self):
        self.preempt(2, lambda job: job.process.send_signal(signal.SIGUSR1))
        self.assertEqual(self.heat(1, BUILD / "bin" / "tutorial_cpp"), self.expected())

    def test_an_interrupt_of_a_batch_system(self):
        with unittest.mock.patch.dict(os.environ, LSB_JOBID="7"):
            self.preempt(2, lambda job: os.kill(job.ranks()[1], signal.SIGINT))
        self.assertEqual(self.heat(2), self.expected())

    def test_a_killed_rank_and_fewer_ranks(self):
        often = {"TERMINATION_SAVE_EVERY_STEPS": "150"}
        job = Job(BUILD, self.directory, 2, TUTORIAL / "heat.py", STEPS, **often)
        job.wait_until(lambda: list(self.directory.glob("checkpoints/ckpt-*.h5")))
        os.kill(job.ranks()[0], signal.SIGKILL)
        self.assertNotIn(job.wait(), (0, 42))
        self.assertEqual(self.heat(1), self.expected())

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "needs apps/install-packages.sh torch")
    def test_a_training_with_pytorch(self):
        train = (TUTORIAL.parent / "pytorch" / "train.py", TUTORIAL.parents[2] / "configs" / "digits.csv.gz", 10)
        expected = self.run_job(2, *train).out
        shutil.rmtree(self.directory / "checkpoints")
        job = Job(BUILD, self.directory, 2, *train)
        job.wait_until(lambda: job.is_ready() and all(len(children(rank)) == 2 for rank in job.ranks()))
        for rank in job.ranks():  # as a scheduler does, which knows nothing of workers
            for process in (*children(rank), rank):
                os.kill(process, signal.SIGTERM)
        self.assertEqual(job.wait(), 42, job.out + job.err)
        self.assertEqual(self.run_job(2, *train).out, expected)

    def ends(self, way, code):
        return self.run_job(2, HERE / "programs" / "ends.py", "checkpoints", way, code=code)

    def test_leaves_at_once_with_what_was_printed(self):
        self.assertIn("printed before the end", self.ends("leave", 42).out)

    def test_preempted_that_nobody_catches(self):
        job = self.ends("raise", 42)
        self.assertIn("printed before the end", job.out)
        self.assertNotIn("Traceback", job.err)

    def test_a_way_to_leave_of_its_own(self):
        self.assertIn("leaving 42 ckpt-", self.ends("exit function", 7).out)

    def test_an_error_that_nobody_catches(self):
        job = self.ends("error", 1)
        self.assertIn("ValueError: all is lost", job.err)

    def test_a_rank_that_does_not_come(self):
        self.assertRegex(self.ends("missing", 1).err, "UnresponsiveError: .*rank 1")

    def test_a_rank_that_does_not_come_to_the_end(self):
        self.assertRegex(self.ends("missing at the end", 1).err, "UnresponsiveError: .*rank 1")

    def test_a_rank_that_never_opens_the_handler(self):
        self.assertRegex(self.ends("never opens", 1).err, "UnresponsiveError: start: no answer within 1 s from rank 1")

    def test_what_nobody_closes_is_closed(self):
        self.assertIn("the handler was not closed", self.ends("nobody closes", 0).err)


if __name__ == "__main__":
    unittest.main()
