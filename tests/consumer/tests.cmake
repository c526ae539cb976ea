# SPDX-License-Identifier: BSD-3-Clause
# The installed library: programs of a user's that are built against it, by CMake and by pkg-config, with the shared and
# the static library. Label: consumer.
if(REPRIEVE_SANITIZE OR NOT REPRIEVE_BUILD_APPS)
  return()
endif()

set(consumer_folder ${PROJECT_BINARY_DIR}/consumer)
set(installed ${consumer_folder}/installed)
list(JOIN reprieve_mpi_selection " " selection)
set(consumer_environment "${reprieve_mpi_environment};MPIEXEC=${MPIEXEC_EXECUTABLE};CMAKE_ARGUMENTS=${selection}")

add_test(NAME consumer.install COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${installed})
set_tests_properties(consumer.install PROPERTIES LABELS consumer TIMEOUT 300 FIXTURES_SETUP consumer_installed)

foreach(library shared static)
  foreach(way cmake pkg-config)
    add_test(NAME consumer.${library}.${way} COMMAND ${CMAKE_CURRENT_LIST_DIR}/try.sh ${way} ${installed}
      ${consumer_folder}/${library}-${way} $<$<STREQUAL:${library},static>:static>)
    set_tests_properties(consumer.${library}.${way} PROPERTIES
      LABELS consumer TIMEOUT 600 FIXTURES_REQUIRED consumer_installed PROCESSORS 2 ENVIRONMENT "${consumer_environment}")
  endforeach()
endforeach()

# Programs that use much beside Reprieve, with every compiler that is there.
list(TRANSFORM HDF5_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE hdf5_flags)
list(JOIN hdf5_flags " " hdf5_flags)
list(JOIN HDF5_LIBRARIES " " hdf5_libraries)
add_test(NAME consumer.matrix
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/matrix/matrix.sh ${installed} ${consumer_folder}/matrix)
set_tests_properties(consumer.matrix PROPERTIES
  LABELS consumer TIMEOUT 1800 FIXTURES_REQUIRED consumer_installed
  ENVIRONMENT "${consumer_environment};HDF5_CFLAGS=${hdf5_flags};HDF5_LIBS=${hdf5_libraries}")

# What the libraries show, what they need, and how large they are.
set(libraries c++ libreprieve.so static libreprieve.a)
if(reprieve_with_fortran AND CMAKE_Fortran_COMPILER_ID STREQUAL GNU)
  list(APPEND libraries fortran libreprieve_fortran.so)
endif()
while(libraries)
  list(POP_FRONT libraries interface library)
  add_test(NAME consumer.symbols.${interface} COMMAND ${CMAKE_CURRENT_LIST_DIR}/check_symbols.sh
    ${interface} ${installed}/${CMAKE_INSTALL_LIBDIR}/${library})
  set_tests_properties(consumer.symbols.${interface} PROPERTIES LABELS consumer FIXTURES_REQUIRED consumer_installed)
endwhile()

add_test(NAME consumer.sizes COMMAND ${CMAKE_CURRENT_LIST_DIR}/sizes.sh ${installed}/${CMAKE_INSTALL_LIBDIR}/libreprieve.so
  ${installed}/${CMAKE_INSTALL_LIBDIR}/libreprieve.a ${installed}/${CMAKE_INSTALL_BINDIR}/reprieve-heat)
set_tests_properties(consumer.sizes PROPERTIES LABELS consumer FIXTURES_REQUIRED consumer_installed)

add_test(NAME consumer.programs
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/installed.sh ${installed})
set_tests_properties(consumer.programs PROPERTIES LABELS consumer TIMEOUT 120 FIXTURES_REQUIRED consumer_installed
  ENVIRONMENT "${reprieve_mpi_environment}")

# Headers and programs, with the compilers that are there.
set(mpi_flags ${MPI_CXX_INCLUDE_DIRS})
list(TRANSFORM mpi_flags PREPEND -I)
list(JOIN mpi_flags " " mpi_flags)
add_test(NAME consumer.compilers COMMAND ${CMAKE_CURRENT_LIST_DIR}/compilers.sh)
set_tests_properties(consumer.compilers PROPERTIES LABELS consumer TIMEOUT 600 ENVIRONMENT "MPI_FLAGS=${mpi_flags}")

