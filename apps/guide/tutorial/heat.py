# SPDX-License-Identifier: BSD-3-Clause
"""Heat in a square plate, cut into bands of rows, one per rank. With Reprieve: the lines that end with # +"""

import sys

import numpy as np
import reprieve  # +

reprieve.watch_signals()  # +
from mpi4py import MPI

n = 400  # points per side
comm = MPI.COMM_WORLD


def advance(u, new, up, down):
    """u has the band's rows, with a ghost row above and below. Gives new and u, which have changed places."""
    comm.Sendrecv(u[1], up, 0, u[-1], down, 0)
    comm.Sendrecv(u[-2], down, 1, u[0], up, 1)
    new[1:-1, 1:-1] = 0.25 * (u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1])
    new[:, 0] = new[:, -1] = 0
    return new, u


def print_sum(u):
    """The sum over the plate, added up in the same order on any number of ranks."""
    bands = comm.gather(u[1:-1])
    if comm.rank == 0:
        print("sum %.17g" % np.cumsum(np.concatenate(bands))[-1])


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
    first = n * comm.rank // comm.size
    rows = n * (comm.rank + 1) // comm.size - first
    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    u = np.zeros((rows + 2, n))
    u[1:-1] = (np.arange(first, first + rows) % 100 < 50)[:, None]  # warm and cold stripes
    new = np.zeros_like(u)

    state = reprieve.State(u=reprieve.distributed(u, shape=(n, n), offset=(first, 0), ghost=(1, 0)))  # +
    with reprieve.Handler(comm, "checkpoints", state) as handler:  # +
        for step in handler.steps(steps):  # +
            state.u, new = advance(state.u, new, up, down)  # +

    print_sum(state.u)  # +


main()
