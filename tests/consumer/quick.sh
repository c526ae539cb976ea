#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The five minutes of a new user: the program and every command of apps/guide/quick.md.
#
#   quick.sh PAGE PREFIX FOLDER     PREFIX: an installed Reprieve with its programs
set -euo pipefail
page=$1 prefix=$2
. "$(dirname "$0")/page.sh"
enter "$3"

blocks_of "1. Write a program" cpp >quick.cpp
[ -s quick.cpp ] || fail "the text has no program"
eval "$(blocks_of "2. Build it" bash)"

set +e  # as in a shell that people type into
eval "$(blocks_of "3. Preempt it" bash)" >log 2>&1
set -e
grep -q '^code 42$' log || fail "the first run did not end with code 42"
[ "$(grep -c '^sum 100$' log)" -eq 2 ] || fail "the second run did not print the sum on 2 ranks"
grep -q ' restored .*/ckpt-' log || fail "the second run began again"

eval "$(blocks_of "4. Look at" bash)" >log 2>&1 || fail "the checkpoint is not listed"
grep -q 'preemption' log || fail "the list does not say why the checkpoint was saved"
eval "$(blocks_of "5. Rehearse" bash)" >log 2>&1 || fail "drill says that the job would lose work"
grep -q '^ok .*resumed at step' log || fail "drill did not start the job again"
echo "preempted, resumed, listed and tried in a dry run of a restart, as the page says"
