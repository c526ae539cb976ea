# SPDX-License-Identifier: BSD-3-Clause
"""Ends in a way that it is told: `ends.py DIRECTORY WAY`. Rank 0 says how it went."""

import os
import signal
import sys
import time

import reprieve

reprieve.watch_signals()
from mpi4py import MPI

comm = MPI.COMM_WORLD
directory, way = sys.argv[1:]
state = {"n": 0}


def steps(handler):
    for step in handler.steps(100_000):
        state["n"] += 1
        if step == 3 and comm.rank == comm.size - 1:
            print("printed before the end")  # into a buffer
            if way == "error":
                raise ValueError("all is lost")
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.001)


if way == "nobody closes":
    handler = reprieve.Handler(comm, directory, state)
    sys.exit(0)
if way == "error":  # without a `with`
    steps(reprieve.Handler(comm, directory, state))
if way == "exit function":

    def leave(_comm, code, path):
        print(f"leaving {code} {os.path.basename(path)[:5]}", flush=True)  # in one piece, beside the other rank
        comm.Barrier()
        os._exit(7)

    with reprieve.Handler(comm, directory, state, exit=leave) as handler:
        steps(handler)
if way == "never opens":
    if comm.rank == comm.size - 1:
        time.sleep(1000)
    reprieve.Handler(comm, directory, state, settings={"termination.peer_timeout_s": 1})
if way.startswith("missing"):
    settings = {"termination": {"peer_timeout_s": 5, "agreement": "boundaries"}}
    with reprieve.Handler(comm, directory, state, settings=settings) as handler:
        if comm.rank == comm.size - 1:
            time.sleep(1000)
        if way == "missing":
            for _ in handler.steps(100_000):
                time.sleep(0.001)
    sys.exit(0)
with reprieve.Handler(comm, directory, state, exit=way) as handler:
    steps(handler)
