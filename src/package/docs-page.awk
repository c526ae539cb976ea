#!/usr/bin/awk -f
# SPDX-License-Identifier: BSD-3-Clause
# A page in Markdown, as target docs reads it: headings get the names that links use, with the page's own before them, since a
# name may stand on several pages; links to what is no page become plain text. Code is left as it is.

function page_name(path,    n, parts) {
  sub(/\.md$/, "", path)
  if (index(path, ENVIRON["PWD"] "/") == 1) path = substr(path, length(ENVIRON["PWD"]) + 2)  # doxygen starts in the tree
  gsub(/^(\.\.\/)+/, "", path)
  n = split(path, parts, "/")
  return parts[n] == "README" && n > 1 ? parts[n - 1] "-README" : parts[n]
}

function slug(title) {
  title = tolower(title)
  gsub(/`/, "", title)
  gsub(/[^a-z0-9 _-]/, "", title)
  gsub(/ /, "-", title)
  return title
}

# The link as it should be: [text](page#place), [text](#place), [text](page), or the text alone.
function link(text, target,    place) {
  if (target ~ /^https?:/) return "[" text "](" target ")"
  place = index(target, "#") ? substr(target, index(target, "#") + 1) : ""
  sub(/#.*/, "", target)
  if (target == "") return "[" text "](#" this "-" place ")"
  if (target !~ /\.md$/) return text
  return place == "" ? "[" text "](" target ")" : "[" text "](#" page_name(target) "-" place ")"
}

FNR == 1 { this = page_name(FILENAME) }
/^ *```/ { code = !code }
code { print; next }
/^##+ / {
  title = $0
  sub(/^#+ /, "", title)
  name = this "-" slug(title)
  print $0 " {#" name (seen[name]++ ? "-" seen[name] - 1 : "") "}"
  next
}
# The words for a picture may take several lines.
/!\[[^]]*$/ { held = held $0 " "; next }
{
  rest = held $0
  held = ""
  line = ""
  while (match(rest, /\[[^][]*\]\([^() ]*\)/)) {
    found = substr(rest, RSTART, RLENGTH)
    before = substr(rest, 1, RSTART - 1)
    middle = index(found, "](")
    is_image = before ~ /!$/
    line = line before (is_image ? found : link(substr(found, 2, middle - 2), substr(found, middle + 2, length(found) - middle - 2)))
    rest = substr(rest, RSTART + RLENGTH)
  }
  print line rest
}
END { if (held) print held }
