# SPDX-License-Identifier: BSD-3-Clause
"""What handlers and managers report, as values of Python."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
from typing import Any

from ._native import NO_LIMIT


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
