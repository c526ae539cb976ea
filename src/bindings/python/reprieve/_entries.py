# SPDX-License-Identifier: BSD-3-Clause
"""Each variable of the state: its elements as the types of C, how it is registered in C, what C asks of it, and where the
program has it.
"""

from __future__ import annotations

import ctypes
import enum
import math
import operator
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _records, _tensors
from ._errors import UsageError
from ._markers import Custom, Distributed, PerRank, Pickled, Slot, Variable
from ._native import CALLBACKS, CONSTANTS, function, numbers
from ._tensors import array_of, is_on_device, is_torch

_LONG = np.dtype(np.longdouble).itemsize
_NAMES = {f"f{_LONG}": "LONG_DOUBLE", f"c{2 * _LONG}": "COMPLEX_LONG_DOUBLE"}  # of double where there are no longer ones
_NAMES |= {f"i{size}": f"INT{8 * size}" for size in (1, 2, 4, 8)} | {f"u{size}": f"UINT{8 * size}" for size in (1, 2, 4, 8)}
_NAMES |= {"b1": "BOOL", "f2": "HALF", "f4": "FLOAT", "f8": "DOUBLE", "c8": "COMPLEX_FLOAT", "c16": "COMPLEX_DOUBLE"}


class Element:
    """What C knows about the elements of an array.

    Attributes:
        type: the number of the type in C.
        bytes: for what C does not know (structs, texts of a fixed length) how many bytes make an element; they are a
            last dimension of the array then. 0 otherwise.
    """

    def __init__(self, dtype: np.dtype, where: str) -> None:
        self.dtype = dtype
        self.bytes = 0
        if dtype.hasobject:
            raise UsageError(
                f"{where}: an array of Python objects has no bytes that could be saved. Make it an array of numbers, "
                "or wrap it in reprieve.pickled(...)"
            )
        if not dtype.isnative:
            raise UsageError(
                f"{where}: the numbers have the byte order of another machine ({dtype.str}). Convert the array by "
                "array.astype(array.dtype.newbyteorder('='))"
            )
        name = _NAMES.get(f"{dtype.kind}{dtype.itemsize}")
        if dtype.kind in "mM":  # times count in 64 bits
            name = "INT64"
        if name is None:
            name = "BYTE"
            self.bytes = dtype.itemsize
            if self.bytes == 0:
                raise UsageError(f"{where}: elements of the type {dtype} have no bytes: give it a length")
        self.type = CONSTANTS[name]

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """As C takes it."""
        return (*shape, self.bytes) if self.bytes else tuple(shape)

    def arguments(self, pointer: Any, array: np.ndarray) -> tuple[Any, ...]:
        """What functions of C take of an array: its type, where it lies, its dimensions, its shape, and the distances in
        bytes between neighbours; None if these follow from the shape.
        """
        shape, strides = self.shape(array.shape), (*array.strides, 1) if self.bytes else array.strides
        distances = None if array.flags.c_contiguous else numbers(strides, ctypes.c_ssize_t)
        return self.type, pointer, len(shape), numbers(shape), distances

    def meaning(self) -> str:
        """What C does not know of the elements: the fields of structs, the unit of times. Empty for other elements."""
        return _meaning(self.dtype) if self.dtype.names or self.dtype.kind in "mM" else ""


def _meaning(dtype: np.dtype) -> str:
    """A text that is the same for types that lie alike in memory, with every version of numpy (`str(dtype)` is not)."""
    if dtype.subdtype is not None:
        return f"{_meaning(dtype.subdtype[0])} {dtype.shape}"
    if dtype.names is None:
        return dtype.str
    fields = sorted((dtype.fields[name][1], name) for name in dtype.names)
    texts = [f"{ascii(name)}: {_meaning(dtype.fields[name][0])} at {offset}" for offset, name in fields]
    return f"{{{', '.join(texts)}; {dtype.itemsize} bytes}}"


