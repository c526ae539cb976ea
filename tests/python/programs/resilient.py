# SPDX-License-Identifier: BSD-3-Clause
"""resilient.py DIR: ranks kill themselves, and the others continue. Under `mpirun --with-ft ulfm` (Open MPI 5).

Exit code 77: mpi4py or numpy is not installed, or the module is not built.
"""

import os
import signal
import sys

try:
    import numpy as np
    import reprieve

    reprieve.watch_signals()
    from mpi4py import MPI
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

STEPS = 50
DEATHS = {(0, 25, 1), (1, 35, 0)}  # life, step, rank
lives = 0


def work(ranks):
    """Each step adds its number to one of the elements."""
    global lives
    life = lives
    lives += 1
    first, end = (STEPS * rank // ranks.size for rank in (ranks.rank, ranks.rank + 1))
    state = reprieve.State(u=reprieve.distributed(np.zeros(end - first), shape=(STEPS,), offset=(first,)))
    settings = {"termination": {"save_every_steps": 10}}
    with reprieve.Handler(ranks, sys.argv[1], state, settings=settings) as handler:
        if ranks.rank == 0:
            print(f"life {life}: {ranks.size} ranks from step {handler.completed_steps}", flush=True)
        for step in handler.steps(STEPS):
            if (life, step, ranks.rank) in DEATHS:
                os.kill(os.getpid(), signal.SIGKILL)
            ranks.barrier()
            if first <= step < end:
                state.u[step - first] += step + 1
        total = ranks.allreduce(state.u.sum())
        if ranks.rank == 0:
            print(f"steps {handler.completed_steps}, sum {total}", flush=True)


reprieve.run_resilient(MPI.COMM_WORLD, work, spare_ranks=1)
