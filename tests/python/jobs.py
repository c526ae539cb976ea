# SPDX-License-Identifier: BSD-3-Clause
"""Programs under mpirun, for the tests that start, preempt and kill whole ones."""

import os
import pathlib
import subprocess
import sys
import time

TUTORIAL = pathlib.Path(__file__).resolve().parents[2] / "apps" / "guide" / "tutorial"
MPIRUN = os.environ.get("MPIRUN", "mpirun --oversubscribe").split()
LIMIT = 60


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

    def __init__(self, build, directory, ranks, *command, **environment):
        command = [str(each) for each in command]
        if command[0].endswith(".py"):
            command.insert(0, sys.executable)
        environment = {f"REPRIEVE_{name}": value for name, value in environment.items()}
        environment |= {"PYTHONPATH": str(build / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
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
