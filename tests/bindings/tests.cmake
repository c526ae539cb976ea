# The C interface, as a C program sees it: one program in C99, run under mpirun.
file(GLOB c_interface_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.c)
add_executable(c_interface_tests ${c_interface_sources})
set_target_properties(c_interface_tests PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_link_libraries(c_interface_tests PRIVATE reprieve reprieve_options)
foreach(ranks 1 2 3)
  reprieve_add_mpi_test(NAME c_interface.${ranks}_ranks RANKS ${ranks} LABELS mpi TIMEOUT 300
    COMMAND $<TARGET_FILE:c_interface_tests>)
endforeach()
