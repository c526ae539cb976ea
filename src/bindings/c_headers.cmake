# SPDX-License-Identifier: BSD-3-Clause
# What the scripts that turn the headers of C into another language have in common. Takes `headers`, FILE|FILE..., and sets
# `text`, `structs` and `functions`: without comments and directives, and with @ for the semicolon, which separates items of
# lists in CMake.
set(text "")
string(REPLACE "|" ";" headers "${headers}")
foreach(header IN LISTS headers)
  file(READ ${header} content)
  string(APPEND text "${content}")
endforeach()
string(REPLACE ";" "@" text "${text}")
string(REGEX REPLACE "/\\*[^*]*\\*+([^/*][^*]*\\*+)*/|#[^\n]*|REPRIEVE_EXPORT" " " text "${text}")
string(REGEX REPLACE "[ \n]+" " " text "${text}")
string(REPLACE "(void)" "()" text "${text}")

string(REGEX MATCHALL "struct reprieve_[a-z_]+ {[^}[]*}" structs "${text}")
string(REGEX MATCHALL "[a-z][a-z0-9_ ]*\\*? reprieve_[a-z_]+\\([^()]*\\)@" functions "${text}")
