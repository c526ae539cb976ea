# SPDX-License-Identifier: BSD-3-Clause
"""What handlers and managers have in common: their settings and functions as a config of C, how they are opened, closed,
what happens if nobody closes them, and what they report.
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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ._errors import Error, Preempted, UsageError, ranks_are_missing, ranks_are_there_again
from ._markers import State, dictionary_of
from ._native import CONSTANTS, NO_LIMIT, PREEMPTED, call, communicator, function
from ._registry import Registry, checked_range

_WAYS = {"leave": "EXIT_DEFAULT", "hold": "EXIT_HOLD", "raise": "EXIT_RETURN", "later": "EXIT_LATER"}


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


class Config:
    """A reprieve_config; what fails while it is made is kept by the registry, for all ranks."""

    def __init__(self, registry: Registry, comm: Any) -> None:
        self._registry = registry
        self._comm = comm
        self.handle = ctypes.c_void_p()
        call("config_create", ctypes.byref(self.handle))

    def set_settings(self, settings: Any) -> None:
        """A path of a JSON file, or a dictionary of the same form, or with keys as "log.level"."""
        if settings is None:
            return
        if isinstance(settings, (str, os.PathLike)):
            call("config_load_file", self.handle, os.fsencode(settings))
        elif isinstance(settings, Mapping):
            for key, value in _flat(settings).items():
                call("config_set", self.handle, key.encode(), value.encode())
        else:
            raise UsageError(f"settings is a {type(settings).__name__}: pass a dictionary, or the path of a JSON file")

    def set_exit(self, way: Any) -> None:
        """How to leave after the last save: a name, or a function (comm, exit code, path of the checkpoint)."""
        if callable(way):

            def leave(_comm: Any, code: int, path: bytes, _user: Any) -> None:
                way(self._comm, code, os.fsdecode(path))

            self._set("exit_fn", "exit_fn", leave)
        elif way in _WAYS:
            call("config_set_exit", self.handle, CONSTANTS[_WAYS[way]])
        else:
            raise UsageError(f"exit is {way!r}: pass a function, or one of {', '.join(map(repr, _WAYS))}")

    def set_functions(
        self,
        step: Callable[[], int] | None = None,
        save_files: Callable[[str, int, bool], None] | None = None,
        watcher: Callable[[], Any] | None = None,
        abort: Callable[[Any, int], None] | None = None,
        after_commit: Callable[[str], None] | None = None,
    ) -> None:
        """Functions of the program, which the handler or the manager calls."""
        if step is not None:
            count, what = step, "the program's own count of steps"
            self._set("step_fn", "step_fn", lambda _user: checked_range(int(count()), what, 0, NO_LIMIT - 1), 0)
        if save_files is not None:
            save = save_files

            def files(directory: bytes, number: int, is_chief: int, _user: Any) -> None:
                save(os.fsdecode(directory), number, bool(is_chief))

            self._set("save_fn", "save_files_fn", files)
        if watcher is not None:
            ask = watcher
            self._set("watcher_fn", "watcher_fn", lambda *places: _tell(ask(), *places[:3]), 0)
        if abort is not None:
            end = abort
            self._set("abort_fn", "abort_fn", lambda _comm, code, _user: end(self._comm, code))
        if after_commit is not None:
            copy = after_commit

            def committed(path: bytes, _user: Any) -> None:
                copy(os.fsdecode(path))

            self._set("after_commit_fn", "after_commit_fn", committed)

    def _set(self, name: str, kind: str, run: Callable[..., Any], at_error: int = 1) -> None:
        call("config_set_" + name, self.handle, self._registry.callback(kind, run, at_error), None)

    def destroy(self) -> None:
        call("config_destroy", ctypes.byref(self.handle))


def _tell(answer: Any, message: int, size: int, time_left: Any) -> int:
    """What a watcher returned: nothing, True, a text, or a text and the seconds that are left."""
    text, left = answer if isinstance(answer, tuple) else (answer, None)
    if not text:
        return 0
    if isinstance(text, str):
        data = text.encode()[: size - 1] + b"\0"
        ctypes.memmove(message, data, len(data))
    if left is not None:
        time_left[0] = left
    return 1


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


#: All that are open, the newest last. It keeps them alive: closing one is collective, so no collector may do it.
_open_ones: list[Opened] = []


class Opened:
    """A handler or a manager.

    Attributes:
        state: the values of the state as attributes: `handler.state.order = array` is seen.
    """

    _kind = ""

    def _open(
        self,
        comm: Any,
        directory: str | os.PathLike[str] | None,
        state: Any,
        configure: Callable[[Config], None],
        when_values_restored: Callable[[], None] | None,
        constants: Mapping[str, Any] | None,
        dropped: Sequence[str],
        on_migration: Callable[[Any], None] | None,
    ) -> None:
        self._handle = ctypes.c_void_p()
        self._failed = False
        self._process = os.getpid()
        handle = communicator(comm)
        self.state = State(dictionary_of(state))
        self._registry = registry = Registry(state, comm.Get_rank() == 0)
        config = Config(registry, comm)

        def complete() -> None:
            registry.add_constants(constants or {})
            for name in dropped:
                registry.add("allow_dropped", name)
            registry.add_functions(when_values_restored, on_migration)
            configure(config)

        registry.try_to(complete)
        path = None if directory is None else os.fsencode(directory)
        try:
            opening = function(self._kind + "_open")
            status = opening(handle, registry.handle, path, config.handle, ctypes.byref(self._handle))
            registry.check(status)
        except BaseException:
            registry.destroy()
            raise
        finally:
            config.destroy()
        _open_ones.append(self)

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
            _open_ones.remove(self)
        try:
            self._registry.check(status)
        finally:
            if not self._handle:
                self._registry.destroy()
        if code is not None:
            raise Preempted(code)

    def _check(self, status: int) -> None:
        """Raises the error of a call."""
        self._registry.check(status)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None:
            self.close()
        else:
            with contextlib.suppress(Error, Preempted):
                self.close()


def open_ones() -> list[Any]:
    """The handlers and managers that are open."""
    return _open_ones.copy()


def close_all_but(kept: list[Any]) -> None:
    """Closes what was opened since, although ranks are missing: the process continues without these."""
    for opened in reversed(open_ones()):
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
    for opened in reversed(open_ones()):
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
