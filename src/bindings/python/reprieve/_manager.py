# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints without a time loop: `Manager`. And what it has in common with handlers: how they are set up, opened,
closed, what happens if nobody closes them, and what they report.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import datetime
import os
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ._errors import ClusterError, Error, Preempted, UsageError, ranks_are_missing, ranks_are_there_again
from ._markers import State, dictionary_of
from ._native import NO_LIMIT, PREEMPTED, CheckpointInfoStruct, call, communicator, function
from ._registry import Registry, checked_range

#: How long ranks wait for each other before a call, which then waits as its settings say. In seconds.
_LONGEST_WAIT_S = 10.0
#: Exchanges that a rank did not come to: MPI may still write into their memory.
_pending: list[Any] = []


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """{"termination": {"grace_period_s": 30}} as {"termination.grace_period_s": "30"}."""
    result: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            result |= _flat(value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            result[prefix + key] = str(value).lower()
        elif isinstance(value, (list, tuple)):
            result[prefix + key] = ",".join(map(str, value))
        elif value is not None:  # None: what it is by default
            result[prefix + key] = str(value)
    return result


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "surrogateescape")


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """A checkpoint.

    Attributes:
        path: of the file.
        number: from its name.
        completed_steps: of the run at the save; None if it was saved without a handler.
        world_size: ranks that saved.
        time: of the save, in UTC.
        size_bytes: of the file.
        reason: "user", "periodic" or "preemption".
        files_directory: of the files that the program added, or None.
    """

    path: pathlib.Path
    number: int
    completed_steps: int | None
    world_size: int
    time: datetime.datetime
    size_bytes: int
    reason: str
    files_directory: pathlib.Path | None

    @staticmethod
    def of(struct: Any) -> CheckpointInfo:
        steps = None if struct.run_calls == NO_LIMIT else struct.run_calls
        time = datetime.datetime.fromtimestamp(struct.time_s, datetime.timezone.utc)
        files = pathlib.Path(_text(struct.files_directory)) if struct.files_directory else None
        path = pathlib.Path(_text(struct.path))
        return CheckpointInfo(
            path, struct.number, steps, struct.world_size, time, struct.size_bytes, _text(struct.reason), files
        )


@dataclasses.dataclass(frozen=True)
class SaveReport:
    """A save: its file, its number, the bytes of the state, and the seconds of the slowest rank.

    Attributes:
        blocked_seconds: for how much of `seconds` the program stood still.
    """

    path: pathlib.Path
    number: int
    size_bytes: int
    seconds: float
    blocked_seconds: float

    @staticmethod
    def of(struct: Any) -> SaveReport:
        path = pathlib.Path(_text(struct.path))
        return SaveReport(path, struct.number, struct.size_bytes, struct.seconds, struct.blocked_seconds)


@dataclasses.dataclass(frozen=True)
class Notice:
    """What a rank learned about the end of the job.

    Attributes:
        rank: the rank that learned it.
        host: its host.
        source: "signal SIGTERM", "watcher function", ...
        message: free text.
        time_left_s: seconds until the job will be killed; None if that is not known.
    """

    rank: int
    host: str
    source: str
    message: str
    time_left_s: float | None

    @staticmethod
    def of(struct: Any) -> Notice:
        left = struct.time_left_s if struct.has_deadline else None
        return Notice(struct.rank, _text(struct.host), _text(struct.source), _text(struct.message), left)


#: All handlers and managers that are open, the newest last. It keeps them alive: closing one is collective, so no
#: collector may do it.
open_ones: list[Opened] = []


