# SPDX-License-Identifier: BSD-3-Clause
# Unity builds (REPRIEVE_UNITY): the compiler takes several files of a folder as one, since most of its time goes into the
# headers that all of them include. Measured: an eighth of the time for the library.
#
# Files that are compiled as one share their anonymous namespaces, so two helpers of one name collide. REPRIEVE_SEPARATE
# lists the units whose files are compiled one by one all the same; tests/run.sh finds them by itself.
option(REPRIEVE_UNITY "Compile several files as one: much faster from nothing, slower after a change" OFF)
set(REPRIEVE_SEPARATE "" CACHE STRING "Units whose files are compiled one by one though REPRIEVE_UNITY is on")

# reprieve_unity(target files): at most that many files of one folder are compiled as one. To be called where the target
# is made, with all of its sources.
function(reprieve_unity target files)
  if(NOT REPRIEVE_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  set(last_folder)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source)
    cmake_path(GET source PARENT_PATH folder)
    if(NOT folder STREQUAL last_folder)
      set(last_folder ${folder})
      set(count 0)
    endif()
    math(EXPR unit "${count} / ${files}")
    math(EXPR count "${count} + 1")
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${folder})
    string(REPLACE / _ name ${name})
    set(unit ${name}_${unit})
    if(NOT unit IN_LIST REPRIEVE_SEPARATE)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit})
    endif()
  endforeach()
endfunction()
