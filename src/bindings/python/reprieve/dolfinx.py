# SPDX-License-Identifier: BSD-3-Clause
"""Functions of DOLFINx as state, restored on any number of ranks.

DOLFINx numbers cells and degrees of freedom by the number of ranks. The file has another order: a degree of freedom
belongs to the first cell that has it, by the cells' numbers in the input of the mesh, and by its place in that cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._errors import UsageError
from ._markers import Distributed


def _rows(comm: Any, lists: Any, count: int) -> np.ndarray:
    """A list per cell as a matrix, also where there are no cells; DOLFINx before 0.7 has a class of its own for such lists."""
    numbers = np.asarray(getattr(lists, "array", lists)).ravel()
    width = max(comm.allgather(len(numbers) // max(count, 1)))
    return numbers.reshape(count, width)


class _Route:
    """Elements of this rank that go to others, and back. Its functions are collective.

    Args:
        to: the rank for each element.
    """

    def __init__(self, comm: Any, to: np.ndarray) -> None:
        self.comm = comm
        self.order = np.argsort(to, kind="stable")
        self.ends = np.cumsum(np.bincount(to, minlength=comm.size))[:-1]

    def send(self, array: np.ndarray) -> np.ndarray:
        came = self.comm.alltoall(np.split(array[self.order], self.ends))
        self.came = np.cumsum([len(part) for part in came])[:-1]
        return np.concatenate(came)

    def back(self, array: np.ndarray) -> np.ndarray:
        """What `send` would have sent to get this array."""
        result = np.empty((len(self.order), *array.shape[1:]), array.dtype)
        result[self.order] = np.concatenate(self.comm.alltoall(np.split(array, self.came)))
        return result


def _checksum(mesh: Any, cells: np.ndarray) -> str:
    """Of the cells with their numbers in the input and their coordinates, whatever rank has them."""
    nodes = _rows(mesh.comm, mesh.geometry.dofmap, len(cells))
    owned = mesh.topology.index_map(mesh.topology.dim).size_local
    words = np.asarray(mesh.geometry.x, np.float64)[nodes[:owned]].view(np.uint64).reshape(owned, 3 * nodes.shape[1])
    words = words * np.arange(1, 2 * words.shape[1], 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (words ^ (words >> np.uint64(29))).sum(axis=1) * (2 * cells[:owned].astype(np.uint64) + np.uint64(1))
    return f"{mesh.comm.allreduce(int((mixed ^ (mixed >> np.uint64(32))).sum())) % 2**64:016x}"


class _Function(Distributed):
    def __init__(self, u: Any, **about: Any) -> None:
        space, mesh = u.function_space, u.function_space.mesh
        if space.element.needs_dof_transformations:
            raise UsageError(
                "function(): the degrees of freedom of this element depend on how the mesh is cut. Use Lagrange elements, or "
                "save an interpolation of the function"
            )
        if len(space.component()) > 0:
            raise UsageError("function(): this is a part of a function: put the whole one, or part.collapse(), into the state")
        comm, index_map, block = mesh.comm, space.dofmap.index_map, space.dofmap.index_map_bs
        cells = mesh.topology.original_cell_index
        dofs = _rows(comm, space.dofmap.list, len(cells))
        keys_in_all = mesh.topology.index_map(mesh.topology.dim).size_global * dofs.shape[1]
        begin, end = index_map.local_range
        # The first cell of each degree of freedom, and the place there: by this rank's cells, then by those of all ranks.
        keys = np.full(end - begin + len(index_map.ghosts), keys_in_all)
        np.minimum.at(keys, dofs, cells[:, None] * dofs.shape[1] + np.arange(dofs.shape[1]))
        owners = _Route(comm, np.searchsorted(comm.allgather(end), index_map.ghosts, side="right"))
        np.minimum.at(keys, owners.send(index_map.ghosts) - begin, owners.send(keys[end - begin :]))
        # Each rank gets a range of the keys; in their order the elements lie in the file.
        self._u = u  # it has the communicator, too
        self._count = (end - begin) * block
        self._route = _Route(comm, keys[: end - begin] * comm.size // keys_in_all)
        self._order = np.argsort(self._route.send(keys[: end - begin]))
        shape: tuple[int, ...] = (index_map.size_global, block)
        offset = comm.scan(len(self._order)) - len(self._order)
        numbering = f"{dofs.shape[1]} in a cell, mesh {_checksum(mesh, cells)}"
        values = np.zeros((len(self._order), block), u.x.array.dtype)
        super().__init__(values, shape=shape, offset=(offset, 0), ghost=((0, 0),) * 2, numbering=numbering, **about)

    def gather(self) -> None:
        owned = self._u.x.array[: self._count].reshape(-1, self.shape[1])
        self.value[...] = self._route.send(owned)[self._order]

    def scatter(self) -> None:
        came = np.empty_like(self.value)
        came[self._order] = self.value
        self._u.x.array[: self._count] = self._route.back(came).ravel()
        self._u.x.scatter_forward()


def function(u: Any, **about: Any) -> Distributed:
    """A `dolfinx.fem.Function` in the state: its values at each save, and in a restore on any number of ranks.

    Every launch makes or reads the mesh in the same way. A checkpoint of another mesh, or of a mesh whose cells have other numbers
    (`dolfinx.mesh.refine` numbers by ranks), is a `MismatchError`. Making it is collective over the ranks of the mesh,
    which are those of the handler. A save moves each value to another rank once.

    Args:
        u: of Lagrange elements of any degree, continuous or not, also with several values per point.
        **about: units, description, dims (two), may_be_missing, former_names; see `Variable`.

    Raises UsageError for elements with an orientation (Nedelec, Raviart-Thomas).
    """
    return _Function(u, **about)
