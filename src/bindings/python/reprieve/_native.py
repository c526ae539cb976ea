# SPDX-License-Identifier: BSD-3-Clause
"""The shared library: where it is, and the types of its functions, which ``_c_interface`` has from the headers of C."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from typing import Any

from . import _c_interface as described
from ._errors import Error, error_of, with_message_code

CONSTANTS: dict[str, int] = described.CONSTANTS
OK = CONSTANTS["OK"]
PREEMPTED = CONSTANTS["PREEMPTED"]
NO_LIMIT = 2**64 - 1

#: Communicators are addresses with Open MPI, and integers with MPICH.
MPI_COMM: Any = ctypes.c_void_p if described.IS_OPEN_MPI else ctypes.c_int

_TYPES: dict[str, Any] = {
    "void": None,
    "int": ctypes.c_int,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "const char*": ctypes.c_char_p,
    "int*": ctypes.POINTER(ctypes.c_int),
    "int64_t*": ctypes.POINTER(ctypes.c_int64),
    "double*": ctypes.POINTER(ctypes.c_double),
    "void**": ctypes.POINTER(ctypes.c_void_p),
    "MPI_Comm": MPI_COMM,
}


def _type(text: str) -> Any:
    if text not in _TYPES:
        if not text.endswith("*"):
            raise NotImplementedError(f"_native.py does not say what the type '{text}' of C is")
        return ctypes.c_void_p
    return _TYPES[text]


def _make_struct(name: str) -> type[ctypes.Structure]:
    fields = [(member, _type(text)) for member, text in described.STRUCTS[name]]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


CheckpointInfoStruct = _make_struct("reprieve_checkpoint_info")
SaveReportStruct = _make_struct("reprieve_save_report")
NoticeStruct = _make_struct("reprieve_notice")

#: Types of callbacks, by their names in C without `reprieve_`.
CALLBACKS: dict[str, Any] = {}
for _name, (_returned, _arguments) in described.CALLBACKS.items():
    CALLBACKS[_name.removeprefix("reprieve_")] = ctypes.CFUNCTYPE(_type(_returned), *map(_type, _arguments))
    _TYPES[_name] = CALLBACKS[_name.removeprefix("reprieve_")]


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library, loaded when it is first needed: reading files needs none."""
    folder = pathlib.Path(__file__).resolve().parent
    name = pathlib.Path(described.INSTALLED_LIBRARY).name
    places = (folder / name, folder / described.INSTALLED_LIBRARY)
    file = os.environ.get("REPRIEVE_LIBRARY") or next((str(place) for place in places if place.exists()), name)
    try:
        loaded = ctypes.CDLL(file)
    except OSError as error:
        message = (
            f"the shared library of Reprieve cannot be loaded: {error}. Install it (Debian: libreprieve1.0), or "
            "name its file in the environment variable REPRIEVE_LIBRARY"
        )
        raise ImportError(with_message_code(message)) from error
    loaded.reprieve_version.restype = ctypes.c_char_p
    version = loaded.reprieve_version().decode()
    if version != described.VERSION:
        message = (
            f"the shared library {file} is of version {version}, and the Python module of {described.VERSION}: "
            "both have to be of one version"
        )
        raise ImportError(with_message_code(message))
    for name, (returned, arguments) in described.FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype = _type(returned)
        function.argtypes = [_type(text) for text in arguments]
    return loaded


def function(name: str) -> Any:
    """A function of C by its name without `reprieve_`."""
    return getattr(library(), "reprieve_" + name)


def version_details() -> str:
    """Which library is running, in five lines: version, commit, MPI, HDF5 and the options of its build."""
    return function("version_details")().decode(errors="replace")


def last_error(status: int) -> Error:
    """The exception for a status that a function has just returned on this thread."""
    code = function("status_name")(status).decode()
    message = (function("last_error_message")() or b"").decode(errors="replace")
    return error_of(code, message, function("last_error_origin_rank")())


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status. Raises its error."""
    status = function(name)(*arguments)
    if status != OK:
        raise last_error(status)


def numbers(values: Any, kind: Any = ctypes.c_int64) -> Any:
    """A list of numbers as C has it."""
    values = list(values)
    return (kind * len(values))(*values)


def communicator(comm: Any) -> Any:
    """The handle of a communicator of mpi4py, as C takes it.

    Raises TypeError for what is no communicator, ImportError if mpi4py uses another MPI than the library.
    """
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError(f"reprieve needs mpi4py (Debian: python3-mpi4py) to save and restore: {error}") from error
    if not isinstance(comm, MPI.Comm):
        raise TypeError(f"the communicator is a {type(comm).__name__}: pass one of mpi4py, as MPI.COMM_WORLD")
    vendor = MPI.get_vendor()[0]
    if (vendor == "Open MPI") != described.IS_OPEN_MPI:
        expected = "Open MPI" if described.IS_OPEN_MPI else "MPICH or one of its kind"
        message = f"mpi4py was built for {vendor}, and Reprieve for {expected}: both need the same MPI"
        raise ImportError(with_message_code(message))
    return MPI_COMM.from_address(MPI._addressof(comm))
