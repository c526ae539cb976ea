# SPDX-License-Identifier: BSD-3-Clause
# What version_details() says of the build: the commit, HDF5, and the options.

# The commit: `git archive` writes it into its copy of this file (.gitattributes), and a clone asks git, but not that of a
# repository around an unpacked archive.
set(reprieve_commit "$Format:%H$")
if(reprieve_commit MATCHES "^[0-9a-f]+$")
  string(SUBSTRING ${reprieve_commit} 0 12 reprieve_commit)
else()
  set(reprieve_commit unknown)
endif()
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} RESULT_VARIABLE git_result OUTPUT_VARIABLE git_output
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(git_result EQUAL 0)
    set(reprieve_commit ${git_output})
  endif()
endif()

set(built_options ${CMAKE_BUILD_TYPE})
if(REPRIEVE_FAILPOINTS)
  list(APPEND built_options "failpoints")
endif()
if(REPRIEVE_SANITIZE)
  string(REPLACE "," " and " sanitizers ${REPRIEVE_SANITIZE})
  list(APPEND built_options "sanitizers ${sanitizers}")
endif()
list(JOIN built_options ", " built_options)

# For that file alone: a new commit compiles nothing else again.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/core/version_details.cpp
  TARGET_DIRECTORY reprieve_core PROPERTIES COMPILE_DEFINITIONS
  "REPRIEVE_BUILT_COMMIT=\"${reprieve_commit}\";REPRIEVE_BUILT_HDF5=\"${HDF5_VERSION}\";REPRIEVE_BUILT_OPTIONS=\"${built_options}\"")
