# SPDX-License-Identifier: BSD-3-Clause
"""Python's own values as a text of JSON, or with large arrays as bytes. No code is run when they are read."""

from __future__ import annotations

import base64
import collections
import json
import math
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _tensors
from ._errors import UsageError

_MARK = "$python"
#: With this begins the text of a value that is no text.
START = f'{{"{_MARK}":'.encode()


def generator_of(value: Any) -> tuple[str, Callable[[], Any], Callable[[Any], None]] | None:
    """Of a random generator its kind, what asks it what it remembers, and what puts that back; None for other values.

    What one remembers fits those of its kind alone.
    """
    if isinstance(value, np.random.Generator):
        value = value.bit_generator
    kind = type(value).__name__
    if isinstance(value, np.random.BitGenerator):
        return kind, lambda: value.state, lambda state: setattr(value, "state", state)
    if isinstance(value, np.random.RandomState):
        return kind, lambda: value.get_state(legacy=False), value.set_state
    if isinstance(value, random.Random):
        return kind, value.getstate, value.setstate
    if _tensors.is_torch(value, "Generator"):
        return f"torch.Generator on {value.device}", value.get_state, value.set_state
    return None


#: Dictionaries, and how they are stored with any keys.
_MAPPINGS = {dict: "$dict", collections.OrderedDict: "$ordered", collections.Counter: "$counter"}
#: What makes a value of what stands behind its tag; `_array_of` does it of arrays.
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "$tuple": tuple,
    "$complex": lambda parts: complex(*parts),
    "$bytes": base64.b64decode,
    "$bytearray": lambda text: bytearray(base64.b64decode(text)),
}
_DECODERS |= {tag: lambda pairs, mapping=mapping: mapping(dict(pairs)) for mapping, tag in _MAPPINGS.items()}


def _as_text(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


#: Puts the elements of an array somewhere, and gives what is written instead.
Store = Callable[[np.ndarray], Any]


def _encode(value: Any, where: str, store: Store = _as_text) -> Any:
    def inner(item: Any) -> Any:
        return _encode(item, where, store)

    exactly = type(value)  # a value of a class that is derived would come back as one of the class below it
    if value is None or exactly in (bool, int, float, str):
        return value
    if exactly is list:
        return list(map(inner, value))
    if exactly is dict and all(type(key) is str and not key.startswith("$") for key in value):
        return {key: inner(item) for key, item in value.items()}
    if exactly in _MAPPINGS:
        return {_MAPPINGS[exactly]: [[inner(key), inner(item)] for key, item in value.items()]}
    if exactly is tuple:
        return {"$tuple": list(map(inner, value))}
    if exactly is complex:
        return {"$complex": [value.real, value.imag]}
    if exactly in (bytes, bytearray):
        return {"$" + exactly.__name__: base64.b64encode(value).decode()}
    is_numpy = exactly is np.ndarray or isinstance(value, np.generic)
    if is_numpy and not value.dtype.hasobject and value.dtype.names is None:
        kind = "$array" if isinstance(value, np.ndarray) else "$number"
        return {kind: [value.dtype.str, list(value.shape), store(np.ascontiguousarray(value))]}
    if _tensors.is_torch(value, "Tensor"):
        name, array = _tensors.tensor_bytes(value, where)
        return {"$tensor": [array.dtype.str, list(value.shape), store(array), name]}
    raise UsageError(
        f"{where}: a value of the type {type(value).__module__}.{type(value).__qualname__} cannot be saved. Save "
        "numbers, texts, numpy arrays, lists and dictionaries of these, or wrap it in reprieve.pickled(...) or "
        "reprieve.custom(save, load)"
    )


def _array_of(tag: str, content: Any, blocks: Any) -> Any:
    dtype, shape = np.dtype(content[0]), content[1]
    data, offset = (base64.b64decode(content[2]), 0) if blocks is None else (blocks, content[2])
    array = np.frombuffer(data, dtype, math.prod(shape), offset) if math.prod(shape) else np.zeros(0, dtype)
    array = array.reshape(shape).copy()
    if tag == "$tensor":
        return _tensors.tensor_of(content[3], array)
    return array if tag == "$array" else array[()]


def _read(text: Any, blocks: Any = None) -> Any:
    """The value of a text of JSON; `blocks` has the elements of its arrays where they do not stand in it."""

    def decode(value: dict[str, Any]) -> Any:
        tag, content = next(iter(value.items())) if len(value) == 1 else ("", None)
        if tag in _DECODERS:
            return _DECODERS[tag](content)
        return _array_of(tag, content, blocks) if tag in ("$array", "$number", "$tensor") else value

    return json.loads(text, object_hook=decode)[_MARK]


def to_text(value: Any, where: str) -> bytes:
    """The text of a value. A text is its own, unless it begins as those of other values do."""
    if type(value) is str and not value.startswith(START.decode()):
        return value.encode("utf-8", "surrogatepass")
    generator = generator_of(value)
    content = _encode(generator[1]() if generator else value, where)
    return json.dumps({_MARK: content}, separators=(",", ":")).encode()


def from_text(text: bytes) -> Any:
    """The value of a text that `to_text` made; of a generator what it remembers."""
    return _read(text) if text.startswith(START) else text.decode("utf-8", "surrogatepass")


#: With this begins what `pack` makes: the length of a text of JSON, that text, and blocks with the elements of arrays.
PACKED = b"\x93reprieve values\n"
_ALIGNED = 64


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def pack(value: Any, where: str) -> bytearray:
    """Values with large arrays in them as bytes: each array is copied once."""
    blocks: list[tuple[int, np.ndarray]] = []
    end = 0

    def store(array: np.ndarray) -> int:
        nonlocal end
        blocks.append((end, array))
        end += _aligned(array.nbytes)
        return blocks[-1][0]

    text = json.dumps({_MARK: _encode(value, where, store)}, separators=(",", ":")).encode()
    head = PACKED + struct.pack("<Q", len(text)) + text
    result = bytearray(_aligned(len(head)) + end)
    result[: len(head)] = head
    for offset, array in blocks:
        if array.nbytes:
            target = np.frombuffer(result, np.uint8, array.nbytes, _aligned(len(head)) + offset)
            target[:] = array.reshape(-1).view(np.uint8)
    return result


def unpack(data: Any) -> Any:
    """The value of bytes that `pack` made."""
    view = memoryview(data)
    if view[: len(PACKED)] != PACKED:
        raise ValueError("these bytes are no values of Python")
    start = len(PACKED) + 8
    (length,) = struct.unpack("<Q", view[len(PACKED) : start])
    return _read(bytes(view[start : start + length]), view[_aligned(start + length) :])
