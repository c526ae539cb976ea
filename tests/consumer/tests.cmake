# SPDX-License-Identifier: BSD-3-Clause
# The installed library: programs of a user's that are built against it, by CMake and by pkg-config, with the shared and
# the static library. Label: consumer. One of the two libraries is that of this build; the other is built here, from
# the same objects where there is a ccache: as deep as this one, for a ccache that makes paths relative.
if(REPRIEVE_SANITIZE OR NOT REPRIEVE_BUILD_APPS)
  return()
endif()

set(consumer_folder ${PROJECT_BINARY_DIR}/consumer)
list(JOIN reprieve_mpi_selection " " selection)
if(BUILD_SHARED_LIBS)
  set(this_link shared)
  set(other_link static)
  set(other_is_shared OFF)
else()
  set(this_link static)
  set(other_link shared)
  set(other_is_shared ON)
endif()

add_test(NAME consumer.install.${this_link}
  COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${consumer_folder}/${this_link})
add_test(NAME consumer.install.${other_link}
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/build_and_install.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}-${other_link}
    -G ${CMAKE_GENERATOR} -D BUILD_SHARED_LIBS=${other_is_shared}
    -D REPRIEVE_BUILD_APPS=OFF -D REPRIEVE_BUILD_TESTS=OFF -D REPRIEVE_KILL_POINTS=${REPRIEVE_KILL_POINTS}
    -D REPRIEVE_WARNINGS_AS_ERRORS=${REPRIEVE_WARNINGS_AS_ERRORS} -D CMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}
    -D REPRIEVE_UNITY=${REPRIEVE_UNITY} "-DREPRIEVE_SEPARATE=${REPRIEVE_SEPARATE}"
    -D "CMAKE_CXX_FLAGS_RELWITHDEBINFO=${CMAKE_CXX_FLAGS_RELWITHDEBINFO}"
    -D CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}
    -D CMAKE_INSTALL_PREFIX=${consumer_folder}/${other_link} ${reprieve_mpi_selection})

foreach(link ${this_link} ${other_link})
  set_tests_properties(consumer.install.${link} PROPERTIES
    LABELS consumer TIMEOUT 1800 FIXTURES_SETUP consumer_${link} PROCESSORS 2)
  foreach(way cmake pkg-config)
    add_test(NAME consumer.${link}.${way}
      COMMAND ${CMAKE_CURRENT_LIST_DIR}/try.sh ${way} ${consumer_folder}/${link} ${consumer_folder}/${link}-${way})
    set_tests_properties(consumer.${link}.${way} PROPERTIES
      LABELS consumer TIMEOUT 600 FIXTURES_REQUIRED consumer_${link} PROCESSORS 3
      ENVIRONMENT "${reprieve_mpi_environment};MPIEXEC=${MPIEXEC_EXECUTABLE};CMAKE_ARGUMENTS=${selection}")
  endforeach()
endforeach()

# How large the library is, and how much of it a program gets that is linked with the static one. With room for a third more
# than today.
set_tests_properties(consumer.static.cmake PROPERTIES FIXTURES_SETUP consumer_program)
add_test(NAME consumer.sizes COMMAND ${CMAKE_CURRENT_LIST_DIR}/sizes.sh
  ${consumer_folder}/shared/${CMAKE_INSTALL_LIBDIR}/libreprieve.so 3700 ${consumer_folder}/static-cmake/consumer_cpp 4900
  ${consumer_folder}/static/${CMAKE_INSTALL_LIBDIR}/libreprieve.a 10000)
set_tests_properties(consumer.sizes PROPERTIES
  LABELS consumer FIXTURES_REQUIRED "consumer_shared;consumer_static;consumer_program")

set(shared_libraries c++ libreprieve.so)
if(reprieve_with_fortran AND CMAKE_Fortran_COMPILER_ID STREQUAL GNU)
  list(APPEND shared_libraries fortran libreprieve_fortran.so)
endif()
while(shared_libraries)
  list(POP_FRONT shared_libraries interface library)
  add_test(NAME consumer.symbols.${interface} COMMAND ${CMAKE_CURRENT_LIST_DIR}/check_symbols.sh
    ${interface} ${consumer_folder}/shared/${CMAKE_INSTALL_LIBDIR}/${library})
  set_tests_properties(consumer.symbols.${interface} PROPERTIES LABELS consumer FIXTURES_REQUIRED consumer_shared)
endwhile()

add_test(NAME consumer.programs
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/installed.sh ${consumer_folder}/${this_link})
set_tests_properties(consumer.programs PROPERTIES LABELS consumer TIMEOUT 120 FIXTURES_REQUIRED consumer_${this_link}
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
        ${consumer_folder}/shared ${consumer_folder}/tutorial-${extension})
    set_tests_properties(consumer.tutorial.${extension} PROPERTIES
      LABELS consumer TIMEOUT 600 FIXTURES_REQUIRED consumer_shared PROCESSORS 3
      ENVIRONMENT "${reprieve_mpi_environment}")
  endwhile()
  add_test(NAME consumer.quick COMMAND ${CMAKE_CURRENT_LIST_DIR}/quick.sh
    ${PROJECT_SOURCE_DIR}/apps/guide/quick.md ${consumer_folder}/${this_link} ${consumer_folder}/quick)
  set_tests_properties(consumer.quick PROPERTIES
    LABELS consumer TIMEOUT 600 FIXTURES_REQUIRED consumer_${this_link} PROCESSORS 3
    ENVIRONMENT "${reprieve_mpi_environment}")
endif()

if(TARGET reprieve_tool_core AND REPRIEVE_INSTALL AND NOT REPRIEVE_PACKAGES AND NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  add_test(NAME consumer.modulefile
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/modulefile.sh ${consumer_folder}/${this_link} ${consumer_folder}/modulefile)
  set_tests_properties(consumer.modulefile PROPERTIES LABELS consumer TIMEOUT 300 SKIP_RETURN_CODE 77
    FIXTURES_REQUIRED consumer_${this_link}
    ENVIRONMENT "${reprieve_mpi_environment};MPIEXEC=${MPIEXEC_EXECUTABLE};CMAKE_ARGUMENTS=${selection}")
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
