"""Where the bytes of a checkpoint lie, as apps/guide/format.md says. Needs numpy alone."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import itertools
import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ._errors import CorruptError

SEAL_BYTES = 4096
MAGIC = int.from_bytes(b"REPRIEVE", "little")
NEWEST_VERSION = 2
MAX_BLOCK_BYTES = 4 << 20


class Box(NamedTuple):
    """A part of an array that one rank saved.

    Attributes:
        rank: the rank.
        offset: where it begins, per dimension; of a per-rank value its place in the row of all ranks' elements.
        extent: how long it is, per dimension; of a per-rank value its shape.
        first_checksum: the number of its first block in the table of checksums.
    """

    rank: int
    offset: tuple[int, ...]
    extent: tuple[int, ...]
    first_checksum: int


@functools.lru_cache(maxsize=None)
def hasher() -> Callable[[Any], int] | None:
    """XXH3-64 of a contiguous array: by the module xxhash, or the library of that name. None if there is neither."""
    try:
        import xxhash

        return lambda array: xxhash.xxh3_64_intdigest(memoryview(array).cast("B"))
    except ImportError:
        pass
    name = ctypes.util.find_library("xxhash") or "libxxhash.so.0"
    try:
        function = ctypes.CDLL(name).XXH3_64bits
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return lambda array: function(array.__array_interface__["data"][0], array.nbytes)


def check(ok: bool, path: Any, problem: str) -> None:
    if not ok:
        raise CorruptError(f"{path}: {problem}")


class Tables(NamedTuple):
    """What a file says of itself."""

    manifest: dict[str, Any]
    boxes: np.ndarray
    checksums: np.ndarray


def read_tables(raw: np.ndarray, path: Any) -> Tables:
    """Reads the seal and the three tables that it guards, and verifies them if there is something to do it with.

    Raises CorruptError.
    """
    check(len(raw) >= SEAL_BYTES, path, f"it has {len(raw)} bytes, and is no checkpoint")
    words = [int(word) for word in raw[:SEAL_BYTES].view("<u8")]
    check(words[0] == MAGIC, path, "it has no seal: it is no checkpoint, or was not completed")
    check(words[1] <= NEWEST_VERSION, path, f"it has version {words[1]} of the format: a newer reprieve reads it")
    xxh3 = hasher()
    check(xxh3 is None or xxh3(raw[: SEAL_BYTES - 8]) == words[511], path, "the seal is damaged")
    check(words[2] == len(raw), path, f"it is {len(raw)} bytes long, but was written with {words[2]}")
    parts = []
    for name, first in (("manifest", 3), ("table of boxes", 6), ("table of checksums", 9)):
        offset, size, checksum = words[first : first + 3]
        check(offset + size <= len(raw), path, f"the {name} lies outside of the file")
        part = raw[offset : offset + size]
        check(xxh3 is None or xxh3(part) == checksum, path, f"the {name} is damaged")
        parts.append(part)
    try:
        manifest = json.loads(parts[0].tobytes())
    except ValueError as error:
        raise CorruptError(f"{path}: the manifest cannot be read: {error}") from error
    width = 3 + 2 * manifest["box_dimensions"]
    return Tables(manifest, parts[1].view("<u8").reshape(-1, width), parts[2].view("<u8"))


def blocks(offset: tuple[int, ...], extent: tuple[int, ...], size: int) -> Iterator[tuple[slice, ...]]:
    """A box cut into blocks of at most 4 MiB, in C order: each as slices of the array. @param size  of an element"""
    if math.prod(extent) == 0:
        return
    cut, inner = max(len(extent) - 1, 0), size
    while cut > 0 and inner * extent[cut] <= MAX_BLOCK_BYTES:
        inner *= extent[cut]
        cut -= 1
    if not extent:
        yield ()
        return
    length = min(max(MAX_BLOCK_BYTES // inner, 1), extent[cut])
    for index in itertools.product(*(range(each) for each in extent[:cut])):
        head = tuple(slice(o + i, o + i + 1) for o, i in zip(offset, index))
        tail = tuple(slice(o, o + e) for o, e in zip(offset[cut + 1 :], extent[cut + 1 :]))
        for start in range(0, extent[cut], length):
            end = min(start + length, extent[cut])
            yield (*head, slice(offset[cut] + start, offset[cut] + end), *tail)


def tile_parts(
    tile: tuple[int, ...], offset: tuple[int, ...], extent: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """What of a box lies in each tile, in C order: the index of the tile, and the offset and the extent of the part."""
    if math.prod(extent) == 0:
        return
    ranges = [range(o // t, (o + e - 1) // t + 1) for o, e, t in zip(offset, extent, tile)]
    for index in itertools.product(*ranges):
        first = tuple(max(o, i * t) for o, i, t in zip(offset, index, tile))
        last = tuple(min(o + e, (i + 1) * t) for o, e, i, t in zip(offset, extent, index, tile))
        yield index, first, tuple(end - begin for begin, end in zip(first, last))


_KINDS = {"signed": "i", "unsigned": "u", "floating": "f", "complex": "c"}


def dtype_of(entry: dict[str, Any]) -> np.dtype:
    """The type of the elements, from an entry of the manifest."""
    kind, size = entry["class"], entry["size_bytes"]
    if entry.get("members"):
        members = entry["members"]
        return np.dtype(
            {
                "names": [member["name"] for member in members],
                "formats": [(dtype_of(member), tuple(member.get("shape", ()))) for member in members],
                "offsets": [member["offset"] for member in members],
                "itemsize": size,
            }
        )
    if kind == "boolean":
        return np.dtype("?" if size == 1 else f"<u{size}")
    if kind == "text" or entry.get("texts"):
        return np.dtype(f"S{size}")
    if kind in ("floating", "complex") and size > (8 if kind == "floating" else 16):
        return np.dtype(np.longdouble if kind == "floating" else np.clongdouble)
    if kind in _KINDS:
        return np.dtype(f"<{_KINDS[kind]}{size}")
    return np.dtype(f"V{size}")
