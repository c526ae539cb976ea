# SPDX-License-Identifier: BSD-3-Clause
"""The time loop: `Handler`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import _manager
from ._errors import Preempted, UnresponsiveError, UsageError, description_of
from ._markers import State
from ._native import (
    CALLBACKS,
    CONSTANTS,
    MPI_COMM,
    NO_LIMIT,
    OK,
    PREEMPTED,
    CheckpointInfoStruct,
    NoticeStruct,
    SaveReportStruct,
    call,
    communicator,
    function,
    last_error,
)
from ._manager import CheckpointInfo, Notice, SaveReport
from ._registry import checked_range

#: How to leave, as C has it.
_WAYS = {"leave": "EXIT_DEFAULT", "hold": "EXIT_HOLD", "raise": "EXIT_RETURN", "later": "EXIT_LATER"}


def _leave_interrupt_to_the_scheduler() -> None:
    """Slurm and LSF send SIGINT as a warning (`--signal=INT@60`), at which Python's own handler would end the program."""
    is_batch = "SLURM_JOB_ID" in os.environ or "LSB_JOBID" in os.environ
    is_main = threading.current_thread() is threading.main_thread()
    if is_batch and is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def watch_signals() -> None:
    """Records the signals that announce an end from here on. Call it before mpi4py is imported, since that starts MPI."""
    _leave_interrupt_to_the_scheduler()
    call("watch_signals")


def unwatch_signals() -> None:
    """Gives the signals back: a signal ends the program again."""
    call("unwatch_signals")


def run_resilient(comm: Any, body: Callable[[Any], object], spare_ranks: int = 0, min_ranks: int = 1) -> bool:
    """Calls `body(ranks)` with the communicator of the ranks that work; when ranks die, again with those that live.

        def body(ranks):
            state = ...                                   # cut by ranks.size
            with reprieve.Handler(ranks, "checkpoints", state) as handler:
                for step in handler.steps(1000): ...

        reprieve.run_resilient(MPI.COMM_WORLD, body)

    What it needs, and what a body may do, says run_resilient.hpp: `mpirun --with-ft ulfm` of Open MPI 5 above all. Every other
    MPI calls the body once. A body must let the exceptions of mpi4py and of this module through. Collective over `comm`.

    Args:
        spare_ranks: the last ranks, which wait until they take the place of ranks that have died.
        min_ranks: with fewer the process ends with code 42.

    Returns False on a rank that was a spare to the end. Raises what the body raised while no rank had died.
    """
    handle_of_comm = communicator(comm)
    from mpi4py import MPI

    raised: list[BaseException] = []

    def run(handle: Any, _: Any) -> int:
        ranks = MPI.Intracomm()
        MPI_COMM.from_address(MPI._addressof(ranks)).value = handle
        raised.clear()
        before = _manager.open_ones.copy()
        try:
            body(ranks)
        except BaseException as error:
            raised.append(error)
            _manager.close_all_but(before)
            if isinstance(error, Preempted):
                return PREEMPTED
            function("callback_error")(description_of(error))
            return CONSTANTS["ERROR_UNRESPONSIVE"] if isinstance(error, UnresponsiveError) else 1
        return OK

    worked = ctypes.c_int()
    status = function("run_resilient")(
        handle_of_comm, spare_ranks, min_ranks, CALLBACKS["body_fn"](run), None, ctypes.byref(worked)
    )
    if raised and isinstance(raised[-1], (KeyboardInterrupt, SystemExit)):
        raise raised[-1]
    if status != OK:
        raise last_error(status) from (raised[-1] if raised else None)
    return worked.value == 1


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


