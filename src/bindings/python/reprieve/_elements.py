# SPDX-License-Identifier: BSD-3-Clause
"""Elements of numpy arrays as the types of C."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ._errors import UsageError
from ._native import CONSTANTS, numbers

_NAMES = {
    "i1": "INT8",
    "i2": "INT16",
    "i4": "INT32",
    "i8": "INT64",
    "u1": "UINT8",
    "u2": "UINT16",
    "u4": "UINT32",
    "u8": "UINT64",
    "b1": "BOOL",
    "f2": "HALF",
    "f4": "FLOAT",
    "f8": "DOUBLE",
    "c8": "COMPLEX_FLOAT",
    "c16": "COMPLEX_DOUBLE",
    f"f{np.dtype(np.longdouble).itemsize}": "LONG_DOUBLE" if np.dtype(np.longdouble).itemsize > 8 else "DOUBLE",
    f"c{np.dtype(np.clongdouble).itemsize}": "COMPLEX_LONG_DOUBLE"
    if np.dtype(np.longdouble).itemsize > 8
    else "COMPLEX_DOUBLE",
}


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

    def strides(self, array: np.ndarray) -> Any:
        """The distances in bytes between neighbours, as C takes them; None if they follow from the shape."""
        if array.flags.c_contiguous:
            return None
        return numbers((*array.strides, 1) if self.bytes else array.strides, ctypes.c_ssize_t)

    def offset(self, offset: tuple[int, ...]) -> tuple[int, ...]:
        """The same for an offset in a global array."""
        return (*offset, 0) if self.bytes else tuple(offset)

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
