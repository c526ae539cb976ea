# SPDX-License-Identifier: BSD-3-Clause
"""Arrays in the memory of a device, as numpy sees their shape: by ``__cuda_array_interface__`` (CuPy, Numba, PyTorch)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._errors import UsageError


class _Memory:
    """Tells numpy where an array lies. The array of numpy that is made of it keeps it alive, and so the owner."""

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def is_on_device(value: Any) -> bool:
    """Whether it is an array that tells where on a device it lies."""
    if isinstance(value, np.ndarray):
        return False
    try:
        return hasattr(value, "__cuda_array_interface__")
    except RuntimeError:  # a parameter of PyTorch that is on a device: it tells where only when it is detached
        return True


def as_array(value: Any, where: str) -> Any:
    """An array of numpy with the address, the shape and the strides of an array on a device; anything else as it is.

    The elements of such an array must not be touched: the host cannot reach them.
    """
    if not is_on_device(value):
        return value
    told = value.__cuda_array_interface__
    if told.get("mask") is not None:
        raise UsageError(f"{where}: a masked array is two arrays: save its data and its mask, each by its own name")
    address, read_only = told["data"]
    shape = tuple(int(length) for length in told["shape"])
    dtype = np.dtype(told["typestr"])
    if dtype.kind == "V" and told.get("descr"):
        dtype = np.dtype(told["descr"])
    if 0 in shape:
        return np.empty(shape, dtype)
    if read_only:
        raise UsageError(f"{where}: the array is read-only, so a restore could not write it. Pass a copy: array.copy()")
    interface = {
        "version": 3,
        "typestr": told["typestr"],
        "shape": shape,
        "strides": told.get("strides"),
        "data": (int(address), False),
    }
    return np.asarray(_Memory(value, interface)).view(dtype)