class Handler(_manager.Opened):
    """Saves the state when the job is about to end, and restores it at the next start.

        with reprieve.Handler(MPI.COMM_WORLD, "checkpoints", state) as handler:
            for step in handler.steps(1000):
                advance(state)

    Making one is collective: it opens the directory, and restores the newest valid checkpoint if there is one, into the
    arrays of the state and into the dictionary. So is closing it, at the end of the `with`. An exception in the body is
    sent to the other ranks, which get it as a `ClusterError` at their next step boundary.

    Args:
        comm: a communicator of mpi4py, of all ranks that save together.
        directory: of the checkpoints; None: the setting `directory`.
        state: a `State`, or a dictionary of names and values; dictionaries in it are parts of the names, as in
            "ocean/salinity". All ranks have the same names. See `replicated`, `per_rank`, `distributed` for what values can be.
        settings: a dictionary, {"termination": {"save_every_s": 600}} or {"termination.save_every_s": 600}, or the path
            of a JSON file. The environment goes before it.
        exit: how the program ends after the last save. "leave": all ranks meet, and each process ends at once with the
            restart code; functions of `atexit` are not called. "raise": `Preempted`, a SystemExit, is raised on every
            rank. "later": nothing happens; the program asks `handler.preempted`, ends its loop, and then by
            `sys.exit(handler.exit_code)`. "hold": as "leave", when the processes are being taken. Or a function
            (comm, exit code, path of the checkpoint) that leaves.
        return_when_saved: True is the same as exit="later".
        step: a function that gives the program's own count of steps.
        save_files: a function (directory, number, is_chief) that adds the program's own files to a checkpoint.
        watcher: a function that is asked now and then, on another thread, whether the job is about to end: returns False,
            True, a text about it, or a text and the seconds that are left. It must not use MPI.
        abort: a function (comm, exit code) that ends the job, for a rank whose error the others do not receive.
        after_commit: a function (path of the checkpoint) that rank 0 calls after each commit, for example to copy it. The
            program stands still meanwhile. It must not use MPI. What it raises is a warning in the log.
        when_values_restored: a function that is called in the middle of a restore, when all values but distributed ones
            are there.
        constants: what the run is about, by name: texts, numbers, paths (pathlib) of files. A checkpoint with other ones
            is a `MismatchError`.
        dropped: names in checkpoints that are not in the state any more, and may be left out.
        on_migration: a function that gets a `Stored` when a checkpoint lacked variables, or had dropped ones.
    """

    _kind = "handler"

    def __init__(
        self,
        comm: Any,
        directory: str | os.PathLike[str] | None,
        state: State | dict[str, Any],
        *,
        settings: Any = None,
        exit: str | Callable[[Any, int, str], None] = "leave",
        return_when_saved: bool = False,
        step: Callable[[], int] | None = None,
        save_files: Callable[[str, int, bool], None] | None = None,
        watcher: Callable[[], Any] | None = None,
        abort: Callable[[Any, int], None] | None = None,
        after_commit: Callable[[str], None] | None = None,
        when_values_restored: Callable[[], None] | None = None,
        constants: Mapping[str, Any] | None = None,
        dropped: Sequence[str] = (),
        on_migration: Callable[[Any], None] | None = None,
    ) -> None:
        self._preempted_code: int | None = None
        self._exit = "later" if return_when_saved else exit
        self._functions = (step, save_files, watcher, abort)
        _leave_interrupt_to_the_scheduler()
        super().__init__(
            comm,
            directory,
            state,
            settings=settings,
            after_commit=after_commit,
            when_values_restored=when_values_restored,
            constants=constants,
            dropped=dropped,
            on_migration=on_migration,
        )
        try:
            if self.restored_from is not None:
                self._registry.restored()
        except BaseException as error:  # of this rank alone, perhaps: the others must get it
            self.__exit__(type(error), error, None)
            raise

    def _configure(self) -> None:
        self._set_exit(self._exit)
        step, save_files, watcher, abort = self._functions
        if step is not None:
            what = "the program's own count of steps"
            self._set_function("step_fn", lambda: checked_range(int(step()), what, 0, NO_LIMIT - 1))
        if save_files is not None:

            def files(directory: bytes, number: int, is_chief: int) -> None:
                save_files(os.fsdecode(directory), number, bool(is_chief))

            self._set_function("save_fn", files, "save_files_fn")
        if watcher is not None:
            self._set_function("watcher_fn", lambda *places: _tell(watcher(), *places))
        if abort is not None:
            self._set_function("abort_fn", lambda _comm, code: abort(self._comm, code))

    def _set_exit(self, way: Any) -> None:
        """How to leave after the last save: a name, or a function (comm, exit code, path of the checkpoint)."""
        if callable(way):
            self._set_function("exit_fn", lambda _comm, code, path: way(self._comm, code, os.fsdecode(path)))
        elif way in _WAYS:
            call("config_set_exit", self._config, CONSTANTS[_WAYS[way]])
        else:
            raise UsageError(f"exit is {way!r}: pass a function, or one of {', '.join(map(repr, _WAYS))}")

    # ---- The loop

    def steps(self, count: int | None = None) -> Iterator[int]:
        """The steps that are left of `count` over all restarts; None: the program leaves the loop by itself.

        Each step begins with a boundary: if all ranks have agreed to, the state is saved there, and the process left.
        At the end of all steps a notice is no reason to leave: the last step is saved, and the program continues. Else
        the end of the `with` saves it. Gives the number of steps that were complete before. Collective.
        """
        limit = NO_LIMIT if count is None else int(count)
        if not 0 <= limit <= NO_LIMIT:
            raise UsageError(f"there cannot be {count} steps")
        next_step = function("next_step")
        status = ctypes.c_int()
        while True:
            self._prepare()
            more = next_step(self._handle, limit, ctypes.byref(status))
            if status.value != OK:
                self._check(status.value)
            self._registry.raise_pending()
            if not more:
                return
            yield self.completed_steps

    def boundary(self) -> None:
        """A step boundary without a step, for phases between steps (set-up, evaluation, output). Collective."""
        self._boundary("save_if_preempted")

    def finish(self) -> None:
        """The last boundary, for loops without `steps` or that were left before their end. A step that is open counts.

        Waits for all ranks, raises what went wrong on any of them, saves the last step unless a checkpoint holds it, and
        marks the run as finished. With a notice it returns too, so that the program can write its results. But a
        program that learned so from `preempted` may have ended its loop early: then it leaves. Collective.
        """
        self._boundary("handler_finish")

    @contextlib.contextmanager
    def scope(self, save_at_end: bool = False) -> Iterator[None]:
        """A part of the program at whose end a notice is acted on. Collective at its end.

        An exception that leaves it is as one that leaves the `with` of the handler: the others get it.

        Args:
            save_at_end: boundaries inside save nothing, only the end does, or the last boundary that is safe if it is
                known when the job will be killed.
        """
        mode = CONSTANTS["SCOPE_SAVE_AT_END" if save_at_end else "SCOPE_SAVE_NOW"]
        call("scope_begin_with", self._handle, mode)
        try:
            yield
        except BaseException as error:
            self._tell_others(error, always=True)
            raise
        if self._handle:
            self._boundary("scope_end")

    def begin_phase(self) -> None:
        """Steps of another length begin, longer ones above all: the next boundary asks for notices. Collective."""
        self._check(function("begin_phase")(self._handle))

    def request_checkpoint(self) -> None:
        """Asks for a checkpoint at one of the next boundaries, without an exit. One rank is enough."""
        self._check(function("request_checkpoint")(self._handle))

    def fail(self, message: str) -> None:
        """This rank cannot continue: raises a `ClusterError` with the message, on the others at their next boundary."""
        self._failed = True
        self._check(function("fail")(self._handle, message.encode(errors="replace")))

    def _boundary(self, name: str) -> None:
        self._prepare()
        self._check(function(name)(self._handle))
        self._registry.raise_pending()

    def _prepare(self) -> None:
        self._need()
        self._registry.refresh()
        with contextlib.suppress(AttributeError, ValueError, OSError):
            sys.stdout.flush()  # the boundary may end the process

    def _check(self, status: int) -> None:
        if status == PREEMPTED:
            raise Preempted(self.exit_code)
        self._registry.check(status)

    # ---- What is known

    @property
    def completed_steps(self) -> int:
        """Steps that are complete, over all restarts; the same on every rank."""
        self._need()
        return function("total_run_calls")(self._handle)

    @property
    def preempted(self) -> bool:
        """Whether all ranks have agreed that the job is about to end; the same on every rank."""
        self._need()
        return function("preempted")(self._handle) == 1

    @property
    def exit_code(self) -> int:
        """The restart code after the last save, else 0: `sys.exit(handler.exit_code)`. Stays known after the end."""
        if self._handle and self._preempted_code is None:
            code = ctypes.c_int()
            if function("exit_code")(self._handle, ctypes.byref(code)) == OK:
                self._preempted_code = code.value
        return self._preempted_code or 0

    @property
    def notice(self) -> Notice | None:
        """The notice that all ranks have agreed on, or None."""
        if not self.preempted:
            return None
        struct = NoticeStruct()
        self._check(function("preemption_notice")(self._handle, ctypes.byref(struct)))
        return Notice.of(struct)

    @property
    def restored_from(self) -> CheckpointInfo | None:
        """The checkpoint that was restored at the opening, or None."""
        return self._ask("restored_from", CheckpointInfoStruct, CheckpointInfo.of)

    @property
    def last_save(self) -> SaveReport | None:
        """The latest checkpoint that this handler has committed, or None."""
        return self._ask("last_save", SaveReportStruct, SaveReport.of)

    @property
    def already_finished(self) -> int | None:
        """At which step an earlier run in this directory was finished, if nothing was saved since; or None.

        The state is that of this step.
        """
        return self._ask("already_finished", ctypes.c_uint64, lambda steps: steps.value)

    def _ask(self, name: str, kind: Any, make: Callable[[Any], Any]) -> Any:
        self._need()
        there, struct = ctypes.c_int(), kind()
        self._check(function(name)(self._handle, ctypes.byref(there), ctypes.byref(struct)))
        return make(struct) if there.value else None

    # ---- The end

    def _tell_others(self, error: BaseException, always: bool = False) -> None:
        """An exception of the program on this rank: the others must not wait for it.

        Args:
            always: also of an error that they have: the handler can only be closed then.
        """
        is_reported = getattr(error, "_is_sent", False) and not always
        if not self._handle or self._failed or is_reported or isinstance(error, (Preempted, GeneratorExit)):
            return
        self._failed = True
        function("fail")(self._handle, description_of(error))

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if not self._handle or self._process != os.getpid():
            return
        if error is not None:
            self._tell_others(error)
        else:
            self.exit_code  # stays known
        super().__exit__(kind, error, traceback)
