# SPDX-License-Identifier: BSD-3-Clause
"""Where the bytes of a checkpoint lie, as apps/guide/format.md says. Needs numpy alone."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import itertools
import json
import math
import operator
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ._errors import CorruptError, UsageError

COMMIT_RECORD_BYTES = 4096
MAGIC = int.from_bytes(b"REPRIEVE", "little")
NEWEST_VERSION = 3
MAX_BLOCK_BYTES = 4 << 20
MOST_TABLE_BYTES = 2 << 30

#: Indexes or lengths, one per dimension.
Place = tuple[int, ...]


class Box(NamedTuple):
    """A part of an array that one rank saved.

    Attributes:
        rank: the rank.
        offset: where it begins, per dimension; of a per-rank value its position in the row of all ranks' elements.
        extent: how long it is, per dimension; of a per-rank value its shape.
        first_checksum: the number of its first block in the table of checksums.
    """

    rank: int
    offset: Place
    extent: Place
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


def decompress(chunk: np.ndarray, size: int, path: Any) -> np.ndarray:
    """The bytes of a chunk that Blosc compressed. Raises UsageError without the library."""
    try:
        blosc = ctypes.CDLL(ctypes.util.find_library("blosc") or "libblosc.so.1")
    except OSError:
        raise UsageError(f"{path} has compressed arrays: install Blosc (Debian: libblosc1)") from None
    result = np.empty(size, np.uint8)
    source, found = chunk.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t()
    is_good = blosc.blosc_cbuffer_validate(source, ctypes.c_size_t(chunk.size), ctypes.byref(found)) == 0
    check(is_good and found.value == size, path, "a compressed chunk is corrupt")
    into = result.ctypes.data_as(ctypes.c_void_p)
    check(blosc.blosc_decompress_ctx(source, into, ctypes.c_size_t(size), 1) == size, path, "a compressed chunk is corrupt")
    return result


def check(ok: bool, path: Any, problem: str) -> None:
    if not ok:
        raise CorruptError(f"{path}: {problem}")


class File:
    """A file that is read by calls, not by a mapping: if it is cut off meanwhile, that is an error and not a signal."""

    def __init__(self, path: Any, descriptor: int | None = None) -> None:
        self.path = path
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # the open of a FIFO would wait
        self._descriptor = os.open(path, flags) if descriptor is None else descriptor
        status = os.fstat(self._descriptor)
        check(stat.S_ISREG(status.st_mode), path, "it is no regular file")
        self.size = status.st_size

    def again(self) -> File:
        """The same file, which is closed by itself."""
        return File(self.path, os.dup(self._need()))

    def _need(self) -> int:
        if self._descriptor < 0:
            raise UsageError(f"{self.path} is closed")
        return self._descriptor

    def read(self, offset: int, size: int) -> np.ndarray:
        """Bytes, in memory of their own."""
        result = np.empty(size, np.uint8)
        rest, done = memoryview(result), 0
        while done < size:
            count = os.preadv(self._need(), [rest[done:]], offset + done)
            check(count > 0, self.path, f"it ends before the byte {offset + size}: it was cut off while it was open")
            done += count
        return result

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()


def is_checkpoint(path: Any) -> bool:
    """Whether it is a file that begins as one."""
    try:
        with contextlib.closing(File(path)) as file:
            return file.size >= 8 and int(file.read(0, 8).view("<u8")[0]) == MAGIC
    except (OSError, CorruptError):
        return False


class Tables(NamedTuple):
    """What a file says of itself."""

    manifest: dict[str, Any]
    boxes: np.ndarray  # in the order of the variables
    ends: np.ndarray  # of the boxes of each
    checksums: np.ndarray


def _verify(part: np.ndarray, checksum: int, path: Any, name: str) -> None:
    xxh3 = hasher()
    check(xxh3 is None or xxh3(part) == checksum, path, f"the {name} is corrupt")


def _read_table(file: File, name: str, words: list[int]) -> np.ndarray:
    offset, size, checksum = words
    check(offset + size <= file.size, file.path, f"the {name} lies outside of the file")
    check(size <= MOST_TABLE_BYTES, file.path, f"the {name} is larger than {MOST_TABLE_BYTES >> 30} GiB")
    part = file.read(offset, size)
    _verify(part, checksum, file.path, name)
    return part


def read_manifest(file: File) -> tuple[dict[str, Any], list[int]]:
    """Reads the commit record and the manifest, and verifies them if there is something to do it with.

    Gives the commit record's numbers too. Raises CorruptError.
    """
    path = file.path
    check(file.size >= COMMIT_RECORD_BYTES, path, f"it has {file.size} bytes, and is no checkpoint")
    commit_record = file.read(0, COMMIT_RECORD_BYTES)
    words = commit_record.view("<u8").tolist()
    check(words[0] == MAGIC, path, "it has no commit record: it is no checkpoint, or was not completed")
    check(words[1] <= NEWEST_VERSION, path, f"it has version {words[1]} of the format: a newer reprieve reads it")
    _verify(commit_record[: COMMIT_RECORD_BYTES - 8], words[511], path, "commit record")
    check(words[2] == file.size, path, f"it is {file.size} bytes long, but was written with {words[2]}")
    try:
        manifest = json.loads(_read_table(file, "manifest", words[3:6]).tobytes())
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{path}: the manifest is no JSON") from error
    _check_fields(manifest, _FIELDS, path, "the manifest")
    _check_fields(manifest["reason"], {"kind": str}, path, "the reason")
    is_good = 0 < manifest["world_size"] and 0 < manifest["box_dimensions"] <= _MOST_DIMENSIONS
    check(is_good, path, "impossible ranks or dimensions")
    return manifest, words


# Anybody may have written a manifest: what is read of it has the type and the size that it must have.

_MOST_DIMENSIONS = 32
_MOST = 1 << 62
_LAST_US = 253_402_300_799_000_000  # of the year 9999
#: The fields with a `?` need not be there. `int` is a number from 0 on.
_FIELDS = {"number": int, "world_size": int, "time_us": int, "box_dimensions": int, "variables": list, "reason": dict}
_FIELDS |= {"run?": int, "save?": int, "run_calls?": int, "constants?": dict}
_ELEMENTS = {"class": str, "size_bytes": int, "members?": list}
_MEMBER = _ELEMENTS | {"name": str, "offset": int, "shape?": list}
_VARIABLE = _ELEMENTS | {"name": str, "distribution": str, "shape": list, "file_offset": int, "piece_dimensions": int}
_VARIABLE |= {"tile?": list, "units?": str, "description?": str, "dims?": list, "texts?": bool, "copy?": bool}


def _fits(value: Any, kind: type) -> bool:
    return type(value) is kind and (kind is not int or 0 <= value < _MOST)


def _check_fields(entry: Any, fields: dict[str, type], path: Any, what: str) -> None:
    check(type(entry) is dict, path, f"{what} is of another form")
    for name, kind in fields.items():
        value = entry.get(name.rstrip("?"))
        is_good = _fits(value, kind) or name.endswith("?") and value is None
        check(is_good, path, f"{what} says of '{name.rstrip('?')}': {str(value)[:100]!r}")
    for name in ("shape", "tile"):
        numbers = entry.get(name) or []
        is_good = len(numbers) <= _MOST_DIMENSIONS and all(_fits(each, int) for each in numbers)
        check(is_good, path, f"{what} has an impossible {name}: {str(numbers)[:100]}")
    for member in entry.get("members") or [] if "class" in fields else []:
        _check_fields(member, _MEMBER, path, f"a member of {what}")


def _check_variable(file: File, entry: Any, rows: np.ndarray) -> None:
    path = file.path
    _check_fields(entry, _VARIABLE, path, "a variable")
    what = f"the variable {entry['name'][:100]!r}"
    check(all(type(each) is str for each in entry.get("dims") or []), path, f"{what} has impossible names of dimensions")
    try:
        size = dtype_of(entry).itemsize
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CorruptError(f"{path}: {what} has elements of an impossible type") from error
    shape, chunk = entry["shape"], entry.get("tile")
    extent = math.prod(length for length in shape if length > 0) * size
    check(size == entry["size_bytes"] > 0 and extent < _MOST, path, f"{what} has an impossible size")
    check(entry["file_offset"] + (extent if 0 not in shape else 0) <= file.size, path, f"{what} lies outside of the file")
    is_good = not chunk or len(chunk) == len(shape) and 0 not in chunk and math.prod(chunk) * size <= file.size
    check(is_good, path, f"{what} has impossible chunks")
    width = (rows.shape[1] - 3) // 2
    offsets, extents = rows[:, 3 : 3 + width], rows[:, 3 + width :]
    if entry["distribution"] == "per_rank":
        check(len(shape) == 1 and entry["piece_dimensions"] <= width, path, f"{what} has impossible parts")
        pieces = [(int(o), math.prod(map(int, e[: entry["piece_dimensions"]]))) for o, e in zip(offsets[:, 0], extents)]
        is_good = all(offset + count <= shape[0] for offset, count in pieces)
    else:
        is_good = entry["distribution"] in ("replicated", "distributed") and len(shape) <= width
        is_good = is_good and bool(np.all(offsets[:, : len(shape)] + extents[:, : len(shape)] <= np.array(shape, "<u8")))
    check(is_good, path, f"{what} has boxes outside of it")


def read_tables(file: File) -> Tables:
    """Reads the commit record and the three tables that it guards, as `read_manifest`, and checks what they say."""
    manifest, words = read_manifest(file)
    boxes = _read_table(file, "table of boxes", words[6:9])
    checksums = _read_table(file, "table of checksums", words[9:12])
    width, variables = 3 + 2 * manifest["box_dimensions"], manifest["variables"]
    check(boxes.size % (8 * width) == 0 and checksums.size % 8 == 0, file.path, "a table is cut short")
    check(manifest["time_us"] <= _LAST_US, file.path, "an impossible time")
    rows = boxes.view("<u8").reshape(-1, width)
    is_good = bool(np.all(rows < _MOST) and np.all(rows[:, 0] < len(variables)) and np.all(rows[:, 1] < manifest["world_size"]))
    check(is_good, file.path, "a box of no variable or of no rank")
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    ends = np.searchsorted(rows[:, 0], np.arange(len(variables) + 1, dtype=rows.dtype))
    for i, entry in enumerate(variables):
        _check_variable(file, entry, rows[ends[i] : ends[i + 1]])
    return Tables(manifest, rows, ends, checksums.view("<u8"))


#: A box that is not much less than the bytes from its first to its last element is read at once, and a small one too.
_AT_ONCE_BYTES = 64 << 10


def read_box(file: File, start: int, shape: Place, dtype: np.dtype, offset: Place, extent: Place) -> np.ndarray:
    """A box of an array that lies at `start` in C order."""
    check(start + math.prod(shape) * dtype.itemsize <= file.size, file.path, "a variable lies outside of the file")
    count = math.prod(extent)
    if count == 0:
        return np.zeros(extent, dtype)
    steps = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    first = sum(o * step for o, step in zip(offset, steps))
    span = 1 + sum((e - 1) * step for e, step in zip(extent, steps))
    if span <= 2 * count or span * dtype.itemsize <= _AT_ONCE_BYTES:
        raw = file.read(start + first * dtype.itemsize, span * dtype.itemsize)
        if span == count:
            return raw.view(dtype).reshape(extent)
        return np.ndarray(extent, dtype, raw.data, 0, tuple(step * dtype.itemsize for step in steps)).copy()
    result = np.empty(extent, dtype)
    cut = next(d for d, length in enumerate(extent) if length > 1)
    half = extent[cut] // 2
    for begin, length in ((0, half), (half, extent[cut] - half)):
        part = (*extent[:cut], length, *extent[cut + 1 :])
        position = (*offset[:cut], offset[cut] + begin, *offset[cut + 1 :])
        into = (*[slice(None)] * cut, slice(begin, begin + length))
        result[into] = read_box(file, start, shape, dtype, position, part)
    return result


def blocks(offset: Place, extent: Place, size: int) -> Iterator[tuple[Place, Place]]:
    """A box cut into blocks of at most 4 MiB, in C order: offset and extent of each. @param size  of an element"""
    if math.prod(extent) == 0:
        return
    cut, inner = len(extent) - 1, size
    while cut > 0 and inner * extent[cut] <= MAX_BLOCK_BYTES:
        inner *= extent[cut]
        cut -= 1
    block = (*[1] * cut, max(MAX_BLOCK_BYTES // inner, 1), *extent[cut + 1 :])[: len(extent)]
    for _, inside, length in chunk_parts(block, (0,) * len(extent), extent):
        yield tuple(map(operator.add, offset, inside)), length


def chunk_parts(chunk: Place, offset: Place, extent: Place) -> Iterator[tuple[Place, Place, Place]]:
    """What of a box lies in each chunk, in C order: the index of the chunk, and the offset and the extent of the part."""
    if math.prod(extent) == 0:
        return
    ranges = [range(o // t, (o + e - 1) // t + 1) for o, e, t in zip(offset, extent, chunk)]
    for index in itertools.product(*ranges):
        first = tuple(max(o, i * t) for o, i, t in zip(offset, index, chunk))
        last = tuple(min(o + e, (i + 1) * t) for o, e, i, t in zip(offset, extent, index, chunk))
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