def check_array(array: np.ndarray, where: str) -> None:
    """Raises UsageError for arrays that cannot be saved and restored where they are."""
    if isinstance(array, np.ma.MaskedArray):
        raise UsageError(f"{where}: a masked array is two arrays: save its .data and its .mask, each by its own name")
    if not array.flags.writeable:
        raise UsageError(f"{where}: the array is read-only, so a restore could not write it. Pass a copy: array.copy()")


def address(array: np.ndarray) -> int | None:
    """Of the first element; None if there is none."""
    return array.__array_interface__["data"][0] if array.size else None


class Entry:
    """One variable. `registry` wraps callbacks, and keeps what C holds alive."""

    #: Of arrays and numbers, from `register` on.
    element: Element
    #: How many names of dimensions the variable can have.
    dimensions = 1
    #: Whether it has items, which can be dealt to another number of ranks.
    has_items = False

    def __init__(self, registry: Any, name: str, slot: Slot, marker: Variable) -> None:
        self.registry = registry
        self.name = name
        self.slot = slot
        self.where = slot.where
        self.marker = marker
        self.is_per_rank = isinstance(marker, PerRank)

    def register(self) -> None:
        """Registers the variable in C. Raises the error of C."""
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
                raise UsageError(f"{self.where}: 'in_order' deals the items of growing arrays; pass a function")
            return ctypes.cast(function("in_order"), kind)
        if not callable(redistribute):
            raise UsageError(f"{self.where}: redistribute is {redistribute!r}: pass a function, or 'in_order'")

        def run(pieces: int, rank: int, size: int) -> None:
            self.assign(redistribute(Pieces(pieces, self), rank, size))

        return self.registry.callback("redistribute_fn", run)

    def add(self, kind: str, *arguments: Any) -> None:
        """Calls reprieve_add_replicated<kind> or reprieve_add_per_rank<kind>."""
        if self.is_per_rank:
            self.registry.add(f"add_per_rank{kind}", self.name, *arguments[:-1], self.redistribution(), arguments[-1])
        else:
            self.registry.add(f"add_replicated{kind}", self.name, *arguments)


class Pieces:
    """The values of the ranks that saved: a sequence; each is read when it is asked for."""

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


def layout(array: np.ndarray) -> tuple[Any, ...]:
    """What C knows of an array: it must not change while C has its address."""
    return address(array), array.shape, array.strides, array.dtype


class ArrayEntry(Entry):
    """An array: saved from its memory and restored into it. Another one may take its place, if it lies alike in memory. On
    a device only its address is known.
    """

    def register(self) -> None:
        self.value = self.slot.get()
        self.array = array_of(self.value, self.where)
        check_array(self.array, self.where)
        self.element = Element(self.array.dtype, self.where)
        self.dimensions = len(self.element.shape(self.array.shape))
        self.layout = layout(self.array)
        self.address = ctypes.c_void_p(address(self.array))  # C reads it at every save and restore
        self.had_name = False
        arguments = self.element.arguments(ctypes.addressof(self.address), self.array)
        self.add("_at", *arguments, *[None] * self.is_per_rank)

    def refresh(self) -> None:
        self.find()
        self.find_names()

    def find(self) -> None:
        """The present array, where C reads its address."""
        value = self.slot.get()
        array = array_of(value, self.where)
        if layout(array)[1:] != self.layout[1:]:
            raise UsageError(
                f"{self.where} has another shape, type or memory than when the state was handed over: make an array "
                "like the first one, or say that it may change, reprieve.replicated(value, growing=True)"
            )
        if value is not self.value:
            check_array(array, self.where)
            self.value, self.array, self.had_name = value, array, False
        self.address.value = address(array)

    def find_names(self) -> None:
        """Rank 0 warns of an array that the program has lost: it has bound the name to another one."""
        had_name = self.had_name
        self.had_name = self.value is self.array and sys.getrefcount(self.value) > _REFERENCES_OF_STATE
        if had_name and not self.had_name and self.registry.is_rank_0:
            message = (
                f"{self.where}: only the state still refers to this array. If its name was bound again, the "
                f"checkpoints hold the old array: write into it ({self.where}[...] = value), or use the attributes "
                "of reprieve.State"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=1)

    def assign(self, value: Any) -> None:
        if is_on_device(self.value):
            raise UsageError(
                f"{self.where}: what redistribute returns cannot be put into the memory of a device. Keep the value "
                "on the host, or start on as many ranks as saved it"
            )
        value = np.asarray(value)
        if value.shape != self.array.shape:
            raise UsageError(
                f"{self.where}: redistribute returned an array of the shape {value.shape}, this rank has "
                f"{self.array.shape}"
            )
        self.array[...] = value

    def decode(self, data: bytearray) -> np.ndarray:
        return np.frombuffer(data, self.array.dtype)


