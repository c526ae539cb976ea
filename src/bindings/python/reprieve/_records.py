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

MARK = "$python"
_START = f'{{"{MARK}":'


def state_functions(value: Any) -> tuple[Callable[[], Any], Callable[[Any], None]] | None:
    """What asks a random generator what it remembers, and what puts it back; None if the value is none."""
    if isinstance(value, np.random.Generator):
        return state_functions(value.bit_generator)
    if isinstance(value, np.random.BitGenerator):
        return lambda: value.state, lambda state: setattr(value, "state", state)
    if isinstance(value, np.random.RandomState):
        return lambda: value.get_state(legacy=False), value.set_state
    if isinstance(value, random.Random):
        return value.getstate, value.setstate
    return (value.get_state, value.set_state) if _tensors.is_generator(value) else None


def generator_kind(value: Any) -> str | None:
    """Which random generator it is, or None if the value is none: what one remembers fits those of its kind alone."""
    if isinstance(value, np.random.Generator):
        value = value.bit_generator
    kinds = (np.random.BitGenerator, np.random.RandomState, random.Random)
    if _tensors.is_generator(value):
        return f"torch.Generator on {value.device}"
    return type(value).__name__ if isinstance(value, kinds) else None


#: Dictionaries, and how they are stored with any keys.
_MAPPINGS = {dict: "$dict", collections.OrderedDict: "$ordered", collections.Counter: "$counter"}


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
    if _tensors.is_tensor(value):
        name, array = _tensors.tensor_bytes(value, where)
        return {"$tensor": [array.dtype.str, list(value.shape), store(array), name]}
    raise UsageError(
        f"{where}: a value of the type {type(value).__module__}.{type(value).__qualname__} cannot be saved. Save "
        "numbers, texts, numpy arrays, lists and dictionaries of these, or wrap it in reprieve.pickled(...) or "
        "reprieve.custom(save, load)"
    )


def _decode_array(tag: str, content: Any, data: Any, offset: int = 0) -> Any:
    dtype, shape = np.dtype(content[0]), content[1]
    array = np.frombuffer(data, dtype, math.prod(shape), offset) if math.prod(shape) else np.zeros(0, dtype)
    array = array.reshape(shape).copy()
    if tag == "$tensor":
        return _tensors.tensor_of(content[3], array)
    return array if tag == "$array" else array[()]


def _decode_tagged(tag: str, content: Any, blocks: Any) -> Any:
    if tag == "$tuple":
        return tuple(content)
    for mapping, its_tag in _MAPPINGS.items():
        if tag == its_tag:
            return mapping({key: item for key, item in content})
    if tag == "$complex":
        return complex(*content)
    if tag in ("$bytes", "$bytearray"):
        data = base64.b64decode(content)
        return data if tag == "$bytes" else bytearray(data)
    if blocks is None:
        return _decode_array(tag, content, base64.b64decode(content[2]))
    return _decode_array(tag, content, blocks, content[2])


_TAGS = ("$tuple", *_MAPPINGS.values(), "$complex", "$bytes", "$bytearray", "$array", "$number", "$tensor")


def _read(text: Any, blocks: Any = None) -> Any:
    """The value of a text of JSON; `blocks` has the elements of its arrays where they do not stand in it."""

    def decode(value: dict[str, Any]) -> Any:
        if len(value) == 1:
            tag, content = next(iter(value.items()))
            if tag in _TAGS:
                return _decode_tagged(tag, content, blocks)
        return value

    return json.loads(text, object_hook=decode)[MARK]


def to_text(value: Any, where: str) -> bytes:
    """The text of a value. A text is its own, unless it begins as those of other values do."""
    if type(value) is str and not value.startswith(_START):
        return value.encode("utf-8", "surrogatepass")
    functions = state_functions(value)
    content = _encode(functions[0]() if functions else value, where)
    return json.dumps({MARK: content}, separators=(",", ":")).encode()


def from_text(text: bytes) -> Any:
    """The value of a text that `to_text` made; of a generator what it remembers."""
    if not text.startswith(_START.encode()):
        return text.decode("utf-8", "surrogatepass")
    return _read(text)


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

    text = json.dumps({MARK: _encode(value, where, store)}, separators=(",", ":")).encode()
    head = PACKED + struct.pack("<Q", len(text)) + text
    result = bytearray(_aligned(len(head)) + end)
    result[: len(head)] = head
    for offset, array in blocks:
        if array.nbytes:
            place = np.frombuffer(result, np.uint8, array.nbytes, _aligned(len(head)) + offset)
            place[:] = array.reshape(-1).view(np.uint8)
    return result


def unpack(data: Any) -> Any:
    """The value of bytes that `pack` made."""
    view = memoryview(data)
    if view[: len(PACKED)] != PACKED:
        raise ValueError("these bytes are no values of Python")
    start = len(PACKED) + 8
    (length,) = struct.unpack("<Q", view[len(PACKED) : start])
    return _read(bytes(view[start : start + length]), view[_aligned(start + length) :])
