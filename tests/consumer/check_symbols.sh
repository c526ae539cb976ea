#!/usr/bin/env bash
# Fails if a shared library shows anything but the interface: names in the namespace reprieve, and reprieve_* in C.
set -euo pipefail

# The names on standard input that are not of the interface, or show what is behind it.
leaks() {
  grep -vE '^((vtable|typeinfo|typeinfo name) for )?reprieve::|^reprieve_' || true
}
internals() {
  grep -E 'nlohmann|spdlog|fmt::|H5|::(Impl|Registry)::' || true
}

# What must be found.
[ -n "$(leaks <<<'std::vector<reprieve::Error>::~vector()')" ]
[ -n "$(internals <<<'reprieve::Checkpoint::Registry::add(spdlog::logger*)')" ]

symbols=$(nm -DC --defined-only "$1" | cut -d ' ' -f 3-)
[ "$(grep -c '^reprieve::' <<<"$symbols")" -gt 50 ] || { echo "the interface is missing" >&2; exit 1; }
found=$(leaks <<<"$symbols")$(internals <<<"$symbols")
[ -z "$found" ] || { printf 'not of the interface:\n%s\n' "$found" >&2; exit 1; }
