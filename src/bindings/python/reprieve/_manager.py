# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints without a time loop: `Manager`."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _open
from ._errors import ClusterError
from ._markers import State
from ._native import NO_LIMIT, CheckpointInfoStruct, function
from ._open import CheckpointInfo
from ._registry import checked_range


#: How long ranks wait for each other before a call, which then waits as its settings say. In seconds.
_LONGEST_WAIT_S = 10.0


def _checked(number: int) -> int:
    return checked_range(number, "the number of the checkpoint", 0, NO_LIMIT - 1)


class Manager(_open.Opened):
    """The checkpoints of one directory, for programs that save and restore when they like.

        with reprieve.Manager(MPI.COMM_WORLD, "checkpoints", state) as manager:
            manager.restore_latest()
            manager.save(5)

    All calls are collective but where they say otherwise. Arguments are those of `Handler`.
    """

    _kind = "manager"

    def __init__(
        self,
        comm: Any,
        directory: str | os.PathLike[str] | None,
        state: State | dict[str, Any],
        *,
        settings: Any = None,
        after_commit: Callable[[str], None] | None = None,
        when_values_restored: Callable[[], None] | None = None,
        constants: Mapping[str, Any] | None = None,
        dropped: Sequence[str] = (),
        on_migration: Callable[[Any], None] | None = None,
    ) -> None:
        def configure(config: Any) -> None:
            config.set_settings(settings)
            config.set_functions(after_commit=after_commit)

        self._open(comm, directory, state, configure, when_values_restored, constants, dropped, on_migration)
        self._comm = comm
        self._pending: list[Any] = []

    def _call(self, name: str, *arguments: Any) -> None:
        self._need()
        self._on_all_ranks(self._registry.refresh)
        self._check(function("manager_" + name)(self._handle, *arguments))

    def _on_all_ranks(self, run: Callable[[], None]) -> None:
        """Runs it. What it raises on one rank is a ClusterError on the others, which do not wait for that rank then."""
        from mpi4py import MPI

        error = None
        try:
            run()
        except BaseException as raised:
            error = raised
        failed = np.array([-1 if error is None else self._comm.rank], np.int32)
        result = np.zeros(1, np.int32)
        request = self._comm.Iallreduce([failed, MPI.INT], [result, MPI.INT], op=MPI.MAX)
        end = time.monotonic() + _LONGEST_WAIT_S
        agreed = request.Test()
        while not agreed and time.monotonic() < end:
            time.sleep(0.0001)
            agreed = request.Test()
        if not agreed:
            self._pending.append((request, failed, result))  # the call of C will report which rank is missing
        if error is not None:
            raise error
        if agreed and result[0] >= 0:
            rank = int(result[0])
            raise ClusterError(f"rank {rank} cannot take part, and has raised an error that says why", origin_rank=rank)

    def save(self, number: int | None = None) -> int:
        """Writes the state as a checkpoint of that number; None: one that follows all that are there. Gives the number."""
        taken = ctypes.c_uint64(0 if number is None else _checked(number))
        if number is None:
            self._call("save_next", ctypes.byref(taken))
        else:
            self._call("save", taken)
        return taken.value

    def save_in_background(self, number: int) -> None:
        """Copies the state and returns; a thread writes the copy. The next call that saves or restores commits it."""
        self._call("save_in_background", _checked(number))

    def finish_background_save(self) -> None:
        """Waits for the threads of all ranks, and commits."""
        self._call("finish_background_save")

    def local_copy(self, number: int | None = None) -> bool:
        """Copies the state into the memory of the nodes (setting checkpoints.local_directory); a thread completes the copy.

        `number` is that of the checkpoint that it would be: who gives numbers to `save` gives them here too. False if it was left out, since the one before is not complete yet or there is no room. A handler does this by
        itself.
        """
        taken = ctypes.c_int()
        if number is None:
            self._call("local_copy_next", ctypes.byref(taken))
        else:
            self._call("local_copy", _checked(number), ctypes.byref(taken))
        return bool(taken.value)

    def restore_latest(self) -> CheckpointInfo | None:
        """Restores the newest valid checkpoint, and returns which one it was; None if there is none."""
        found, struct = ctypes.c_int(), CheckpointInfoStruct()
        self._call("restore_latest", ctypes.byref(found), ctypes.byref(struct))
        if not found.value:
            return None
        self._on_all_ranks(self._registry.restored)
        return CheckpointInfo.of(struct)

    def restore(self, file: str | os.PathLike[str]) -> None:
        """Restores one file."""
        self._call("restore", os.fsencode(file))
        self._on_all_ranks(self._registry.restored)

    def checkpoints(self) -> list[CheckpointInfo]:
        """All that are committed, oldest first."""
        count, first = ctypes.c_size_t(), ctypes.POINTER(CheckpointInfoStruct)()
        self._call("checkpoints", ctypes.byref(count), ctypes.byref(first))
        return [CheckpointInfo.of(first[i]) for i in range(count.value)]
