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


def _data_of(variable: Any) -> Any:
    """Its values, or what reads them; None for what xarray cannot show."""
    is_per_rank, is_array_of_texts = variable.kind == "per_rank", variable._entry.get("texts")
    if variable.dtype.kind in "SV" and not variable.dtype.names:
        if is_per_rank or not (is_array_of_texts or variable._entry["class"] == "text"):
            return None  # bytes may be many: they are not read to be left out
        value = variable.value  # of Python's own values some are stored as a text
        return np.array(value, dtype=object) if is_array_of_texts or isinstance(value, str) else None
    if is_per_rank:
        extents, ranks = {box.extent for box in variable.boxes}, variable._file.world_size
        if len(extents) != 1 or len(variable.boxes) != ranks:
            return None
        return variable[...].reshape(ranks, *extents.pop())
    return indexing.LazilyIndexedArray(_Lazy(variable)) if variable.shape else variable[...]


def _variable_of(variable: Any) -> Any:
    """A Variable of xarray; None for bytes, and for values of ranks that have several shapes."""
    data = _data_of(variable)
    if data is None:
        return None
    attributes = {"units": variable.units, "long_name": variable.description}
    attributes = {name: text for name, text in attributes.items() if text}
    plain, ranks = variable.name.replace("/", "_"), ["rank"] if variable.kind == "per_rank" else []
    dims = ranks + (list(variable.dims) or [f"{plain}_{d}" for d in range(data.ndim - len(ranks))])
    return xarray.Variable(dims, data, attributes) if len(dims) == data.ndim else None


def dataset_of(checkpoint: Any) -> Any:
    """See `StoredCheckpoint.to_xarray`."""
    found = ((name, _variable_of(checkpoint[name])) for name in checkpoint)
    variables = {name: each for name, each in found if each is not None}
    named = {dim: size for each in variables.values() for dim, size in zip(each.dims, each.shape)}
    coordinates = {
        name: xarray.Variable([name], each.values, each.attrs)
        for name, each in variables.items()
        if each.shape == (named.get(name),)
    }
    variables = {name: each for name, each in variables.items() if name not in coordinates}
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
