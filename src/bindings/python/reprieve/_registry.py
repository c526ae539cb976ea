# SPDX-License-Identifier: BSD-3-Clause
"""The state of a program, which is a dictionary, as the registry of C."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ._entries import Element, Entry, address, make_entry
from ._errors import Error, UsageError, description_of
from ._markers import Node, Slot, State, Variable, dictionary_of
from ._native import CALLBACKS, OK, PREEMPTED, call, function, last_error
from ._tensors import ModelNode, is_torch

#: In bytes, as src/state/names.cpp has it.
_LONGEST_NAME = 255


def _text(value: Any, what: str) -> bytes:
    if not isinstance(value, str):
        raise UsageError(f"{what} is {value!r}: it must be a text")
    if "\0" in value:
        raise UsageError(f"{what} {value!r} has a null byte")
    return value.encode("utf-8", "surrogateescape")


def checked_range(value: Any, what: str, least: int, most: int) -> int:
    """A whole number that C can hold."""
    whole = operator.index(value)
    if not least <= whole <= most:
        raise UsageError(f"{what} is {whole}: it must lie between {least} and {most}")
    return whole


class Stored:
    """A checkpoint that is being restored, by the names that are stored; for `on_migration`."""

    def __init__(self, handle: int, registry: Registry) -> None:
        self._handle = handle
        self._registry = registry

    def __contains__(self, name: str) -> bool:
        return function("stored_contains")(self._handle, _text(name, "a name")) == 1

    def read(self, name: str, out: np.ndarray) -> np.ndarray:
        """Reads a replicated value into an array of its type and shape, and returns that."""
        arguments = Element(out.dtype, f"out for '{name}'").arguments(address(out), out)
        self._registry.check(function("stored_read")(self._handle, _text(name, "a name"), *arguments))
        return out


class Registry:
    """What C knows of a state, and what has to live as long as C does: buffers, callbacks, what they raised."""

    def __init__(self, state: Any, is_rank_0: bool = True) -> None:
        self.is_rank_0 = is_rank_0
        self.raised: BaseException | None = None
        self.entries: list[Entry] = []
        self._kept: list[Any] = []
        self._nodes: list[Node] = []
        self._refused: BaseException | None = None
        self.handle = ctypes.c_void_p()
        call("checkpoint_create", ctypes.byref(self.handle))
        self.try_to(lambda: self._walk(state))

    # ---- Registration. What fails on one rank is kept, and is an error on all where the handler is opened.

    def try_to(self, register: Callable[[], None]) -> None:
        """Runs a part of the registration; the first error of all is kept."""
        try:
            register()
        except Exception as error:  # whatever it is, the other ranks must get it
            if self._refused is None:
                self._refused = error
                function("registration_error")(self.handle, str(error).encode(errors="replace"))

    def add(self, name: str, *arguments: Any) -> None:
        """A function of C whose first argument is the registry."""
        encoded = [_text(each, "a name") if isinstance(each, str) else each for each in arguments]
        self._kept.append(encoded)
        call(name, self.handle, *encoded)

    def _walk(self, state: Any) -> None:
        state = dictionary_of(state)
        if not isinstance(state, dict):
            raise UsageError(f"the state is a {type(state).__name__}: pass a dictionary of names and values")
        self._walk_dictionary(Node(state, None, "", "state"), "")

    def _walk_dictionary(self, node: Node, prefix: str) -> None:
        self._nodes.append(node)
        if node.contains_itself():
            raise UsageError(f"{node.where}: the dictionary contains itself")
        for key, value in node.dictionary.items():
            where = f"{node.where}[{key!r}]"
            if not isinstance(key, str) or "/" in key:
                raise UsageError(
                    f"{where}: names of values are texts without '/'. A dictionary with other keys is saved as a whole "
                    "by reprieve.pickled(...), whose value it is then"
                )
            name = prefix + key
            if isinstance(value, State):
                raise UsageError(f"{where} is a reprieve.State: make the outer one by reprieve.State, too")
            if isinstance(value, dict):
                self._walk_dictionary(Node(value, node, key, where), name + "/")
            elif is_torch(value, "nn.Module"):
                self._walk_dictionary(ModelNode(value, node, key, where), name + "/")
            elif isinstance(value, Variable):
                self._register(name, Slot(value, None, where + ".value"), value)
            else:
                self._register(name, Slot(node, key, where), Variable(None))

    def _register(self, name: str, slot: Slot, marker: Variable) -> None:
        entry = make_entry(self, name, slot, marker)
        entry.register()
        self.entries.append(entry)
        # What C does not know of the elements is a constant: a checkpoint in which they mean something else is an
        # error. A checkpoint that does not have the constant is restored, as those of older versions are.
        meaning, constant = entry.meaning(), f"numpy type of {name}"
        if meaning and len(_text(constant, "a name")) <= _LONGEST_NAME:
            self.add("add_constant", constant, meaning)
        if marker.may_be_missing:
            self.add("allow_missing", name)
        for former in marker.former_names:
            self.add("add_former_name", name, former)
        if marker.units or marker.description or marker.dims:
            self._annotate(name, marker, entry)

    def _annotate(self, name: str, marker: Variable, entry: Entry) -> None:
        dims = [_text(dim, f"{entry.where}: a name of a dimension") for dim in marker.dims]
        if dims and len(dims) + 1 == entry.dimensions:  # bytes of elements that C does not know
            dims.append(b"byte")
        if dims and len(dims) != entry.dimensions:
            raise UsageError(f"{entry.where}: {len(marker.dims)} names of dimensions for {entry.dimensions} dimensions")
        names = (ctypes.c_char_p * len(dims))(*dims) if dims else None
        self.add("annotate", name, marker.units, marker.description, len(dims), names)

    def add_constants(self, constants: Mapping[str, Any]) -> None:
        """What the run is about: texts, whole numbers, numbers, and files by their paths."""
        for name, value in constants.items():
            if hasattr(value, "__fspath__"):
                self.add("add_constant_file", name, str(value))
            elif isinstance(value, (bool, int, np.integer)):
                whole = checked_range(value, f"the constant '{name}'", -(2**63), 2**63 - 1)
                self.add("add_constant_integer", name, whole)
            elif isinstance(value, (float, np.floating)):
                self.add("add_constant_real", name, float(value))
            else:
                self.add("add_constant", name, _text(value, f"the constant '{name}'").decode())

    def add_functions(self, when_values_restored: Any, on_migration: Any) -> None:
        """Functions of the program that a restore calls."""

        def add(name: str, kind: str, run: Callable[..., Any]) -> None:
            def between(*arguments: Any) -> None:
                self.restored()
                run(*arguments)
                self.refresh()  # what it has set stays

            self.add(name, self.callback(kind, between), None)

        if when_values_restored is not None:
            add("when_values_restored", "restored_fn", when_values_restored)
        if on_migration is not None:
            add("on_migration", "migration_fn", lambda stored: on_migration(Stored(stored, self)))

    # ---- While C works with it

    def callback(self, kind: str, function_of_program: Callable[..., Any]) -> Any:
        """A function of C that calls one of Python. What that raises becomes an error on all ranks, and its cause here."""
        has_answer = kind in ("step_fn", "watcher_fn")  # other kinds return whether they failed

        def run(*arguments: Any) -> int:
            try:
                result = function_of_program(*arguments[:-1])  # without the pointer of C that comes last
                return result if has_answer else 0
            except BaseException as error:
                if kind != "after_commit_fn" or not isinstance(error, Exception):  # that is a warning in the log
                    self.raised = error
                function("callback_error")(description_of(error))
                return 0 if has_answer else 1

        wrapped = CALLBACKS[kind](run)
        self._kept.append(wrapped)
        return wrapped

    def check(self, status: int) -> None:
        """Raises the error of a call, with what a callback raised as its cause."""
        if status in (OK, PREEMPTED):
            return
        error = last_error(status)
        cause, self.raised = self.raised or self._refused, None
        if isinstance(cause, (KeyboardInterrupt, SystemExit)):
            raise cause
        if isinstance(cause, Error) and str(cause) in str(error):
            cause = None  # it would say the same again
        raise error from cause

    def raise_pending(self) -> None:
        """Raises what a callback raised that cannot report an error to C: a watcher, a count of steps."""
        raised, self.raised = self.raised, None
        if raised is not None:
            raise raised

    def refresh(self) -> None:
        """Before every call that may save."""
        for node in self._nodes:
            node.refresh()
        for entry in self.entries:
            entry.refresh()

    def restored(self) -> None:
        """After a restore. Runs for all entries, since other ranks may wait in a `scatter`; then raises the first error."""
        errors = []
        for each in (*self.entries, *self._nodes):
            try:
                each.restored()
            except BaseException as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def destroy(self) -> None:
        """Frees the handle of C; nothing if it is gone already."""
        call("checkpoint_destroy", ctypes.byref(self.handle))
        self._kept.clear()