def _references_of_state() -> int:
    """How many references to an array there are, as `find_names` counts them, if the state alone has it."""
    entry = object.__new__(ArrayEntry)
    dictionary = {"x": np.zeros(1)}
    entry.value = entry.array = dictionary["x"]
    return sys.getrefcount(entry.value)


_REFERENCES_OF_STATE = _references_of_state()


class TensorEntry(ArrayEntry):
    """A tensor of PyTorch: an array in the memory of both. A model gives another object for the same memory at each time."""

    def refresh(self) -> None:
        value = self.slot.get()
        if not is_torch(value, "Tensor") or layout(array_of(value, self.where)) != self.layout:
            raise UsageError(
                f"{self.where} has another shape, type or memory than when the state was handed over: write into the "
                f"first tensor, {self.where}.copy_(value)"
            )


class ScalarEntry(Entry):
    """A number of Python or numpy. It cannot be changed in place, so C has a copy."""

    KINDS: dict[Any, Any] = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}

    def register(self) -> None:
        value = self.slot.get()
        self.python = None if isinstance(value, np.generic) else type(value)
        base = next((kind for kind in self.KINDS if isinstance(value, kind)), None)
        self.copy = np.zeros((), value.dtype if self.python is None else self.KINDS[base])
        self.element = Element(self.copy.dtype, self.where)
        self.convert: Callable[[Any], Any] = self.copy.dtype.type
        if self.python is not None and base is int:
            self.convert = operator.index
        self.refresh()
        self.add("", *self.element.arguments(address(self.copy), self.copy), *[None] * self.is_per_rank)

    def refresh(self) -> None:
        value = self.slot.get()
        try:
            if value is None or isinstance(value, (str, bytes)) or self.copy.dtype == bool and not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"it is {value!r} now")
            self.assign(value)
        except (TypeError, ValueError, OverflowError) as error:
            kind = self.python.__name__ if self.python else f"np.{self.copy.dtype}"
            hint = ": an int has 64 bits here, larger ones stand in a list" if isinstance(error, OverflowError) else ""
            raise UsageError(f"{self.where} was registered as {kind}, and is no such number: {error}{hint}") from error

    def restored(self) -> None:
        self.slot.set(self.copy[()] if self.python is None else self.python(self.copy[()]))

    def assign(self, value: Any) -> None:
        """Makes it the copy. Raises an error if that is not exactly the same number."""
        before = self.copy[()]
        with np.errstate(all="ignore"):  # what does not fit is an error below
            self.copy[()] = self.convert(value)
        if type(value) is self.python or isinstance(value, np.generic) and value.dtype == self.copy.dtype:
            return  # as it was registered
        if not _is_same(self.copy[()], value):
            narrow = not self.python and self.copy.dtype.kind not in "mM"
            kind = f". Write np.{self.copy.dtype}(value) if it may be rounded" if narrow else ""
            self.copy[()] = before
            raise ValueError(f"{value!r} does not fit{kind}")

    def decode(self, data: bytearray) -> Any:
        return np.frombuffer(data, self.copy.dtype)[0]


def _is_same(stored: Any, value: Any) -> bool:
    """Whether a conversion has lost nothing. What is not a number is the same as itself."""
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":
        value = value.item()  # numpy compares whole numbers with real ones after rounding, Python does not
    if stored.dtype.kind not in "mM":
        stored = stored.item()
    return bool(stored == value) or bool(stored != stored and value != value)


