# SPDX-License-Identifier: BSD-3-Clause
"""What handlers and managers have in common: how they are opened, closed, and what happens if nobody closes them."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ._errors import Error, Preempted, UsageError, ranks_are_missing
from ._native import PREEMPTED, communicator, function
from ._registry import Registry
from ._settings import Config

#: All that are open, the newest last. It keeps them alive: closing one is collective, so no collector may do it.
_open_ones: list[Opened] = []


class Opened:
    """A handler or a manager."""

    _kind = ""

    def _open(
        self,
        comm: Any,
        directory: str | os.PathLike[str] | None,
        state: Any,
        configure: Callable[[Config], None],
        *,
        when_values_restored: Callable[[], None] | None,
        constants: Mapping[str, Any] | None,
        dropped: Sequence[str],
        on_migration: Callable[[Any], None] | None,
    ) -> None:
        self._handle = ctypes.c_void_p()
        self._failed = False
        self._process = os.getpid()
        handle = communicator(comm)
        self._registry = registry = Registry(state)
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
            code = self._note_exit_code()
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

    def _note_exit_code(self) -> int:
        """Of a handler that has saved and is to leave."""
        raise NotImplementedError

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


def _end_without_others() -> None:
    """Ends the job if ranks are missing, for which MPI_Finalize would wait."""
    if ranks_are_missing():
        sys.stderr.flush()
        function("abort")()  # does not return


@atexit.register
def _at_exit() -> None:
    """Closes what is open while there is still an interpreter. mpi4py finalizes MPI after this."""
    _end_without_others()
    for opened in reversed(_open_ones.copy()):
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
