# SPDX-License-Identifier: BSD-3-Clause
# To be sourced: runs the commands of a page ($page) as its reader would, in an empty folder with nothing but the program,
# against a Reprieve that is installed in $prefix. The only liberty: where the text says "sleep 1", the test waits until
# the program runs, however long that takes.

fail() {
  echo "FAILED: $1" >&2
  [ ! -f log ] || sed 's/^/  | /' log >&2
  exit 1
}

# The blocks of one language ($2: bash, cpp) below a heading.
blocks_of() {
  awk -v heading="## $1" -v language="$2" '$0 ~ "^" heading {here = 1; next} /^## / {here = 0}
    here && $0 == "```" language {inside = 1; next} /^```/ {inside = 0} inside' "$page"
}

# Stands in for the command of this name.
sleep() {
  local tries=0
  until grep -qs '"ready"' checkpoints/events.jsonl; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "it does not start"
    command sleep 0.1
  done
}

# Into $1, which is emptied, with the installed Reprieve at hand.
enter() {
  local libraries
  rm -rf "$1"
  mkdir -p "$1"
  cd "$1"
  libraries=$(dirname "$(find "$prefix" -name reprieve.pc | head -n 1)")
  export PATH=$prefix/bin:$PATH PKG_CONFIG_PATH=$libraries LD_LIBRARY_PATH=$libraries/..${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}
