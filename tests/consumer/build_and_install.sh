#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# build_and_install.sh SOURCE BUILD OPTIONS...: configures SOURCE in BUILD with the options, builds and installs it.
set -euo pipefail
cmake -S "$1" -B "$2" "${@:3}"
cmake --build "$2" --parallel "$(nproc)" --target install
