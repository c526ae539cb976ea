"""Checkpoints without a time loop: `Manager`."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _open
from ._facts import CheckpointInfo
from ._native import CheckpointInfoStruct, function


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
        state: dict[str, Any],
        *,
        settings: Any = None,
        when_values_restored: Callable[[], None] | None = None,
        constants: Mapping[str, Any] | None = None,
        dropped: Sequence[str] = (),
        on_migration: Callable[[Any], None] | None = None,
    ) -> None:
        self._open(
            comm,
            directory,
            state,
            lambda config: config.set_settings(settings),
            when_values_restored=when_values_restored,
            constants=constants,
            dropped=dropped,
            on_migration=on_migration,
        )

    def _call(self, name: str, *arguments: Any) -> None:
        self._need()
        self._registry.refresh()
        self._check(function("manager_" + name)(self._handle, *arguments))

    def save(self, number: int | None = None) -> int:
        """Writes the state as a checkpoint of that number; None: one that follows all that are there. Gives the number."""
        taken = ctypes.c_uint64(number or 0)
        if number is None:
            self._call("save_next", ctypes.byref(taken))
        else:
            self._call("save", taken)
        return taken.value

    def save_in_background(self, number: int) -> None:
        """Copies the state and returns; a thread writes the copy. The next call that saves or restores commits it."""
        self._call("save_in_background", number)

    def finish_background_save(self) -> None:
        """Waits for the threads of all ranks, and commits."""
        self._call("finish_background_save")

    def restore_latest(self) -> CheckpointInfo | None:
        """Restores the newest valid checkpoint, and tells which one it was; None if there is none."""
        found, struct = ctypes.c_int(), CheckpointInfoStruct()
        self._call("restore_latest", ctypes.byref(found), ctypes.byref(struct))
        if not found.value:
            return None
        self._registry.restored()
        return CheckpointInfo.of(struct)

    def restore(self, file: str | os.PathLike[str]) -> None:
        """Restores one file."""
        self._call("restore", os.fsencode(file))
        self._registry.restored()

    def checkpoints(self) -> list[CheckpointInfo]:
        """All that are committed, oldest first."""
        count, first = ctypes.c_size_t(), ctypes.POINTER(CheckpointInfoStruct)()
        self._call("checkpoints", ctypes.byref(count), ctypes.byref(first))
        return [CheckpointInfo.of(first[i]) for i in range(count.value)]