class GrowingEntry(Entry):
    """A numpy array whose first dimension may have another length after a restore."""

    has_items = True

    def register(self) -> None:
        array = self.slot.get()
        if type(array) is not np.ndarray or array.ndim == 0:
            raise UsageError(f"{self.where}: only numpy arrays with a dimension or more, on the host, can be growing")
        self.dtype = array.dtype
        self.item = array.shape[1:]
        self.element = Element(array.dtype, self.where)
        elements = math.prod(self.element.shape(self.item))
        if elements == 0:
            raise UsageError(f"{self.where}: an item of the shape {self.item} has no elements")
        self.dimensions = 1 if elements == 1 else 2
        self.memory(-1)
        self.add("_resizable", self.element.type, elements, self.registry.callback("memory_fn", self.tell), None)

    def memory(self, wanted: int) -> np.ndarray:
        array = self.slot.get()
        if wanted >= 0 and not (isinstance(array, np.ndarray) and len(array) == wanted):
            array = np.zeros((wanted, *self.item), self.dtype)
            self.slot.set(array)
        if not isinstance(array, np.ndarray) or array.dtype != self.dtype or array.shape[1:] != self.item:
            found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise UsageError(
                f"{self.where} was an array of {self.dtype} with items of the shape {self.item}, and is {found} now"
            )
        check_array(array, self.where)
        if not array.flags.c_contiguous:
            raise UsageError(f"{self.where}: a growing array must be contiguous: np.ascontiguousarray(array)")
        return array

    def tell(self, wanted: int, data: Any, count: Any) -> None:
        self.present = self.memory(wanted)  # stays alive until the next question
        data[0] = address(self.present)
        count[0] = len(self.present)

    def assign(self, value: Any) -> None:
        self.slot.set(np.ascontiguousarray(value, self.dtype).reshape(-1, *self.item))

    def decode(self, data: bytearray) -> np.ndarray:
        return np.frombuffer(data, self.dtype).reshape(-1, *self.item)


class BytesEntry(Entry):
    """A value that is turned into bytes and back: texts, bytes, records, generators, and what the program turns itself."""

    def register(self) -> None:
        self.incoming: bytearray | None = None
        self.outgoing: bytearray | None = None
        self.kind = _kind_of(self.slot.get())
        self.is_packed = self.kind.endswith(_STATE_DICT)
        self.is_text = not self.is_packed and self.kind not in ("bytes", "pickled", "custom")
        self.encode()  # what cannot be saved fails at once
        element_type = CONSTANTS["CHAR" if self.is_text else "BYTE"]
        self.add("_resizable", element_type, 1, self.registry.callback("memory_fn", self.tell), None)

    def meaning(self) -> str:
        return ""  # the bytes contain it

    def encode(self) -> bytes | bytearray:
        value, where = self.slot.get(), self.where
        try:
            if self.is_packed:
                return _records.pack(value.state_dict(), f"{where}.state_dict()")
            if isinstance(value, Custom):
                return bytes(value.save())
            if isinstance(value, Pickled):
                return pickle.dumps(value.value)
            if isinstance(value, enum.Enum):
                if value.name not in type(value).__members__:
                    raise UsageError(f"{where}: {value!r} has no name: save its value")
                return value.name.encode()
            return bytes(value) if self.kind == "bytes" else _records.to_text(value, where)
        except RecursionError as error:
            raise UsageError(f"{where}: the value contains itself, or values in values too deep: {error}") from error
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            if not isinstance(value, Pickled):
                raise
            raise UsageError(f"{where}: the value cannot be pickled: {error}") from error

    def refresh(self) -> None:
        self.outgoing = None
        kind = _kind_of(self.slot.get())
        if kind != self.kind and (self.kind, kind) != (_PLAIN, "bytes"):  # bytes can stand in a list, too
            raise UsageError(
                f"{self.where} was registered as {self.kind}, and is {kind} now: a restart could not make that of it"
            )

    def tell(self, wanted: int, data: Any, count: Any) -> None:
        if wanted >= 0:
            present = self.incoming = bytearray(wanted)
        else:
            if self.outgoing is None:  # the same bytes for the whole of a save
                content = self.encode()  # a bytearray if it is large: not copied
                self.outgoing = content if isinstance(content, bytearray) else bytearray(content)
            present = self.outgoing
        data[0] = ctypes.addressof((ctypes.c_char * len(present)).from_buffer(present))
        count[0] = len(present)

    def restored(self) -> None:
        data, self.incoming = self.incoming, None
        if data is not None:
            self.assign(self.decode(data))

    def assign(self, value: Any) -> None:
        """Makes it the value: in place where it can be."""
        self.incoming = self.outgoing = None
        present = self.slot.get()
        if self.is_packed:
            present.load_state_dict(value)
        elif isinstance(present, Custom):
            present.load(value)
        elif isinstance(present, Pickled):
            present.value = value
        elif (generator := _records.generator_of(present)) is not None:
            generator[2](value)
        elif isinstance(present, bytearray) or isinstance(present, list) and isinstance(value, list):
            present[:] = value
        else:
            self.slot.set(value)

    def decode(self, data: Any) -> Any:
        if self.is_packed:
            return _records.unpack(data)
        if isinstance(self.slot.get(), Pickled):
            return pickle.loads(data)
        if not self.is_text:
            return bytes(data)
        if isinstance(self.slot.get(), enum.Enum):
            return _member(type(self.slot.get()), bytes(data).decode(), self.where)
        return _records.from_text(bytes(data))


