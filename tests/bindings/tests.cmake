# SPDX-License-Identifier: BSD-3-Clause
# The C interface, as a C program sees it: one program in C99, run under mpirun.
file(GLOB c_interface_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.c)
add_executable(c_interface_tests ${c_interface_sources})
set_target_properties(c_interface_tests PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_link_libraries(c_interface_tests PRIVATE reprieve_static reprieve_options)
foreach(ranks 1 2 3)
  set(few)
  if(ranks EQUAL 2)
    set(few few)  # with another MPI, or on another system, than all tests
  endif()
  reprieve_add_mpi_test(NAME c_interface.${ranks}_ranks RANKS ${ranks} LABELS mpi quick ${few} TIMEOUT 300
    COMMAND $<TARGET_FILE:c_interface_tests>)
endforeach()

# The Fortran module, as a Fortran program sees it.
if(reprieve_with_fortran AND MPI_Fortran_HAVE_F08_MODULE)
  set(folder ${CMAKE_CURRENT_LIST_DIR}/fortran)
  add_executable(fortran_tests ${folder}/main.f90 ${folder}/checks.f90 ${folder}/signals.f90 ${folder}/types_test.f90
    ${folder}/state_test.f90 ${folder}/loop_test.f90 ${folder}/procedures_test.f90 ${folder}/page_test.f90
    ${folder}/mixed_test.f90 ${folder}/walk_test.f90 ${folder}/mixed.c)
  add_executable(fortran_unhandled ${folder}/unhandled.f90)
  foreach(target fortran_tests fortran_unhandled)
    set_target_properties(${target} PROPERTIES Fortran_MODULE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${target}_modules)
    target_link_libraries(${target} PRIVATE reprieve_fortran)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:Fortran>:-Wall;-Wextra;-Wno-compare-reals;-std=f2018>" $<$<BOOL:${REPRIEVE_WARNINGS_AS_ERRORS}>:-Werror>)
  endforeach()
  foreach(ranks 1 2 3)
    set(directory ${CMAKE_CURRENT_BINARY_DIR}/fortran_${ranks})
    file(MAKE_DIRECTORY ${directory})
    set(few)
    if(ranks EQUAL 2)
      set(few few)
    endif()
    reprieve_add_mpi_test(NAME fortran.${ranks}_ranks RANKS ${ranks} LABELS mpi quick ${few} TIMEOUT 300
      COMMAND $<TARGET_FILE:fortran_tests> ENVIRONMENT TEST_DIRECTORY=${directory})
  endforeach()
  reprieve_add_mpi_test(NAME fortran.unhandled_error RANKS 2 LABELS mpi quick TIMEOUT 60
    COMMAND $<TARGET_FILE:fortran_unhandled>)
  set_tests_properties(fortran.unhandled_error PROPERTIES
    PASS_REGULAR_EXPRESSION "reprieve: .*/dev/null/checkpoints" FAIL_REGULAR_EXPRESSION "it continued|reprieve: .*reprieve: ")
endif()
