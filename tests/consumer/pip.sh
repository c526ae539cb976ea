#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The Python module as pip installs it from a build tree into a virtual environment: it saves, on 2 ranks and without a
# launcher, and reads what it saved. Code 77: a package of Python that this needs is not installed.
#
#   pip.sh BUILD FOLDER PYTHON     BUILD: a build folder; FOLDER: to work in, emptied first
#
# MPIEXEC names the launcher (mpirun).
set -euo pipefail
build=$(cd "$1" && pwd) folder=$2 python=$3
read -ra mpirun <<<"${MPIEXEC:-mpirun}"
for module in venv ensurepip setuptools wheel numpy mpi4py; do
  "$python" -c "import $module" 2>/dev/null || { echo "skipped: $python has no $module"; exit 77; }
done

rm -rf "$folder"
"$python" -m venv --system-site-packages "$folder"  # for mpi4py and numpy
cd "$folder"
unset PYTHONPATH
cp -rL "$build/python" tree  # pip writes beside what it installs
bin/pip install --quiet --no-index --no-build-isolation --no-deps ./tree
rm -rf tree

cat >program.py <<'END'
import sys

import reprieve
from mpi4py import MPI

assert reprieve.__file__.startswith(sys.prefix), reprieve.__file__
state = {"n": 0, "rank": reprieve.per_rank(MPI.COMM_WORLD.rank)}
with reprieve.Handler(MPI.COMM_WORLD, sys.argv[1], state) as handler:
    for step in handler.steps(3):
        state["n"] += 1
        handler.request_checkpoint()
END
timeout -k 3 120 "${mpirun[@]}" -n 2 bin/python program.py with
timeout -k 3 120 bin/python program.py without
bin/python -c 'import reprieve
for name, ranks in ("with", [0, 1]), ("without", [0]):
    with reprieve.open(name) as file:
        file.verify()
        assert (file["n"].value, file["rank"].value) == (3, ranks), (name, file["n"].value, file["rank"].value)'
bin/pip uninstall --quiet --yes reprieve
if bin/python -c 'import reprieve' 2>/dev/null; then
  echo "FAILED: it is still there" >&2
  exit 1
fi
echo "pip: installed in a virtual environment, used, removed"
