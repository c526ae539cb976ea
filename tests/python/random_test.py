# SPDX-License-Identifier: BSD-3-Clause
"""Whole programs that are preempted and killed at random, and started again until they end: as if nothing had happened.

usage: random_test.py BUILD_DIRECTORY heat|torch [SCENARIOS [SEED]]
heat is the program of the tutorial, restarted on one to three ranks; torch the training of apps/guide/pytorch, on two.
Exit code 77: mpi4py, numpy or torch is not installed.
"""

import collections
import importlib.util
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

from jobs import TUTORIAL, Job

BUILD = pathlib.Path(sys.argv[1]).resolve()
KIND = sys.argv[2]
SCENARIOS = int(sys.argv[3]) if len(sys.argv) > 3 else 1
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(2**32)
ROOT = TUTORIAL.parents[2]
PROGRAMS = {
    "heat": ([TUTORIAL / "heat.py", 3000], (1, 2, 3), 200),
    "torch": ([TUTORIAL.parent / "pytorch" / "train.py", ROOT / "configs" / "digits.csv.gz", 10], (2,), 40),
}
for module in ("mpi4py", "numpy", *(["torch"] if KIND == "torch" else [])):
    if importlib.util.find_spec(module) is None:
        print(f"skipped: {module} is not installed (apps/install-packages.sh tests torch)")
        sys.exit(77)
COMMAND, RANKS, SAVE_EVERY = PROGRAMS[KIND]


def fail(text, job=None):
    print(f"seed {SEED}: {text}", *([job.out, job.err] if job else []), sep="\n", flush=True)
    sys.exit(1)


def start(directory, ranks):
    return Job(BUILD, directory, ranks, *COMMAND, TERMINATION_SAVE_EVERY_STEPS=str(SAVE_EVERY), LOG_LEVEL="warning")


def disturb(job, chance):
    """Waits for some time, and does something to the job if it still runs. Gives what, and the codes that may follow."""
    end = time.monotonic() + chance.uniform(0, 1.5)
    while time.monotonic() < end and job.process.poll() is None:
        time.sleep(0.01)
    ranks = job.ranks()
    if job.process.poll() is not None or not ranks:
        return "nothing", {0}
    way = chance.choice(["SIGTERM to a rank", "SIGTERM to all", "SIGUSR1 to mpirun", "SIGKILL of a rank", "SIGKILL of mpirun"])
    victims = ranks if way.endswith("all") else [job.process.pid if way.endswith("mpirun") else chance.choice(ranks)]
    number = signal.Signals[way.split()[0]]
    for victim in victims:
        try:
            os.kill(victim, number)
        except ProcessLookupError:
            pass
    return way, {0, 137, 246, -9} if number == signal.SIGKILL else {0, 42}


def works_in(process, directory):
    try:
        return pathlib.Path(os.readlink(process / "cwd")) == directory
    except OSError:
        return False


def wait_for_the_dead(directory):
    """Ranks whose mpirun was killed live on for a moment; a run that starts meanwhile is refused."""
    end = time.monotonic() + 30
    while any(works_in(process, directory) for process in pathlib.Path("/proc").glob("[0-9]*")):
        if time.monotonic() > end:
            fail("processes of a killed run do not end")
        time.sleep(0.05)


def run(job, starts, chance):
    """One start, disturbed if there is a `chance`. Gives its code, and what was done to it."""
    way, codes = "nothing", {0}
    if chance is not None:
        job.wait_until(lambda: job.starts() > starts or job.process.poll() is not None)
        way, codes = disturb(job, chance)
    code = job.wait()
    if code not in codes:
        fail(f"code {code} after {way}", job)
    return code, way


def scenario(number, expected):
    """Gives what was done to the runs."""
    chance = random.Random(f"{SEED} {number}")
    done = []
    with tempfile.TemporaryDirectory(prefix="reprieve-python-") as place:
        directory = pathlib.Path(place)
        for disturbances in range(chance.randint(1, 4), -1, -1):
            job = start(directory, chance.choice(RANKS))
            code, way = run(job, len(done), chance if disturbances else None)
            if code == 0:
                break
            done.append(way)
            wait_for_the_dead(directory)
    if job.out != expected:
        fail(f"scenario {number}: another end after {done}: {job.out} instead of {expected}", job)
    return done


def main():
    with tempfile.TemporaryDirectory(prefix="reprieve-python-") as place:
        job = start(place, RANKS[-1])
        if job.wait() != 0:
            fail("it does not end undisturbed", job)
        expected = job.out
    everything = collections.Counter()
    for number in range(SCENARIOS):
        done = scenario(number, expected)
        everything.update(done)
        print(f"{number + 1} of {SCENARIOS} equal: {done}", flush=True)
    print(f"seed {SEED}: {SCENARIOS} of {SCENARIOS} equal, after {dict(everything)}: {expected}")


main()
