# SPDX-License-Identifier: BSD-3-Clause
"""The exceptions of the library. A collective call raises the same one, with the same message, on every rank."""

from __future__ import annotations

import os


class Error(Exception):
    """Base of all exceptions of Reprieve.

    Attributes:
        code: name of what went wrong, as in logs: "no_space".
        origin_rank: the rank that met the problem, or -1 if it is not tied to one.
    """

    code = "error"

    def __init__(self, message: str, code: str | None = None, origin_rank: int = -1) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.origin_rank = origin_rank
        self._is_told = False  # C has sent it to the other ranks


class ConfigError(Error):
    """A setting is unknown, of the wrong type or out of range."""

    code = "config"


class UsageError(Error):
    """The interface was used against its rules."""

    code = "usage"


class StorageError(Error):
    """A file system call failed."""

    code = "io"


class NoSpaceError(StorageError):
    """The disk is full, or a quota is used up."""

    code = "no_space"


class NoPermissionError(StorageError):
    """Rights are missing, or the file system is read-only."""

    code = "permission"


class LockedError(StorageError):
    """Another living run uses the checkpoint directory."""

    code = "locked"


class CorruptError(Error):
    """A checkpoint file is corrupt, or is no checkpoint."""

    code = "corrupt"


class MismatchError(Error):
    """A valid checkpoint does not fit the state of the program; the message lists every difference."""

    code = "mismatch"


class MpiError(Error):
    """An MPI call failed."""

    code = "mpi"


class ClusterError(Error):
    """The program failed on some rank: every rank gets its message."""

    code = "cluster"


class UnresponsiveError(Error):
    """Ranks did not come to a collective call in time. The process ends without MPI_Finalize."""

    code = "unresponsive"


class InternalError(Error):
    """A promise inside the library was broken: please report it."""

    code = "internal"


class NoMemoryError(Error, MemoryError):
    """A rank could not get the memory that the library asked for."""

    code = "no_memory"


class Preempted(SystemExit):
    """The state is saved, and the job must leave with the restart code. No error: a SystemExit with that code.

    It is raised on every rank, with ``exit="raise"`` only. Without an ``except`` the interpreter ends with that code.
    """


def _all_classes(base: type[Error]) -> list[type[Error]]:
    return [base, *(found for child in base.__subclasses__() for found in _all_classes(child))]


_CLASSES = {each.code: each for each in _all_classes(Error)}


#: The processes in which a call found that ranks are missing: MPI_Finalize would wait for them.
_processes_without_others: set[int] = set()


def ranks_are_missing() -> bool:
    """Whether a call of this process ended in an UnresponsiveError."""
    return os.getpid() in _processes_without_others


def error_of(code: str, message: str, origin_rank: int) -> Error:
    """The exception for the name of a status of C."""
    error = _CLASSES.get(code, Error)(message, code, origin_rank)
    error._is_told = code != UsageError.code  # it can be of a call that the other ranks do not make
    if isinstance(error, UnresponsiveError):
        _processes_without_others.add(os.getpid())
    return error
