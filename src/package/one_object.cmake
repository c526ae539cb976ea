# SPDX-License-Identifier: BSD-3-Clause
# cmake -D LIBRARY=file -D LINKER=ld -D OBJCOPY=objcopy -D READELF=readelf -D AR=ar -P one_object.cmake: makes the installed
# static library one object. What several objects have in common (templates of other libraries) then lies in it once, which
# is half of its size; and what is hidden becomes local, so that a program that brings other versions of the same templates
# keeps its own.
# Where the tools cannot do it, the library stays as it is.
cmake_path(REPLACE_EXTENSION LIBRARY o OUTPUT_VARIABLE object)
execute_process(COMMAND ${LINKER} -r --force-group-allocation --whole-archive ${LIBRARY} -o ${object}
  COMMAND_ECHO NONE RESULT_VARIABLE failure ERROR_VARIABLE what OUTPUT_QUIET)
# Sections have the long names of what lies in them, an eighth of the library, which are of no use any more: numbers do.
# Kept is what the linker goes by (.text.unlikely). Sections whose names are not told stay as they are.
set(renamings)
set(number 0)
if(NOT failure)
  execute_process(COMMAND ${READELF} --sections --wide ${object} OUTPUT_VARIABLE sections ERROR_QUIET)
  string(REGEX MATCHALL " \\.(text|rodata|data|bss|gcc_except_table)[.a-z]*\\._Z[^ \n]*" sections "${sections}")
  list(REMOVE_DUPLICATES sections)
  foreach(section IN LISTS sections)
    string(STRIP "${section}" section)
    string(REGEX REPLACE "\\._Z.*" "" kind "${section}")
    math(EXPR number "${number} + 1")
    string(APPEND renamings "--rename-section\n${section}=${kind}.${number}\n")
  endforeach()
  file(WRITE ${object}.renamings "${renamings}")
  execute_process(COMMAND ${OBJCOPY} --localize-hidden @${object}.renamings ${object}
    RESULT_VARIABLE failure ERROR_VARIABLE what)
  file(REMOVE ${object}.renamings)
endif()
if(NOT failure)
  execute_process(COMMAND ${AR} qcs ${LIBRARY}.new ${object} RESULT_VARIABLE failure ERROR_VARIABLE what)
endif()
if(failure)
  message(STATUS "${LIBRARY} stays an archive of several objects: ${what}")
  file(REMOVE ${LIBRARY}.new)
else()
  file(RENAME ${LIBRARY}.new ${LIBRARY})
endif()
file(REMOVE ${object})
