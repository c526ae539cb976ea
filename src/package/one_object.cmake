# SPDX-License-Identifier: BSD-3-Clause
# cmake -D LIBRARY=file -D LINKER=ld -D OBJCOPY=objcopy -D AR=ar -P one_object.cmake: makes the installed static library one
# object. What several objects have in common (templates of other libraries) then lies in it once, which is half of its
# size; and what is hidden becomes local, so that a program that brings other versions of the same templates keeps its own.
# Where the tools cannot do it, the library stays as it is.
cmake_path(REPLACE_EXTENSION LIBRARY o OUTPUT_VARIABLE object)
execute_process(COMMAND ${LINKER} -r --force-group-allocation --whole-archive ${LIBRARY} -o ${object}
  COMMAND_ECHO NONE RESULT_VARIABLE failure ERROR_VARIABLE what OUTPUT_QUIET)
if(NOT failure)
  execute_process(COMMAND ${OBJCOPY} --localize-hidden ${object} RESULT_VARIABLE failure ERROR_VARIABLE what)
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
