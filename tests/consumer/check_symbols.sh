#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_symbols.sh c++|fortran LIBRARY: fails if a shared library shows anything but its interface: names in the namespace
# reprieve, and reprieve_* in C; in that of the Fortran module its procedures and types, and the one C function that
# programs call by themselves.
set -euo pipefail

case $1 in
  c++)
    interface='^((vtable|typeinfo|typeinfo name) for )?reprieve::|^reprieve_'
    behind='nlohmann|fmt::|H5|::(Impl|Registry)::'
    counted='^reprieve::'
    foreign='std::vector<reprieve::Error>::~vector()'
    internal='reprieve::Checkpoint::Registry::add(nlohmann::json*)'
    ;;
  fortran)
    interface='^__reprieve_(c|callbacks|errors|loop|settings|state)_MOD_|^reprieve_fortran_view$'
    behind='_MOD_(call|new|free)_|_MOD_(text_of|c_text|hold|release|redistribute_address)$|_MOD___[a-z]+_[a-z_]+_(C|Callback)'
    counted='^__reprieve_[a-z]+_MOD_[a-z]'
    foreign=call_describe
    internal=__reprieve_callbacks_MOD_new_callbacks
    ;;
esac

# The names on standard input that are not of the interface, or show what is behind it.
leaks() {
  grep -vE "$interface" || true
}
internals() {
  grep -E "$behind" || true
}

# What must be found.
[ -n "$(leaks <<<"$foreign")" ]
[ -n "$(internals <<<"$internal")" ]

symbols=$(nm -DC --defined-only "$2" | cut -d ' ' -f 3-)
[ "$(grep -cE "$counted" <<<"$symbols")" -gt 50 ] || { echo "the interface is missing" >&2; exit 1; }
found=$(leaks <<<"$symbols")$(internals <<<"$symbols")
[ -z "$found" ] || { printf 'not of the interface:\n%s\n' "$found" >&2; exit 1; }
