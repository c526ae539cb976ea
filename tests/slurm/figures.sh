#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes the table of slurm/README.md from the output of the tests with Slurm: the median of each column, in seconds.
set -euo pipefail

if [ $# -gt 0 ]; then
  echo "usage: ctest --preset dev -L slurm --verbose | tests/slurm/figures.sh" >&2
  exit 2
fi

# One line for each value: launcher, way, column, value. Names are [tests]_launcher_way_times.
values() {
  sed -n 's/.*\[  FIGURES \] \(.*\): cause to notice \(.*\) s, notice to commit \(.*\) s, grace used \(.*\) s, requeue delay \(.*\) s$/\1 \2 \3 \4 \5/p' |
    awk '{
      name = $1
      launcher = name ~ /mpirun/ ? "mpirun" : "srun"
      sub(/^(mpirun|srun)_/, "", name)
      sub(/_(mpirun|srun)$/, "", name)
      sub(/_[12]$/, "", name)
      # A job that is cancelled does not come back: what it has there is from a signal before.
      last = name ~ /cancel/ ? 3 : 5
      for (i = 2; i <= last; ++i) if ($i != "-") print name, launcher, i, $i
    }'
}

values | sort -k1,1 -k2,2r -k3,3n -k4,4g | awk '
  function median() { return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }
  function flush() {
    if (n == 0) return
    cell[key, column] = sprintf("%.2f", median())
    count[key] = n > count[key] ? n : count[key]
    n = 0
  }
  {
    if ($1 " | " $2 != key || $3 != column) {
      flush()
      if ($1 " | " $2 != key) order[++keys] = $1 " | " $2
      key = $1 " | " $2
      column = $3
    }
    v[++n] = $4
  }
  END {
    flush()
    print "| way | launcher | times | cause to notice | notice to commit | grace used | requeue delay |"
    print "|---|---|---|---|---|---|---|"
    for (k = 1; k <= keys; ++k) {
      line = "| " order[k] " | " count[order[k]]
      for (i = 2; i <= 5; ++i) line = line " | " ((order[k], i) in cell ? cell[order[k], i] : "-")
      print line " |"
    }
  }'
