#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# sizes.sh FILE...: tells how large libraries and programs are, without their symbols and debug information; fails if one is
# linked with libraries that only some other library of its needs, or only some runs.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
known='^(libreprieve|libmpi|libmpi_cxx|libmpich|libmpichcxx|libhdf5[a-z_]*|libfmt|libxxhash|libblosc|libstdc\+\+|libgcc_s|libm|libc|libdl|libpthread|ld-linux[-x86_0-9]*)\.so'

for file in "$@"; do
  strip --strip-unneeded -o "$scratch/stripped" "$file"  # without it, nothing can be linked with a static library
  echo "$file: $(($(stat -c %s "$scratch/stripped") / 1000)) kB"
  others=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE "$known" || true)
  [ -z "$others" ] || { printf 'FAILED: it is linked with\n%s\n' "$others" >&2; exit 1; }
done
