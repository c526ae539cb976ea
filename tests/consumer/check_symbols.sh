#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_symbols.sh c++|static|fortran LIBRARY: fails if a library shows anything but its interface: names in the namespace
# reprieve, and reprieve_* in C; in that of the Fortran module its procedures and types, and the one C function that
# programs call by themselves. The static library has templates of the standard library and of fmt as well, as every object
# of C++ has: several definitions of one are no error there (weak and unique symbols). The shared libraries show all names of
# symbols_<interface>.txt, and no others: a name that is missing breaks programs, a new one is recorded there
# (apps/guide/versions.md).
set -euo pipefail

case $1 in
  c++ | static)
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

# Of the static library the strong symbols that are not hidden, and of the others those that are of nobody's namespace.
in_the_archive() {
  readelf --syms --wide "$2" | awk '$7 != "UND" && $6 == "DEFAULT" && ($5 == "GLOBAL" || $5 == "WEAK" || $5 == "UNIQUE") {print $5, $8}' |
    sort -u | c++filt | sed -E -e 's/^GLOBAL //' -e '/^(WEAK|UNIQUE) .*\b(std|__gnu_cxx|fmt|reprieve)::/d' -e 's/^(WEAK|UNIQUE) //'
}

case $1 in
  static) symbols=$(in_the_archive "$@") ;;
  *) symbols=$(nm -DC --defined-only "$2" | cut -d ' ' -f 3-) ;;
esac
[ "$(grep -cE "$counted" <<<"$symbols")" -gt 50 ] || { echo "the interface is missing" >&2; exit 1; }
found=$(leaks <<<"$symbols")$(internals <<<"$symbols")
[ -z "$found" ] || { printf 'not of the interface:\n%s\n' "$found" >&2; exit 1; }

recorded=$(dirname "$0")/symbols_$1.txt
if [ "$1" = fortran ] || { [ "$1" = c++ ] && nm -D "$2" | grep ompi_ >/dev/null; }; then  # the list has Open MPI's types
  nm -DC --defined-only "$2" | awk '$2 ~ /^[TBDR]$/' | cut -d ' ' -f 3- | grep -v _MOD___ | LC_ALL=C sort -u |
    diff "$recorded" - || { echo "$recorded (<) and the library (>) differ" >&2; exit 1; }
fi
