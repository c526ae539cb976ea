# SPDX-License-Identifier: BSD-3-Clause
"""Python's own values as a text of JSON: lists, None, random generators. No code is run when they are read."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import numpy as np

from ._errors import UsageError

MARK = "$python"
_START = f'{{"{MARK}":'


def generator_state(value: Any) -> Any:
    """What a random generator remembers, or None if the value is none."""
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.random.BitGenerator):
        return value.state
    if isinstance(value, np.random.RandomState):
        return value.get_state(legacy=False)
    if isinstance(value, random.Random):
        return value.getstate()
    return None


def generator_kind(value: Any) -> str | None:
    """Which random generator it is, or None if the value is none: what one remembers fits those of its kind alone."""
    if isinstance(value, np.random.Generator):
        value = value.bit_generator
    kinds = (np.random.BitGenerator, np.random.RandomState, random.Random)
    return type(value).__name__ if isinstance(value, kinds) else None


def set_generator_state(value: Any, state: Any) -> None:
    """Puts it back, in place."""
    if isinstance(value, np.random.Generator):
        value.bit_generator.state = state
    elif isinstance(value, np.random.BitGenerator):
        value.state = state
    elif isinstance(value, np.random.RandomState):
        value.set_state(state)
    else:
        value.setstate(state)


def _encode(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)) and not isinstance(value, np.generic):
        return value
    if isinstance(value, list):
        return [_encode(item, where) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: _encode(item, where) for key, item in value.items()}
    if isinstance(value, tuple):
        return {"$tuple": [_encode(item, where) for item in value]}
    if isinstance(value, complex):
        return {"$complex": [value.real, value.imag]}
    if isinstance(value, (bytes, bytearray)):
        return {"$" + type(value).__name__: base64.b64encode(value).decode()}
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject and value.dtype.names is None:
        text = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        kind = "$array" if isinstance(value, np.ndarray) else "$number"
        return {kind: [value.dtype.str, list(value.shape), text]}
    raise UsageError(
        f"{where}: a value of the type {type(value).__module__}.{type(value).__qualname__} cannot be saved. Save "
        "numbers, texts, numpy arrays, lists and dictionaries of these, or wrap it in reprieve.pickled(...) or "
        "reprieve.custom(save, load)"
    )


def _decode_tagged(tag: str, content: Any) -> Any:
    if tag == "$tuple":
        return tuple(content)
    if tag == "$complex":
        return complex(*content)
    if tag in ("$bytes", "$bytearray"):
        data = base64.b64decode(content)
        return data if tag == "$bytes" else bytearray(data)
    dtype, shape, text = content
    array = np.frombuffer(base64.b64decode(text), dtype=dtype).reshape(shape).copy()
    return array if tag == "$array" else array[()]


def _decode(value: dict[str, Any]) -> Any:
    if len(value) == 1:
        tag, content = next(iter(value.items()))
        if tag in ("$tuple", "$complex", "$bytes", "$bytearray", "$array", "$number"):
            return _decode_tagged(tag, content)
    return value


def to_text(value: Any, where: str) -> bytes:
    """The text of a value. A text is its own, unless it begins as those of other values do."""
    if isinstance(value, str) and not value.startswith(_START):
        return value.encode("utf-8", "surrogatepass")
    state = generator_state(value)
    content = _encode(value if state is None else state, where)
    return json.dumps({MARK: content}, separators=(",", ":")).encode()


def from_text(text: bytes) -> Any:
    """The value of a text that `to_text` made; of a generator what it remembers."""
    if not text.startswith(_START.encode()):
        return text.decode("utf-8", "surrogatepass")
    return json.loads(text, object_hook=_decode)[MARK]
