# SPDX-License-Identifier: BSD-3-Clause
"""Where the program has the values of its state."""

from __future__ import annotations

from typing import Any

from ._errors import UsageError
from ._markers import Variable


class Node:
    """A dictionary of the state. The program may put another one with the same keys into its place.

    Attributes:
        dictionary: the one that is there at present.
    """

    def __init__(self, dictionary: dict[Any, Any], parent: Node | None, key: str, where: str) -> None:
        self.dictionary = dictionary
        self.parent = parent
        self.key = key
        self.where = where
        self.keys = set(dictionary)
        self.markers = {key: value for key, value in dictionary.items() if isinstance(value, Variable)}

    def contains_itself(self) -> bool:
        """Whether it is one of those in which it stands."""
        outer = self.parent
        while outer is not None and outer.dictionary is not self.dictionary:
            outer = outer.parent
        return outer is not None

    def present(self) -> Any:
        """What stands at its place now."""
        return self.dictionary if self.parent is None else self.parent.dictionary[self.key]

    def find(self) -> dict[Any, Any]:
        """The present dictionary. Raises UsageError if there is none any more."""
        present = self.present()
        if not isinstance(present, dict):
            raise UsageError(
                f"{self.where} was a dictionary when the state was handed over, and is a {type(present).__name__} now"
            )
        return present

    def restored(self) -> None:
        """After a restore, when its values are there."""

    def refresh(self) -> None:
        """Finds the present dictionary. Raises UsageError if it has other keys, or other markers."""
        self.dictionary = self.find()
        if self.dictionary.keys() != self.keys:
            changed = ", ".join(sorted(map(repr, self.dictionary.keys() ^ self.keys)))
            raise UsageError(
                f"{self.where} has {len(self.dictionary)} entries, and had {len(self.keys)} when it was handed over "
                f"({changed}): put all of them in before, or those that come and go into a list or into "
                "reprieve.pickled({...})"
            )
        for key, marker in self.markers.items():
            if self.dictionary[key] is not marker:
                place = f"{self.where}[{key!r}]"
                raise UsageError(f"{place} was replaced: put the new value into {place}.value")


class Slot:
    """Where the program has a value: under a key of a dictionary, or in the attribute `value` of a marker.

    Attributes:
        holder: the marker; or the `Node` of the dictionary, with the key.
    """

    def __init__(self, holder: Any, key: str | None, where: str) -> None:
        self.holder = holder
        self.key = key
        self.where = where

    def get(self) -> Any:
        return self.holder.value if self.key is None else self.holder.dictionary[self.key]

    def set(self, value: Any) -> None:
        if self.key is None:
            self.holder.value = value
        else:
            self.holder.dictionary[self.key] = value
