#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# exit_code.sh CODE RUNS COMMAND...: the command must return the code every time.
code=$1 runs=$2
shift 2
for run in $(seq "$runs"); do
  "$@"
  seen=$?
  if [ "$seen" != "$code" ]; then
    echo "run $run of $runs: exit code $seen instead of $code"
    exit 1
  fi
done
