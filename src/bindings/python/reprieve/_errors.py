# SPDX-License-Identifier: BSD-3-Clause
"""The exceptions of the library. A collective call raises the same one, with the same message, on every rank."""

from __future__ import annotations

import os
import re
from typing import Any

from ._message_codes import MESSAGE_CODES

#: Of each code.
_CLASSES: dict[str, type[Error]] = {}


def with_message_code(message: str) -> str:
    """The message with the code of its entry on the page Troubleshooting, unless it has one or needs none."""
    fitting = [] if re.search(r" \[RPV-\d{4}\]", message) else [each for each in MESSAGE_CODES if each[1] in message]
    if not fitting:
        return message
    code, _ = max(fitting, key=lambda each: len(each[1]))
    first, line_end, rest = message.partition("\n")
    return f"{first} [{code}]{line_end}{rest}"


class Error(Exception):
    """Base of all exceptions of Reprieve.

    Attributes:
        code: name of what went wrong, as in logs: "no_space".
        origin_rank: the rank that met the problem, or -1 if it is not tied to one.
    """

    code = "error"

    def __init_subclass__(cls, code: str | None = None, **others: Any) -> None:
        """`code`: of an error of the library; classes of programs that are derived have that of their base."""
        super().__init_subclass__(**others)
        if code is not None:
            cls.code = code
            _CLASSES[code] = cls

    def __init__(self, message: str, code: str | None = None, origin_rank: int = -1) -> None:
        super().__init__(with_message_code(str(message)))
        self.code = code or type(self).code
        self.origin_rank = origin_rank
        self._is_sent = False  # C has sent it to the other ranks


class ConfigError(Error, code="config"):
    """A setting is unknown, of the wrong type or out of range."""


class UsageError(Error, code="usage"):
    """The interface was used against its rules."""


class StorageError(Error, code="io"):
    """A file system call failed."""


class NoSpaceError(StorageError, code="no_space"):
    """The disk is full, or a quota is used up."""


class NoPermissionError(StorageError, code="permission"):
    """Rights are missing, or the file system is read-only."""


class LockedError(StorageError, code="locked"):
    """Another living run uses the checkpoint directory."""


class CorruptError(Error, code="corrupt"):
    """A checkpoint file is corrupt, or is no checkpoint."""


class MismatchError(Error, code="mismatch"):
    """A valid checkpoint does not fit the state of the program; the message lists every difference."""


class MpiError(Error, code="mpi"):
    """An MPI call failed."""


class ClusterError(Error, code="cluster"):
    """The program failed on some rank: every rank gets its message."""


class UnresponsiveError(Error, code="unresponsive"):
    """Ranks did not come to a collective call in time. The process ends without MPI_Finalize."""


class InternalError(Error, code="internal"):
    """A promise inside the library was broken: please report it."""


class NoMemoryError(Error, MemoryError, code="no_memory"):
    """A rank could not get the memory that the library asked for."""


class Preempted(SystemExit):
    """The state is saved, and the job must leave with the restart code. No error: a SystemExit with that code.

    It is raised on every rank, with ``exit="raise"`` only. Without an ``except`` the interpreter ends with that code.
    """


#: The processes in which a call found that ranks are missing: MPI_Finalize would wait for them.
_processes_without_others: set[int] = set()


def ranks_are_missing() -> bool:
    """Whether a call of this process ended in an UnresponsiveError."""
    return os.getpid() in _processes_without_others


def ranks_are_there_again() -> None:
    """The process has continued without them."""
    _processes_without_others.discard(os.getpid())


def description_of(error: BaseException) -> bytes:
    """What other ranks get to read of an exception of the program."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text.encode(errors="replace")


def error_of(code: str, message: str, origin_rank: int) -> Error:
    """The exception for the name of a status of C."""
    error = _CLASSES.get(code, Error)(message, code, origin_rank)
    error._is_sent = code != UsageError.code  # it can be of a call that the other ranks do not make
    if isinstance(error, UnresponsiveError):
        _processes_without_others.add(os.getpid())
    return error