#: Values that are stored as a text, which says what it is.
_PLAIN = "a text, a list or None"
#: Ends the kind of values that return their state by themselves.
_STATE_DICT = " with a state_dict()"


def _member(kind: type[enum.Enum], text: str, where: str) -> enum.Enum:
    """Versions before 1.0 stored the value of a member that is a text."""
    for member in kind:
        if text in (member.name, member.value):
            return member
    raise UsageError(f"{where}: the checkpoint has {text!r}, which is no member of {kind.__name__}")


def _kind_of(value: Any) -> str:
    """Which values can replace each other between a save and a restore."""
    if isinstance(value, enum.Enum):
        return f"a member of {type(value).__name__}"
    if type(value) in (bytes, bytearray):
        return "bytes"
    if isinstance(value, (Pickled, Custom)):
        return type(value).__name__.lower()
    if _tensors.has_state_dict(value):
        return type(value).__name__ + _STATE_DICT
    generator = _records.generator_of(value)
    return generator[0] if generator else _PLAIN


#: Arrays, and where each of them lies in that of all ranks.
Boxes = list[tuple[np.ndarray, tuple[int, ...]]]


def memory_of(boxes: Boxes) -> set[int | None]:
    """Where those boxes begin that have elements. A file that is mapped again for each answer lies elsewhere each time, and
    is the same memory: it is left out."""
    return {address(array) for array, _ in boxes if array.size and getattr(array, "filename", None) is None}


