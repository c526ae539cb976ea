# SPDX-License-Identifier: BSD-3-Clause
# Writes what Python knows about C, from the headers of C alone:
#   cmake -D headers=FILE|FILE.. -D result=FILE -D is_open_mpi=True|False -D library=PATH -D version=TEXT -P c_interface.cmake
# Types stay texts, as they stand in the headers: reprieve/_native.py says what each is for ctypes.
# `library`: where the shared library of an installed package is, seen from the folder of the package.

cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../c_headers.cmake)

# "const char* name, int type" becomes `"const char*", "int", `
function(types_of arguments result)
  string(REGEX REPLACE ", " ";" arguments "${arguments}")
  set(types "")
  foreach(argument IN LISTS arguments)
    string(REGEX MATCH "^(.*) ([a-z_]+)$" argument "${argument}")
    string(APPEND types "\"${CMAKE_MATCH_1}\", ")
  endforeach()
  set(${result} "(${types})" PARENT_SCOPE)
endfunction()

# Of each: what it returns, its name, its arguments, as the three parts of the pattern.
function(append_prototypes prototypes pattern)
  foreach(prototype IN LISTS prototypes)
    string(REGEX MATCH "${pattern}" prototype "${prototype}")
    set(returned "${CMAKE_MATCH_1}")
    set(name ${CMAKE_MATCH_2})
    types_of("${CMAKE_MATCH_3}" types)
    string(APPEND content "    \"${name}\": (\"${returned}\", ${types}),\n")
  endforeach()
  set(content "${content}" PARENT_SCOPE)
endfunction()

set(content "# Made from the headers of C by c_interface.cmake: do not change it by hand.\n\n")
string(APPEND content "IS_OPEN_MPI = ${is_open_mpi}\nVERSION = \"${version}\"\n")
string(APPEND content "INSTALLED_LIBRARY = \"${library}\"\n\nCONSTANTS = {\n")
string(REGEX MATCHALL "REPRIEVE_[A-Z0-9_]+ = [0-9]+" constants "${text}")
foreach(constant IN LISTS constants)
  string(REGEX REPLACE "^REPRIEVE_(.*) = (.*)$" "    \"\\1\": \\2,\n" line "${constant}")
  string(APPEND content "${line}")
endforeach()

string(APPEND content "}\n\n# Name: members, each with its type.\nSTRUCTS = {\n")
foreach(struct IN LISTS structs)
  string(REGEX REPLACE "^struct (reprieve_[a-z_]+) .*" "    \"\\1\": (\n" head "${struct}")
  string(APPEND content "${head}")
  string(REGEX MATCHALL "[a-z][^@{]* [a-z_]+@" members "${struct}")
  foreach(member IN LISTS members)
    string(REGEX REPLACE "^(.*) ([a-z_]+)@$" "        (\"\\2\", \"\\1\"),\n" line "${member}")
    string(APPEND content "${line}")
  endforeach()
  string(APPEND content "    ),\n")
endforeach()

string(APPEND content "}\n\n# Name of a type of callbacks: what one returns, and the types of its arguments.\nCALLBACKS = {\n")
string(REGEX MATCHALL "typedef [a-z0-9_ ]+ \\(\\*reprieve_[a-z_]+\\)\\([^()]*\\)@" callbacks "${text}")
append_prototypes("${callbacks}" "^typedef (.*) \\(\\*(.*)\\)\\((.*)\\)@$")

string(APPEND content "}\n\n# The same of functions.\nFUNCTIONS = {\n")
append_prototypes("${functions}" "^(.*) (reprieve_[a-z_]+)\\((.*)\\)@$")
file(WRITE ${result} "${content}}\n")