# The source tree in a project of a user's, by add_subdirectory and by FetchContent. The library is compiled for the first
# alone, without optimisation; the second shows that the project is configured, and what the defaults are.
foreach(way subdirectory fetch)
  add_test(NAME consumer.embedded.${way}
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/embed.sh ${way} ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}-embedded-${way}
      -G ${CMAKE_GENERATOR} -D CMAKE_CXX_FLAGS=-O0 -D REPRIEVE_UNITY=${REPRIEVE_UNITY}
      -D CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER} ${reprieve_mpi_selection})
  set_tests_properties(consumer.embedded.${way} PROPERTIES LABELS consumer TIMEOUT 1800 PROCESSORS 2
    ENVIRONMENT "${reprieve_mpi_environment};MPIEXEC=${MPIEXEC_EXECUTABLE}")
endforeach()

# The tutorial, as a reader would: its text, command by command. Its commands are those of Open MPI.
if(REPRIEVE_OPEN_MPI)
  set(tutorial ${PROJECT_SOURCE_DIR}/apps/guide/tutorial)
  set(languages C++ cpp C c)
  if(reprieve_with_fortran)
    list(APPEND languages Fortran f90)
  endif()
  while(languages)
    list(POP_FRONT languages language extension)
    add_test(NAME consumer.tutorial.${extension}
      COMMAND ${CMAKE_CURRENT_LIST_DIR}/tutorial.sh ${language} ${tutorial}/README.md ${tutorial}/heat.${extension}
        ${installed} ${consumer_folder}/tutorial-${extension})
    set_tests_properties(consumer.tutorial.${extension} PROPERTIES
      LABELS consumer TIMEOUT 600 FIXTURES_REQUIRED consumer_installed PROCESSORS 3
      ENVIRONMENT "${reprieve_mpi_environment}")
  endwhile()
  add_test(NAME consumer.quick COMMAND ${CMAKE_CURRENT_LIST_DIR}/quick.sh
    ${PROJECT_SOURCE_DIR}/apps/guide/quick.md ${installed} ${consumer_folder}/quick)
  set_tests_properties(consumer.quick PROPERTIES
    LABELS consumer TIMEOUT 600 FIXTURES_REQUIRED consumer_installed PROCESSORS 3
    ENVIRONMENT "${reprieve_mpi_environment}")
endif()

if(TARGET reprieve_tool_core AND REPRIEVE_INSTALL AND NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  add_test(NAME consumer.modulefile
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/modulefile.sh ${installed} ${consumer_folder}/modulefile)
  set_tests_properties(consumer.modulefile PROPERTIES LABELS consumer TIMEOUT 300 SKIP_RETURN_CODE 77
    FIXTURES_REQUIRED consumer_installed
    ENVIRONMENT "${consumer_environment}")
endif()

if(REPRIEVE_PYTHON AND TARGET python_module AND REPRIEVE_OPEN_MPI)
  add_test(NAME consumer.pip
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/pip.sh ${PROJECT_BINARY_DIR} ${consumer_folder}/pip ${REPRIEVE_PYTHON})
  set_tests_properties(consumer.pip PROPERTIES LABELS consumer TIMEOUT 300 SKIP_RETURN_CODE 77 PROCESSORS 2
    ENVIRONMENT "${reprieve_mpi_environment};MPIEXEC=${MPIEXEC_EXECUTABLE}")
endif()

if(REPRIEVE_PYTHON)
  add_test(NAME consumer.recipes
    COMMAND ${REPRIEVE_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/recipes.py ${PROJECT_SOURCE_DIR}/apps/recipes)
  set_tests_properties(consumer.recipes PROPERTIES LABELS consumer TIMEOUT 60 SKIP_RETURN_CODE 77)
endif()

add_test(NAME consumer.release
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/release.sh ${PROJECT_SOURCE_DIR} ${consumer_folder}/release
    -G ${CMAKE_GENERATOR} ${reprieve_mpi_selection})
set_tests_properties(consumer.release PROPERTIES LABELS consumer TIMEOUT 300 SKIP_RETURN_CODE 77)
