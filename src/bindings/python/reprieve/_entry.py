# SPDX-License-Identifier: BSD-3-Clause
"""What all kinds of variables have in common, and the values of the ranks that saved."""

from __future__ import annotations

import ctypes
from typing import Any

from ._elements import Element
from ._errors import UsageError
from ._markers import PerRank, Variable
from ._native import CALLBACKS, function
from ._places import Slot


class Entry:
    """One variable. `registry` wraps callbacks, and keeps what C holds alive."""

    #: Of arrays and numbers, from `register` on.
    element: Element
    #: Whether it has items, which can be dealt to another number of ranks.
    has_items = False

    def __init__(self, registry: Any, name: str, slot: Slot, marker: Variable) -> None:
        self.registry = registry
        self.name = name
        self.slot = slot
        self.marker = marker

    @property
    def is_per_rank(self) -> bool:
        return isinstance(self.marker, PerRank)

    def register(self) -> None:
        """Tells C about the variable. Raises the error of C."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Before every call that may save: brings what C reads to where C reads it."""

    def restored(self) -> None:
        """After a restore: brings the value to where the program reads it."""

    def assign(self, value: Any) -> None:
        """Takes the value that a redistribution made."""
        raise NotImplementedError

    def decode(self, data: bytearray) -> Any:
        """The value that another rank saved, from its bytes."""
        raise NotImplementedError

    def dimensions(self) -> int:
        """How many names of dimensions the variable can have."""
        return 1

    def meaning(self) -> str:
        """What its elements mean, beyond what C knows; it is equal on all ranks. Empty if there is nothing to say."""
        if self.is_per_rank and not self.has_items:
            return ""  # each rank may have a type of its own; items do not, since they can change ranks
        return self.element.meaning()

    def redistribution(self) -> Any:
        """The function of C that makes this rank's value from those of other ranks; NULL if there is none."""
        redistribute = self.marker.redistribute
        kind = CALLBACKS["redistribute_fn"]
        if redistribute is None:
            return kind()
        if redistribute == "in_order":
            if not self.has_items:
                raise UsageError(f"{self.slot.where}: 'in_order' deals the items of growing arrays; pass a function")
            return ctypes.cast(function("in_order"), kind)
        if not callable(redistribute):
            raise UsageError(f"{self.slot.where}: redistribute is {redistribute!r}: pass a function, or 'in_order'")

        def run(pieces: int, rank: int, size: int, _user: Any) -> None:
            self.assign(redistribute(Pieces(pieces, self), rank, size))

        return self.registry.callback("redistribute_fn", run)

    def add(self, kind: str, *arguments: Any) -> None:
        """Calls reprieve_add_replicated<kind> or reprieve_add_per_rank<kind>."""
        if self.is_per_rank:
            self.registry.add(f"add_per_rank{kind}", self.name, *arguments[:-1], self.redistribution(), arguments[-1])
        else:
            self.registry.add(f"add_replicated{kind}", self.name, *arguments)


class Pieces:
    """The values of the ranks that saved: a sequence, of which each is read when it is asked for."""

    def __init__(self, handle: int, entry: Entry) -> None:
        self._handle = handle
        self._entry = entry

    def __len__(self) -> int:
        return function("pieces_count")(self._handle)

    def __getitem__(self, rank: int) -> Any:
        if not 0 <= rank < len(self):
            raise IndexError(f"{rank}: there are {len(self)} ranks that saved")
        size = ctypes.c_size_t()
        self._entry.registry.check(function("pieces_size")(self._handle, rank, ctypes.byref(size)))
        data = bytearray(size.value)
        buffer = (ctypes.c_char * len(data)).from_buffer(data)
        self._entry.registry.check(function("pieces_read")(self._handle, rank, buffer, size))
        del buffer
        return self._entry.decode(data)
