# SPDX-License-Identifier: BSD-3-Clause
"""`open`: what is in a checkpoint, without MPI and without HDF5."""

from __future__ import annotations

import contextlib
import copy
import datetime
import functools
import math
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from . import _layout, _records
from ._errors import CorruptError, UsageError
from ._layout import Box, Place

#: Elements that lie apart, as those of [::1000], are read with what lies between them up to this size.
_APART_BYTES = 1 << 20


class StoredVariable:
    """A variable of a checkpoint. Nothing of it is read before it is asked for.

    Attributes:
        name: as the program registered it.
        kind: "replicated", "distributed" or "per_rank".
        shape: of the array in the file; of a per-rank variable, the elements of all ranks in a row.
        dtype: of the elements.
        units, description, dims: what the program said of it; empty if it said nothing.
        chunk: the shape of the chunks in which it lies in the file; None if it lies there as a whole.
        boxes: which rank saved which part.
    """

    def __init__(self, file: StoredCheckpoint, entry: dict[str, Any], rows: np.ndarray) -> None:
        self._file = file
        self._entry = entry
        self.name: str = entry["name"]
        self.kind: str = entry["distribution"]
        self.shape: Place = tuple(entry["shape"])
        self.dtype = _layout.dtype_of(entry)
        self.units: str = entry.get("units", "")
        self.description: str = entry.get("description", "")
        self.dims: tuple[str, ...] = tuple(entry.get("dims", ()))
        self.chunk: Place | None = tuple(entry["tile"]) if entry.get("tile") else None
        self._rows = rows

    @property
    def boxes(self) -> list[Box]:
        """Which rank saved which part of it."""
        width = (self._rows.shape[1] - 3) // 2
        offsets = 1 if self.kind == "per_rank" else len(self.shape)
        lengths = self._entry["piece_dimensions"] if self.kind == "per_rank" else len(self.shape)
        return [
            Box(row[1], tuple(row[3 : 3 + offsets]), tuple(row[3 + width : 3 + width + lengths]), row[2])
            for row in self._rows.tolist()
        ]

    @property
    def size_bytes(self) -> int:
        """Of the elements, without padding."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __repr__(self) -> str:
        unit = f" [{self.units}]" if self.units else ""
        return f"<{self.kind} {self.name}: {self.dtype} {self.shape}{unit}>"

    # ---- Elements

    def _read_box(self, offset: Place, extent: Place) -> np.ndarray:
        """A part of the array, in memory of its own."""
        start = self._entry["file_offset"]
        if self.chunk is None:
            return _layout.read_box(self._file._raw, start, self.shape, self.dtype, offset, extent)
        result = np.empty(extent, self.dtype)
        chunk_bytes = math.prod(self.chunk) * self.dtype.itemsize
        for index, first, length in _layout.chunk_parts(self.chunk, offset, extent):
            number = self._number_of(index)
            into = tuple(slice(f - o, f - o + n) for f, o, n in zip(first, offset, length))
            inside = tuple(f - i * t for f, i, t in zip(first, index, self.chunk))
            at = start + number * chunk_bytes
            if number not in self._compressed:
                result[into] = _layout.read_box(self._file._raw, at, self.chunk, self.dtype, inside, length)
                continue
            size = self._compressed[number]
            _layout.check(size <= chunk_bytes, self._file.path, "a compressed chunk is larger than its room")
            compressed = _layout.read_box(self._file._raw, at, (size,), np.dtype(np.uint8), (0,), (size,))
            chunk = _layout.decompress(compressed, chunk_bytes, self._file.path).view(self.dtype).reshape(self.chunk)
            result[into] = chunk[tuple(slice(i, i + n) for i, n in zip(inside, length))]
        return result

    def _extent_in_file(self, box: Box) -> Place:
        """That of a per-rank value is in the row of all ranks' elements."""
        return (math.prod(box.extent),) if self.kind == "per_rank" else box.extent

    def _number_of(self, index: Place) -> int:
        counts = [-(-length // chunk) for length, chunk in zip(self.shape, self.chunk or ())]
        return int(np.ravel_multi_index(index, counts))

    @functools.cached_property
    def _compressed(self) -> dict[int, int]:
        """The bytes in the file of each chunk that is compressed, by the number of the chunk."""
        found: dict[int, int] = {}
        if self.chunk is None or not self._entry.get("compressed"):
            return found
        words = self._file._tables.checksums
        sizes = words[len(words) // 2 :]
        for box in self.boxes:
            parts = _layout.chunk_parts(self.chunk, box.offset, self._extent_in_file(box))
            for block, (index, _, _) in enumerate(parts, box.first_checksum):
                _layout.check(block < len(sizes), self._file.path, "fewer sizes than blocks")
                if sizes[block] > 0:
                    found[self._number_of(index)] = int(sizes[block])
        return found

    def __getitem__(self, key: Any) -> np.ndarray:
        """Elements as of a numpy array, `variable[2:5, :, 0]`: a copy, for which only these are read."""
        if not self.shape:
            return self._read_box((), ())[key]
        keys = key if isinstance(key, tuple) else (key,)
        if not all(each is Ellipsis or isinstance(each, (int, np.integer, slice)) for each in keys):
            return self._read_box((0,) * len(self.shape), self.shape)[key]
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys = (*keys[:at], *[slice(None)] * (len(self.shape) - len(keys) + 1), *keys[at + 1 :])
        if len(keys) > len(self.shape):
            raise IndexError(f"{len(keys)} indexes for {len(self.shape)} dimensions")
        keys += (slice(None),) * (len(self.shape) - len(keys))
        picked = []  # one range for each dimension
        for each, length in zip(keys, self.shape):
            if isinstance(each, slice):
                picked.append(range(length)[each])
            else:
                picked.append(range(range(length)[each], range(length)[each] + 1))
        result = np.empty(tuple(map(len, picked)), self.dtype)
        self._read_picked(tuple(picked), result)
        return result[tuple(slice(None) if isinstance(each, slice) else 0 for each in keys)]

    def _read_picked(self, picked: tuple[range, ...], result: np.ndarray) -> None:
        """Reads the smallest box around the indexes; one by one where that would be much more."""
        if result.size == 0:
            return
        offset = tuple(min(each[0], each[-1]) for each in picked)
        extent = tuple(abs(each[-1] - each[0]) + 1 for each in picked)
        count = math.prod(extent)
        if count == result.size or count * self.dtype.itemsize <= _APART_BYTES:
            result[...] = self._read_box(offset, extent)[tuple(slice(None, None, each.step) for each in picked)]
            return
        cut = next(d for d, each in enumerate(picked) if len(each) > 1)
        half = len(picked[cut]) // 2
        for part in (slice(None, half), slice(half, None)):
            into = (*[slice(None)] * cut, part)
            self._read_picked((*picked[:cut], picked[cut][part], *picked[cut + 1 :]), result[into])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[...], dtype=dtype)

    def __len__(self) -> int:
        return self.shape[0]

    # ---- Values

    @property
    def value(self) -> Any:
        """What the program had: an array, a number, a text, bytes, or what a Python program stored as a list.

        Of a random generator what it remembers, of a per-rank variable the list of the values of all ranks.
        """
        if self.kind == "per_rank":
            return [self.of_rank(rank) for rank in range(self._file.world_size)]
        return self._natural(self[...])

    def of_rank(self, rank: int) -> Any:
        """What one rank saved of it: the value of a per-rank variable; of a distributed array a list of its boxes, as
        pairs of offset and array."""
        mine = [box for box in self.boxes if box.rank == rank]
        if not 0 <= rank < self._file.world_size:
            raise IndexError(f"rank {rank}: {self._file.world_size} ranks saved {self._file.path}")
        if self.kind == "replicated":
            return self.value
        if self.kind == "distributed":
            return [(box.offset, self._read_box(box.offset, box.extent)) for box in mine]
        if not mine:
            return self._natural(np.zeros((0,) * self._entry["piece_dimensions"], self.dtype))
        box = mine[0]
        return self._natural(self._read_box(box.offset, self._extent_in_file(box)).reshape(box.extent))

    def _natural(self, array: np.ndarray) -> Any:
        entry = self._entry
        if entry.get("texts"):
            return array.item().decode() if array.ndim == 0 else [text.decode() for text in array]
        if entry["class"] == "text" and entry["size_bytes"] == 1:
            text = array.tobytes()
            is_text = not text.startswith(_records.START)
            return text.decode("utf-8", "surrogateescape") if is_text else _records.from_text(text)
        if entry["class"] == "opaque" and entry["size_bytes"] == 1 and array.ndim == 1:
            data = array.tobytes()
            return _records.unpack(data) if data.startswith(_records.PACKED) else data
        return array[()] if array.ndim == 0 else array

    # ---- Checksums

    def corruption(self) -> list[str]:
        """Verifies all blocks of all ranks. Gives a line for each that is corrupt: rank and elements.

        Raises UsageError if there is nothing to compute the checksums with.
        """
        xxh3 = _layout.hasher()
        if xxh3 is None:
            raise UsageError("no XXH3 to verify with: install the module xxhash, or the library (Debian: libxxhash0)")
        found, checksums = [], self._file._tables.checksums
        for box in self.boxes:
            for number, (offset, extent) in enumerate(self._blocks(box), box.first_checksum):
                _layout.check(number < len(checksums), self._file.path, "fewer checksums than blocks")
                if xxh3(np.ascontiguousarray(self._read_box(offset, extent))) != int(checksums[number]):
                    elements = ", ".join(f"{begin}:{begin + length}" for begin, length in zip(offset, extent))
                    found.append(f"variable '{self.name}', rank {box.rank}, elements [{elements}]")
        return found

    def _blocks(self, box: Box) -> Iterator[tuple[Place, Place]]:
        parts = [(box.offset, self._extent_in_file(box))]
        if self.chunk is not None:
            parts = [part[1:] for part in _layout.chunk_parts(self.chunk, *parts[0])]
        for offset, extent in parts:
            yield from _layout.blocks(offset, extent, self.dtype.itemsize)


class StoredGroup(Mapping[str, Any]):
    """Variables by name. Those whose names begin with "model/", as the values of a dictionary have them, are a group too:
    `checkpoint["model"]["weights"]`.
    """

    def __init__(self, where: Any, variables: dict[str, StoredVariable]) -> None:
        self._where = where
        self._variables = variables

    def __getitem__(self, name: str) -> Any:
        if name in self._variables:
            return self._variables[name]
        below = {key[len(name) + 1 :]: each for key, each in self._variables.items() if key.startswith(f"{name}/")}
        if not below:
            raise KeyError(f"{name}: {self._where} has {', '.join(self)}")
        return StoredGroup(f"{self._where}, {name}", below)

    def __iter__(self) -> Iterator[str]:
        return (name for name, each in self._variables.items() if not each._entry.get("copy"))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<group of {self._where}: {', '.join(self)}>"

    @property
    def value(self) -> dict[str, Any]:
        """The values of all variables, by name."""
        return {name: self._variables[name].value for name in self}


class StoredCheckpoint(StoredGroup, contextlib.AbstractContextManager["StoredCheckpoint"]):
    """A checkpoint: a mapping from names to variables. See `open`.

    Attributes:
        path: of the file.
        number: from the program's count of steps.
        completed_steps: of the run at the save; None if it was saved without a handler.
        world_size: ranks that saved.
        time: of the save, in UTC.
        reason: "user", "periodic" or "preemption".
        constants: what the run is about, by name.
        manifest: all that the file says, as a dictionary.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)
        self._raw = _layout.File(self.path)
        self._tables = _layout.read_tables(self._raw)
        self.manifest = manifest = self._tables.manifest
        self.number: int = manifest["number"]
        self.completed_steps: int | None = manifest.get("run_calls")
        self.world_size: int = manifest["world_size"]
        self.time = datetime.datetime.fromtimestamp(manifest["time_us"] / 1e6, datetime.timezone.utc)
        self.reason: str = manifest["reason"]["kind"]
        self.constants: dict[str, Any] = manifest.get("constants", {})
        super().__init__(self.path, self._make_variables())

    def _make_variables(self) -> dict[str, StoredVariable]:
        entries, boxes, ends = self.manifest["variables"], self._tables.boxes, self._tables.ends
        return {
            entry["name"]: StoredVariable(self, entry, boxes[ends[i] : ends[i + 1]]) for i, entry in enumerate(entries)
        }

    def _again(self) -> StoredCheckpoint:
        """The same file, open while anybody uses it."""
        other = copy.copy(self)
        other._raw = self._raw.again()
        other._variables = other._make_variables()
        return other

    def __repr__(self) -> str:
        return f"<checkpoint {self.path}: step {self.number}, {self.world_size} ranks, {len(self)} variables>"

    def verify(self) -> None:
        """Verifies the checksums of all that the ranks saved. Raises CorruptError that names every corrupt block."""
        corrupt = [line for each in self._variables.values() for line in each.corruption()]
        if corrupt:
            raise CorruptError(f"{self.path} is corrupt:\n  " + "\n  ".join(corrupt))

    def to_xarray(self) -> Any:
        """An xarray.Dataset of the arrays, numbers and texts; elements are read when they are needed, also after the end of
        the `with`: the Dataset has the file open for itself. `xarray.open_dataset(path)` gives the same.

        Names of dimensions and units are those of the program. A variable of one dimension that has the name of a
        dimension holds its coordinates. Of per-rank variables there are those that all ranks have in one shape: the first
        dimension, "rank", is that of the ranks.
        """
        from ._xarray import dataset_of

        return dataset_of(self._again())

    def close(self) -> None:
        """Gives the file back; arrays that were read stay."""
        self._raw.close()

    def __exit__(self, *_: Any) -> None:
        self.close()


def _newest(directory: pathlib.Path) -> pathlib.Path:
    """The checkpoint of a directory that was saved last."""
    found = []
    for path in directory.glob("*.h5"):
        try:
            with contextlib.closing(_layout.File(path)) as file:
                manifest, _ = _layout.read_manifest(file)
            found.append((manifest.get("run", 0), manifest.get("save", 0), manifest["number"], path))
        except (CorruptError, OSError):
            continue
    if not found:
        raise FileNotFoundError(f"{directory} has no checkpoint that can be read")
    return max(found)[-1]


def _open_newest(directory: pathlib.Path) -> StoredCheckpoint:
    """A run that lives may retire the newest one between the look and the open, or while it is opened: then there is
    a newer one."""
    most_tries = 20
    for _ in range(most_tries - 1):
        try:
            return StoredCheckpoint(_newest(directory))
        except (CorruptError, OSError):
            continue
    return StoredCheckpoint(_newest(directory))


def open(path: str | os.PathLike[str]) -> StoredCheckpoint:
    """Opens a checkpoint for reading, on any machine: it needs numpy, and neither MPI nor HDF5.

        with reprieve.open("checkpoints") as checkpoint:
            temperature = checkpoint["temperature"]
            print(temperature.shape, temperature.units, temperature[0, :])

    Args:
        path: of the file, or of a directory: its newest checkpoint.

    Raises CorruptError if it is corrupt or no checkpoint, FileNotFoundError, PermissionError.
    """
    path = pathlib.Path(path)
    return _open_newest(path) if path.is_dir() else StoredCheckpoint(path)