class Opened(contextlib.AbstractContextManager[Any]):
    """A handler or a manager.

    Attributes:
        state: the values of the state as attributes: `handler.state.order = array` is seen.
    """

    _kind = ""

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
        self._handle = ctypes.c_void_p()
        self._config = ctypes.c_void_p()
        self._failed = False
        self._process = os.getpid()
        self._comm = comm
        handle = communicator(comm)
        self.state = State(dictionary_of(state))
        self._registry = registry = Registry(state, comm.Get_rank() == 0)
        call("config_create", ctypes.byref(self._config))

        def complete() -> None:
            registry.add_constants(constants or {})
            for name in dropped:
                registry.add("allow_dropped", name)
            registry.add_functions(when_values_restored, on_migration)
            self._set_settings(settings)
            self._configure()
            if after_commit is not None:
                self._set_function("after_commit_fn", lambda path: after_commit(os.fsdecode(path)))

        registry.try_to(complete)
        path = None if directory is None else os.fsencode(directory)
        try:
            opening = function(self._kind + "_open")
            registry.check(opening(handle, registry.handle, path, self._config, ctypes.byref(self._handle)))
        except BaseException:
            registry.destroy()
            raise
        finally:
            call("config_destroy", ctypes.byref(self._config))
        open_ones.append(self)

    def _set_settings(self, settings: Any) -> None:
        """A path of a JSON file, or a dictionary of the same form, or with keys as "log.level"."""
        if settings is None:
            return
        if isinstance(settings, (str, os.PathLike)):
            call("config_load_file", self._config, os.fsencode(settings))
        elif isinstance(settings, Mapping):
            for key, value in _flat(settings).items():
                call("config_set", self._config, key.encode(), value.encode())
        else:
            raise UsageError(f"settings is a {type(settings).__name__}: pass a dictionary, or the path of a JSON file")

    def _configure(self) -> None:
        """Sets what handlers alone have."""

    def _set_function(self, name: str, run: Callable[..., Any], kind: str | None = None) -> None:
        """A function of the program, which C calls."""
        call("config_set_" + name, self._config, self._registry.callback(kind or name, run), None)

    def _need(self) -> None:
        if not self._handle:
            raise UsageError(f"the {self._kind} is closed")

    def close(self) -> None:
        """Commits a save in the background, and raises what went wrong on any rank. Collective; nothing if it is closed.

        The end of a `with` does it.
        """
        if not self._handle or self._process != os.getpid():
            return  # closed, or the copy that a fork made
        if ranks_are_missing():
            return  # the other ranks do not come; the process will end without them
        close = function(self._kind + "_close")
        status, code = close(ctypes.byref(self._handle)), None
        if status == PREEMPTED:  # at the end of a scope that was open: the handler is still there, for its exit code
            code = self.exit_code  # type: ignore[attr-defined]
            status = close(ctypes.byref(self._handle))
        if not self._handle:
            open_ones.remove(self)
        try:
            self._registry.check(status)
        finally:
            if not self._handle:
                self._registry.destroy()
        if code is not None:
            raise Preempted(code)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None:
            self.close()
        else:
            with contextlib.suppress(Error, Preempted):
                self.close()


def close_all_but(kept: list[Any]) -> None:
    """Closes what was opened since, although ranks are missing: the process continues without these."""
    for opened in reversed(open_ones.copy()):
        if opened not in kept:
            ranks_are_there_again()
            with contextlib.suppress(Error, Preempted):
                opened.close()
    ranks_are_there_again()


def _end_without_others() -> None:
    """Ends the job if ranks are missing, for which MPI_Finalize would wait."""
    if ranks_are_missing():
        sys.stderr.flush()
        function("abort")()  # does not return


@atexit.register
def _at_exit() -> None:
    """Closes what is open while there is still an interpreter. mpi4py finalizes MPI after this."""
    _end_without_others()
    for opened in reversed(open_ones.copy()):
        if opened._process != os.getpid():
            continue  # the copy that a fork made
        error = getattr(sys, "last_value", None)  # what ended the program, if something did
        if opened._kind == "handler" and error is not None:
            opened._tell_others(error)  # type: ignore[attr-defined]
        elif error is None:
            print(f"reprieve: the {opened._kind} was not closed: use it in a `with`, or call close()", file=sys.stderr)
        with contextlib.suppress(Error, Preempted):
            opened.close()
    _end_without_others()


def _checked(number: int) -> int:
    return checked_range(number, "the number of the checkpoint", 0, NO_LIMIT - 1)


class Manager(Opened):
    """The checkpoints of one directory, for programs that save and restore when they like.

        with reprieve.Manager(MPI.COMM_WORLD, "checkpoints", state) as manager:
            manager.restore_latest()
            manager.save(5)

    All calls are collective but where they say otherwise. Arguments are those of `Handler`.
    """

    _kind = "manager"

    def _call(self, name: str, *arguments: Any) -> None:
        self._need()
        self._on_all_ranks(self._registry.refresh)
        self._registry.check(function("manager_" + name)(self._handle, *arguments))

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
            _pending.append((request, failed, result))  # the call of C will report which rank is missing
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
