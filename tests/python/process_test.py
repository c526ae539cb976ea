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
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

if importlib.util.find_spec("mpi4py") is None or importlib.util.find_spec("numpy") is None:
    print("skipped: mpi4py or numpy is not installed")
    sys.exit(77)

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
if not (BUILD / "bin" / "tutorial_cpp").exists():
    print("skipped: the programs of the tutorial are not built")
    sys.exit(77)
HERE = pathlib.Path(__file__).resolve().parent
TUTORIAL = HERE.parents[1] / "apps" / "guide" / "tutorial"
MPIRUN = os.environ.get("MPIRUN", "mpirun --oversubscribe").split()
LIMIT = 60
STEPS = 2500  # more than a second, in which the signals come


def children(process):
    """The processes that a process has started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if parent == str(process):
                found.append(int(entry.name))
        except (OSError, IndexError):
            pass
    return sorted(found)


class Job:
    """A program under mpirun, in a directory of its own."""

    def __init__(self, directory, ranks, *command, **environment):
        command = [str(each) for each in command]
        if command[0].endswith(".py"):
            command.insert(0, sys.executable)
        environment = {f"REPRIEVE_{name}": value for name, value in environment.items()}
        environment |= {"PYTHONPATH": str(BUILD / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [*MPIRUN, "-n", str(ranks), *command],
            cwd=directory,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.directory = pathlib.Path(directory)

    def wait(self):
        try:
            self.out, self.err = self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.out, self.err = self.process.communicate()
            raise AssertionError(f"it hangs:\n{self.out}\n{self.err}") from None
        return self.process.returncode

    def ranks(self):
        """The processes of the ranks."""
        return children(self.process.pid)

    def wait_until(self, holds):
        end = time.monotonic() + LIMIT
        while not holds():
            if time.monotonic() > end or self.process.poll() is not None and not holds():
                raise AssertionError(f"it does not come so far: {self.wait()} {self.out} {self.err}")
            time.sleep(0.01)

    def is_ready(self):
        log = self.directory / "checkpoints" / "events.jsonl"
        return log.exists() and '"ready"' in log.read_text()


class Programs(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="reprieve-python-")
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name)

    def run_job(self, ranks, *command, code=0):
        job = Job(self.directory, ranks, *command)
        self.assertEqual(job.wait(), code, job.out + job.err)
        return job

    def heat(self, ranks, program=TUTORIAL / "heat.py"):
        return self.run_job(ranks, program, STEPS).out

    def expected(self):
        """The line of a run of C++ that nothing disturbs."""
        if not hasattr(Programs, "sum_of_cpp"):
            Programs.sum_of_cpp = self.heat(1, BUILD / "bin" / "tutorial_cpp_before")
        return Programs.sum_of_cpp

    def test_the_tutorial_before_is_that_of_cpp(self):
        self.assertEqual(self.heat(2, TUTORIAL / "heat_before.py"), self.expected())

    def preempt(self, ranks, send):
        job = Job(self.directory, ranks, TUTORIAL / "heat.py", STEPS)
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
        job = Job(self.directory, 2, TUTORIAL / "heat.py", STEPS, TERMINATION_SAVE_EVERY_STEPS="150")
        job.wait_until(lambda: list(self.directory.glob("checkpoints/ckpt-*.h5")))
        os.kill(job.ranks()[0], signal.SIGKILL)
        self.assertNotIn(job.wait(), (0, 42))
        self.assertEqual(self.heat(1), self.expected())

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "needs apps/install-packages.sh torch")
    def test_a_training_with_pytorch(self):
        train = (TUTORIAL.parent / "pytorch" / "train.py", TUTORIAL.parents[2] / "configs" / "digits.csv.gz", 10)
        expected = self.run_job(2, *train).out
        shutil.rmtree(self.directory / "checkpoints")
        job = Job(self.directory, 2, *train)
        job.wait_until(lambda: job.is_ready() and all(len(children(rank)) == 2 for rank in job.ranks()))
        for rank in job.ranks():  # as a scheduler does, which knows nothing of workers
            for process in (*children(rank), rank):
                os.kill(process, signal.SIGTERM)
        self.assertEqual(job.wait(), 42, job.out + job.err)
        self.assertEqual(self.run_job(2, *train).out, expected)

    def test_ways_to_end(self):
        """Of programs/ends.py: its code, and what it writes to stdout or stderr."""
        for way, code, stream, text in (
            ("leave", 42, "out", "printed before the end"),
            ("raise", 42, "out", "printed before the end"),
            ("exit function", 7, "out", "leaving 42 ckpt-"),
            ("error", 1, "err", "ValueError: all is lost"),
            ("missing", 1, "err", "UnresponsiveError: .*rank 1"),
            ("missing at the end", 1, "err", "UnresponsiveError: .*rank 1"),
            ("never opens", 1, "err", "UnresponsiveError: start: no answer within 1 s from rank 1"),
            ("nobody closes", 0, "err", "the handler was not closed"),
        ):
            with self.subTest(way):
                job = self.run_job(2, HERE / "programs" / "ends.py", way, way, code=code)
                self.assertRegex(getattr(job, stream), text)
                if code == 42:
                    self.assertNotIn("Traceback", job.err)


if __name__ == "__main__":
    unittest.main()