class DistributedEntry(Entry):
    """A rank's boxes of an array of all ranks: asked for at every save and restore."""

    marker: Distributed

    def register(self) -> None:
        marker = self.marker
        dtype = marker.dtype
        if dtype is None:
            array = array_of(marker.value, self.where)
            if not isinstance(array, np.ndarray):
                raise UsageError(f"{self.where}: say dtype=... where the value of distributed() is a function")
            dtype = array.dtype
        self.element = Element(np.dtype(dtype), self.where)
        shape = self.element.shape(marker.shape)
        self.dimensions = len(shape)
        self.in_place: Any = None  # the function that was seen to return the memory of the program
        self.present: Boxes = []
        self.boxes()  # what is wrong with them fails at once
        arguments = (self.element.type, len(shape), numbers(shape), self.registry.callback("describe_fn", self.describe))
        self.registry.add("add_distributed_boxes", self.name, *arguments, None)
        if marker.shared:
            self.registry.add("allow_shared", self.name)
        if marker.numbering:
            self.registry.add("add_constant", f"numbering of {self.name}", marker.numbering)

    def refresh(self) -> None:
        self.present = []

    def restored(self) -> None:
        if self.present:  # else the checkpoint did not have it
            self.marker.scatter()
        self.present = []  # PETSc sees what was written into a vector when the view of it has ended

    def boxes(self) -> Boxes:
        """The boxes that this rank has now, without ghost layers, each with its offset. Checks them."""
        value = self.marker.value
        if not callable(value):
            return self.boxes_of(value)
        boxes = self.boxes_of(value())
        if value is not self.in_place and memory_of(boxes):
            # Two answers of a function, both alive, lie in the same memory, unless the function makes copies.
            if memory_of(boxes) != memory_of(self.boxes_of(value())):
                raise UsageError(
                    f"{self.where}: the function returns a copy: a restore would fill that, and not the array; return "
                    "the array itself, or a view of it"
                )
            self.in_place = value
        return boxes

    def boxes_of(self, value: Any) -> Boxes:
        """The same of what a function returned."""
        given = value if isinstance(value, (list, tuple)) else [(value, self.marker.offset)]
        return [(self.interior(array), self.offset(offset)) for array, offset in given]

    def offset(self, offset: Any) -> tuple[int, ...]:
        if offset is None:
            raise UsageError(f"{self.where}: say offset=..., where this rank's box lies in the array of all ranks")
        if len(offset) != len(self.marker.shape):
            raise UsageError(
                f"{self.where}: the offset {tuple(offset)} has another number of dimensions than the shape "
                f"{self.marker.shape}"
            )
        return tuple(int(each) for each in offset)

    def interior(self, array: Any) -> np.ndarray:
        where = self.where
        array = array_of(array, where)
        if not isinstance(array, np.ndarray) or array.dtype != self.element.dtype:
            found = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
            raise UsageError(f"{where} is distributed as an array of {self.element.dtype}, and is {found} now")
        check_array(array, where)
        ghost = self.marker.ghost
        if array.ndim != len(self.marker.shape) or array.ndim != len(ghost):
            raise UsageError(
                f"{where}: the array has the shape {array.shape}, that of all ranks {self.marker.shape}, and "
                f"{len(ghost)} ghost layers are given: all need the same number of dimensions"
            )
        if any(before + after > size for (before, after), size in zip(ghost, array.shape)):
            raise UsageError(f"{where}: the array of the shape {array.shape} is smaller than its ghost layers {ghost}")
        inner = tuple(slice(before, size - after) for (before, after), size in zip(ghost, array.shape))
        return array[inner]

    def describe(self, boxes: int) -> None:
        if not self.present:  # a restore asks again when it has filled what the first answer named
            self.marker.gather()
        boxes_now = self.boxes()
        self.present += boxes_now  # they stay alive for the whole of a save
        for array, offset in boxes_now:
            begin = numbers((*offset, 0) if self.element.bytes else offset)
            _, pointer, _, extent, strides = self.element.arguments(address(array), array)
            self.registry.check(function("boxes_add")(boxes, pointer, begin, extent, strides))


def make_entry(registry: Any, name: str, slot: Slot, marker: Variable) -> Entry:
    """The entry for a value, by its type."""
    value = slot.get()
    if isinstance(marker, Distributed):
        return DistributedEntry(registry, name, slot, marker)
    if marker.growing:
        return GrowingEntry(registry, name, slot, marker)
    if is_torch(value, "Tensor"):
        return TensorEntry(registry, name, slot, marker)
    if isinstance(value, np.ndarray) or is_on_device(value):
        return ArrayEntry(registry, name, slot, marker)
    is_numpy = isinstance(value, np.generic) and not isinstance(value, (str, bytes))
    is_number_with_name = isinstance(value, enum.Enum) and isinstance(value, (int, float, complex))
    if type(value) in ScalarEntry.KINDS or is_numpy or is_number_with_name:
        return ScalarEntry(registry, name, slot, marker)
    return BytesEntry(registry, name, slot, marker)
