#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# sizes.sh FILE KILOBYTES [FILE KILOBYTES...]: fails if a library or a program is larger than that without its symbols and
# debug information, or is linked with libraries that only some other library of its needs, or only some runs.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
known='^(libreprieve|libmpi|libmpi_cxx|libmpich|libmpichcxx|libhdf5[a-z_]*|libfmt|libxxhash|libstdc\+\+|libgcc_s|libm|libc|libdl|libpthread|ld-linux[-x86_0-9]*)\.so'

while [ $# -gt 0 ]; do
  file=$1 limit=$2
  shift 2
  strip --strip-unneeded -o "$scratch/stripped" "$file"  # without it, nothing can be linked with a static library
  size=$(($(stat -c %s "$scratch/stripped") / 1000))
  echo "$file: $size of $limit kB"
  [ "$size" -le "$limit" ] || { echo "FAILED: it has grown" >&2; exit 1; }
  others=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE "$known" || true)
  [ -z "$others" ] || { printf 'FAILED: it is linked with\n%s\n' "$others" >&2; exit 1; }
done
