# SPDX-License-Identifier: BSD-3-Clause
"""A checkpoint as a Dataset of xarray."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from . import _layout, _reader


class _Lazy(BackendArray):
    """Elements of a variable, read when they are asked for."""

    def __init__(self, variable: Any) -> None:
        self.variable = variable
        self.shape = variable.shape
        self.dtype = variable.dtype

    def __getitem__(self, key: Any) -> np.ndarray:
        read = self.variable.__getitem__
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, read)


def _arrays_of_ranks(variable: Any) -> np.ndarray | None:
    """The values of all ranks as one array, if they have one shape."""
    extents = {box.extent for box in variable.boxes}
    if len(extents) != 1 or len(variable.boxes) != variable._file.world_size:
        return None
    return variable[...].reshape(variable._file.world_size, *extents.pop())


def _texts(variable: Any) -> np.ndarray | None:
    """A text, or an array of texts; None for what is none, and for values of Python that are stored as one."""
    is_array = variable._entry.get("texts")
    if variable.kind == "per_rank" or not (is_array or variable._entry["class"] == "text"):
        return None  # bytes may be many: they are not read to be left out
    value = variable.value
    return np.array(value, dtype=object) if is_array or isinstance(value, str) else None


def _variable_of(variable: Any) -> Any:
    """A Variable of xarray; None for bytes, and for values of ranks that have several shapes."""
    texts = None
    if variable.dtype.kind in "SV" and not variable.dtype.names:
        texts = _texts(variable)
        if texts is None:
            return None
    attributes = {"units": variable.units, "long_name": variable.description}
    attributes = {name: text for name, text in attributes.items() if text}
    plain = variable.name.replace("/", "_")
    dims = list(variable.dims)
    if variable.kind == "per_rank":
        data: Any = _arrays_of_ranks(variable)
        if data is None:
            return None
        dims = dims or [f"{plain}_{d}" for d in range(data.ndim - 1)]
        return xarray.Variable(["rank", *dims], data, attributes)
    shape = variable.shape if texts is None else texts.shape
    dims = dims or [f"{plain}_{d}" for d in range(len(shape))]
    if len(dims) != len(shape):
        return None
    if texts is not None:
        return xarray.Variable(dims, texts, attributes)
    data = indexing.LazilyIndexedArray(_Lazy(variable)) if variable.shape else variable[...]
    return xarray.Variable(dims, data, attributes)


def dataset_of(checkpoint: Any) -> Any:
    """See `StoredCheckpoint.to_xarray`."""
    variables = {name: _variable_of(checkpoint[name]) for name in checkpoint}
    variables = {name: each for name, each in variables.items() if each is not None}
    named = {dim: size for each in variables.values() for dim, size in zip(each.dims, each.shape)}
    coordinates = {
        name: variables.pop(name)
        for name in list(variables)
        if name in named and variables[name].shape == (named[name],)
    }
    for name, each in list(coordinates.items()):
        coordinates[name] = xarray.Variable([name], each.values, each.attrs)
    attributes = {"number": checkpoint.number, "world_size": checkpoint.world_size, "reason": checkpoint.reason}
    return xarray.Dataset(variables, coordinates, attributes)


class Backend(BackendEntrypoint):
    """`xarray.open_dataset("ckpt-120.h5")`, which finds this class by the entry point of the package."""

    description = "Checkpoints of Reprieve"
    open_dataset_parameters = ("filename_or_obj", "drop_variables")

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        return isinstance(filename_or_obj, (str, os.PathLike)) and _layout.is_checkpoint(filename_or_obj)

    def open_dataset(self, filename_or_obj: Any, *, drop_variables: Any = None) -> Any:
        with _reader.open(filename_or_obj) as checkpoint:
            return checkpoint.to_xarray().drop_vars(drop_variables or [], errors="ignore")
