# SPDX-License-Identifier: BSD-3-Clause
"""Preemption-safe checkpoints for MPI programs, in Python.

When any rank learns that the job is about to end, all ranks agree on one step, write one checkpoint together, and leave with
a code that means: saved, start me again. The next start resumes at that step, on the same number of ranks or another one.

    import reprieve
    reprieve.watch_signals()       # before MPI starts: a notice that comes while the program starts is kept
    from mpi4py import MPI

    state = reprieve.State(u=reprieve.distributed(u, shape=(n, n), offset=(first, 0), ghost=(1, 0)), time=0.0)
    with reprieve.Handler(MPI.COMM_WORLD, "checkpoints", state) as handler:
        for step in handler.steps(1000):
            state.u = advance(state.u)  # a name that is bound again is seen
            state.time += dt
"""

from ._errors import (
    ClusterError,
    ConfigError,
    CorruptError,
    Error,
    InternalError,
    LockedError,
    MismatchError,
    MpiError,
    NoMemoryError,
    NoPermissionError,
    NoSpaceError,
    Preempted,
    StorageError,
    UnresponsiveError,
    UsageError,
)
from ._handler import Handler, run_resilient, unwatch_signals, watch_signals
from ._manager import CheckpointInfo, Manager, Notice, SaveReport
from ._markers import State, custom, distributed, per_rank, pickled, replicated
from ._native import version_details
from ._reader import StoredCheckpoint, StoredGroup, StoredVariable, open
from ._registry import Stored

__all__ = [
    "CheckpointInfo",
    "ClusterError",
    "ConfigError",
    "CorruptError",
    "Error",
    "Handler",
    "InternalError",
    "LockedError",
    "Manager",
    "MismatchError",
    "MpiError",
    "NoMemoryError",
    "NoPermissionError",
    "NoSpaceError",
    "Notice",
    "Preempted",
    "SaveReport",
    "State",
    "StorageError",
    "Stored",
    "StoredCheckpoint",
    "StoredGroup",
    "StoredVariable",
    "UnresponsiveError",
    "UsageError",
    "custom",
    "distributed",
    "open",
    "per_rank",
    "pickled",
    "replicated",
    "run_resilient",
    "unwatch_signals",
    "version_details",
    "watch_signals",
]
