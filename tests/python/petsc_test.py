# SPDX-License-Identifier: BSD-3-Clause
"""Vectors of petsc4py in the state. Exit code 77 by main.py: it is not installed (apps/install-packages.sh petsc)."""

import numpy as np
import reprieve
from petsc4py import PETSc
from support import COMM, QUIET, RANK, SIZE, Case


def plain(comm):
    """A vector in its global numbering, and what is registered for it."""
    vec = PETSc.Vec().createMPI(13, comm=comm)
    state = reprieve.State()
    state.u = reprieve.distributed(
        lambda: vec.array, shape=(vec.size,), offset=(vec.owner_range[0],), dtype=vec.array.dtype
    )
    return vec, state


def of_a_grid(comm):
    grid = PETSc.DMDA().create([7, 5], comm=comm)
    vec = grid.createGlobalVector()
    starts, lengths = grid.getCorners()
    u = reprieve.distributed(
        lambda: vec.array.reshape(lengths[::-1]),
        shape=grid.getSizes()[::-1],
        offset=starts[::-1],
        dtype=vec.array.dtype,
    )
    return vec, reprieve.State(u=u)


class Vectors(Case):
    def test_on_other_numbers_of_ranks(self):
        norms = []

        def run(part, make, check):
            vec, state = make(part)
            with reprieve.Manager(part, self.directory, state, settings=QUIET) as manager:
                vec.norm()  # PETSc remembers it
                manager.restore_latest()
                check(vec)
                manager.save()

        def fill(vec):
            vec.array[:] = np.random.default_rng(RANK).random(len(vec.array))
            norms.append(vec.norm())

        def check(vec):
            self.assertAlmostEqual(vec.norm(), norms[-1])

        def stored():
            with reprieve.open(self.directory) as file:
                return file["u"][...]

        for make in (plain, of_a_grid):
            for ranks in {1, 2, SIZE}:
                self.fresh()
                self.on(min(2, SIZE), lambda part: run(part, make, fill))
                norms.append(COMM.bcast(norms[-1] if RANK == 0 else None))
                saved = stored()
                self.on(ranks, lambda part: run(part, make, check))  # which saves what it has
                np.testing.assert_array_equal(stored(), saved)
