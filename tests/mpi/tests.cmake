# All of tests/mpi in one program, run once per number of ranks.
file(GLOB mpi_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
if(mpi_sources)
  add_executable(mpi_tests ${mpi_sources})
  target_link_libraries(mpi_tests PRIVATE mpi_test_main ${HDF5_LIBRARIES})  # to look at files without the library
  target_include_directories(mpi_tests SYSTEM PRIVATE ${HDF5_INCLUDE_DIRS})
  foreach(ranks 1 2 3 4 8)
    reprieve_add_mpi_test(NAME mpi_tests.${ranks}_ranks RANKS ${ranks} LABELS mpi COMMAND $<TARGET_FILE:mpi_tests>)
  endforeach()
endif()
