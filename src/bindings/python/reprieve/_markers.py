# SPDX-License-Identifier: BSD-3-Clause
"""What a program says of a value of its state: its kind and its meaning; where the program has it."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._errors import UsageError

#: What makes a rank's value from those of the ranks that saved: (values by saved rank, rank, size) -> value.
Redistribute = Callable[[Sequence[Any], int, int], Any]


@dataclasses.dataclass
class Variable:
    """A value of the state, and what is said of it. Made by the functions of this module.

    Attributes:
        value: the value. A program that makes a new one puts it here.
        units: of numbers, "m/s"; for those who read the file.
        description: one line about it, for the same.
        dims: the names of the dimensions, slowest first.
        may_be_missing: a checkpoint without it leaves the value as it is.
        former_names: names that older versions of the program gave it.
        growing: see `replicated`.
    """

    value: Any
    units: str = ""
    description: str = ""
    dims: Sequence[str] = ()
    may_be_missing: bool = False
    former_names: Sequence[str] = ()
    growing: bool = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = np.asarray(self.value, dtype=dtype)
        return array.copy() if copy else array


@dataclasses.dataclass
class PerRank(Variable):
    """See `per_rank`."""

    redistribute: Redistribute | str | None = None


@dataclasses.dataclass
class Distributed(Variable):
    """See `distributed`."""

    shape: tuple[int, ...] = ()
    offset: tuple[int, ...] | None = None
    ghost: tuple[tuple[int, int], ...] = ()
    dtype: Any = None
    shared: bool = False
    numbering: str = ""  #: a checkpoint with another one is a MismatchError

    def gather(self) -> None:
        """Called before each save and restore: fills `value`, if the program has the elements elsewhere. Collective."""

    def scatter(self) -> None:
        """Called after a restore: takes the elements from `value` back. Collective."""


@dataclasses.dataclass
class Pickled:
    """See `pickled`."""

    value: Any


@dataclasses.dataclass
class Custom:
    """See `custom`."""

    save: Callable[[], bytes]
    load: Callable[[bytes], None]


def replicated(value: Any, *, growing: bool = False, **about: Any) -> Variable:
    """A value that is equal on all ranks: rank 0's is written, every rank restores it.

    Values that stand in the state without anything around them are of this kind. The function is there to say more
    of one.

    Args:
        value: a number, a text, bytes, a numpy array of any shape and strides, a random generator, a list, or a
            dictionary of these.
        growing: an array whose first dimension may have another length in the checkpoint: a restore then makes a new
            array. It has to be contiguous.
        **about: units, description, dims, may_be_missing, former_names; see `Variable`.
    """
    return Variable(value, growing=growing, **about)


def per_rank(
    value: Any, *, growing: bool = False, redistribute: Redistribute | str | None = None, **about: Any
) -> PerRank:
    """A value that every rank has for itself; shapes may differ between the ranks.

    Args:
        value: as for `replicated`.
        growing: as for `replicated`: lists of particles.
        redistribute: what becomes of the values on another number of ranks. A function that is called on every rank
            with the values of the ranks that saved, this rank and the number of ranks, and returns the value of this
            rank; or "in_order", for growing arrays alone, which cuts them, one after the other, into even parts. Without one
            a restart on another number of ranks is a `MismatchError`.
        **about: as for `replicated`.
    """
    return PerRank(value, growing=growing, redistribute=redistribute, **about)


def _pairs(ghost: Any, dimensions: int) -> tuple[tuple[int, int], ...]:
    each_dimension = ghost if hasattr(ghost, "__len__") else (ghost,) * dimensions
    pairs = []
    for each in each_dimension:
        before, after = map(operator.index, each if hasattr(each, "__len__") else (each, each))
        if before < 0 or after < 0:
            raise UsageError(f"ghost is {ghost!r}: there cannot be fewer than 0 ghost layers")
        pairs.append((before, after))
    return tuple(pairs)


def distributed(
    value: Any,
    *,
    shape: Sequence[int],
    offset: Sequence[int] | None = None,
    ghost: Any = 0,
    dtype: Any = None,
    shared: bool = False,
    **about: Any,
) -> Distributed:
    """One array of all ranks: this rank has a box of it, or several. Restored on any number of ranks.

    Args:
        value: the array of this rank, ghost layers included, of any strides. Or a function that is asked at each save and
            restore, and returns the present array, or a list of pairs (array, offset): any number of boxes. It returns
            the arrays of the program or views of them, no copies: a restore writes into what it returns.
        shape: of the whole array, in elements, slowest-varying dimension first.
        offset: where the first element of this rank's box lies in it. Not used if `value` gives boxes with their own.
        ghost: layers around the box that are not saved: a number, or one for each dimension, or a pair (before, after)
            for each.
        dtype: of the elements; needed only if `value` is a function.
        shared: boxes may overlap (nodes on the border of two ranks).
        **about: as for `replicated`.
    """
    whole = tuple(int(extent) for extent in shape)
    start = None if offset is None else tuple(int(each) for each in offset)
    return Distributed(
        value, shape=whole, offset=start, ghost=_pairs(ghost, len(whole)), dtype=dtype, shared=shared, **about
    )


def pickled(value: Any) -> Pickled:
    """A value of any type, stored by pickle.

    Reading pickled bytes can run any code: use it only for checkpoints in directories that nobody else can write to.
    Put it into the state, or into `per_rank(...)`; the value is `.value` of what this returns, and a restore makes a new
    one. In the state by itself it has to be as long on all ranks, though pickles of equal values may differ in that:
    `per_rank(pickled(value))` where they do.
    """
    return Pickled(value)


def custom(save: Callable[[], bytes], load: Callable[[bytes], None]) -> Custom:
    """A value that two functions save as bytes and load again. `load` must raise for bytes that it does not know."""
    return Custom(save, load)


class State:
    """The state of a program, whose attributes are its values. A name that is bound again is seen.

        state = reprieve.State(order=rng.permutation(n), time=0.0)
        state.order = rng.permutation(n)  # is in the next checkpoint

    The attribute of a value in `replicated`, `per_rank` or `distributed` is the value itself; what is said of it stays.

    Args:
        dictionary: shows the values of this dictionary, and changes them there. None: of one of its own.
        **values: more of them, by name.
    """

    def __init__(self, dictionary: dict[str, Any] | None = None, **values: Any) -> None:
        object.__setattr__(self, "_dictionary", {} if dictionary is None else dictionary)
        for name, value in values.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        dictionary = object.__getattribute__(self, "_dictionary")
        if name not in dictionary:
            raise AttributeError(f"there is no '{name}' in the state: it has {', '.join(map(repr, dictionary))}")
        value = dictionary[name]
        if isinstance(value, Variable):
            return value.value
        return State(value) if type(value) is dict else value

    def __setattr__(self, name: str, value: Any) -> None:
        present = self._dictionary.get(name)
        if isinstance(present, Variable) and not isinstance(value, Variable):
            present.value = value
        else:
            self._dictionary[name] = dictionary_of(value)

    def __dir__(self) -> list[str]:
        return list(self._dictionary)


def dictionary_of(state: Any) -> Any:
    """That of a `State`; anything else as it is."""
    return object.__getattribute__(state, "_dictionary") if isinstance(state, State) else state


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
        """What is there now."""
        return self.holder.value if self.key is None else self.holder.dictionary[self.key]

    def set(self, value: Any) -> None:
        if self.key is None:
            self.holder.value = value
        else:
            self.holder.dictionary[self.key] = value


class Node(Slot):
    """A dictionary of the state. The program may replace it by another one with the same keys.

    Attributes:
        dictionary: the one that is there at present.
    """

    def __init__(self, dictionary: dict[Any, Any], parent: Node | None, key: str, where: str) -> None:
        super().__init__(parent, key, where)
        self.dictionary = dictionary
        self.keys = set(dictionary)
        self.markers = {key: value for key, value in dictionary.items() if isinstance(value, Variable)}

    def contains_itself(self) -> bool:
        """Whether it is one of those in which it stands."""
        outer = self.holder
        while outer is not None and outer.dictionary is not self.dictionary:
            outer = outer.holder
        return outer is not None

    def get(self) -> Any:
        return self.dictionary if self.holder is None else super().get()

    def find(self) -> dict[Any, Any]:
        """The present dictionary. Raises UsageError if there is none."""
        present = self.get()
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
                where = f"{self.where}[{key!r}]"
                raise UsageError(f"{where} was replaced: put the new value into {where}.value")
