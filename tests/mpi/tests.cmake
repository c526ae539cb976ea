# SPDX-License-Identifier: BSD-3-Clause
# All of tests/mpi in one program, run once per number of ranks.
file(GLOB mpi_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
if(mpi_sources)
  add_executable(mpi_tests ${mpi_sources})
  reprieve_unity(mpi_tests 5)
  target_link_libraries(mpi_tests PRIVATE mpi_test_main whole_file ${HDF5_LIBRARIES})  # to look at files without the library
  target_include_directories(mpi_tests SYSTEM PRIVATE ${HDF5_INCLUDE_DIRS})
  foreach(ranks 1 2 3 8)
    set(quick)
    set(filter *)
    if(ranks GREATER 3)  # what depends on the number of ranks: layouts, exchanges, agreement, partners
      set(filter *Storage*:*Communicator*:*Restore*:SharedElements*:OrderTest*:*Layout*:LocalPartners*:HandlersOfParts*:*Rounds*:*Writers*)
    elseif(ranks EQUAL 2)
      set(quick quick few)
    else()
      set(quick quick)
    endif()
    reprieve_add_mpi_test(NAME mpi_tests.${ranks}_ranks RANKS ${ranks} LABELS mpi ${quick}
      COMMAND $<TARGET_FILE:mpi_tests> --gtest_filter=${filter} ENVIRONMENT ${reprieve_fast_unwinder})
  endforeach()
  # The ranks agree by threads there, as MPI allows it. The handler once more with planned checks, and without threads.
  foreach(ranks 2 3)
    reprieve_add_mpi_test(NAME mpi_tests.at_boundaries.${ranks}_ranks RANKS ${ranks} LABELS mpi quick
      COMMAND $<TARGET_FILE:mpi_tests> --gtest_filter=Handler*:Scope* ENVIRONMENT REPRIEVE_TERMINATION_AGREEMENT=boundaries
        ${reprieve_fast_unwinder})
  endforeach()
  reprieve_add_mpi_test(NAME mpi_tests.without_threads RANKS 2 LABELS mpi quick
    COMMAND $<TARGET_FILE:mpi_tests> --gtest_filter=WithoutThreads.*:HandlerSignals*:HandlerNotice* ENVIRONMENT MPI_TEST_THREAD_LEVEL=funneled
      ${reprieve_fast_unwinder})
endif()

# A short form for another MPI: what talks most to it, for .ci/run.
if(NOT REPRIEVE_OPEN_MPI)
  add_executable(mpi_few_tests EXCLUDE_FROM_ALL)
  foreach(name cluster_communicator cluster_round_thread handler handler_end manager_open storage_round_trip)
    target_sources(mpi_few_tests PRIVATE ${CMAKE_CURRENT_LIST_DIR}/${name}_test.cpp)
  endforeach()
  reprieve_unity(mpi_few_tests 3)
  target_link_libraries(mpi_few_tests PRIVATE mpi_test_main whole_file ${HDF5_LIBRARIES})
  target_include_directories(mpi_few_tests SYSTEM PRIVATE ${HDF5_INCLUDE_DIRS})
  reprieve_add_mpi_test(NAME mpi_few_tests.2_ranks RANKS 2 LABELS few COMMAND $<TARGET_FILE:mpi_few_tests>)
endif()

# Sessions of MPI 4: refused without MPI_Init, and taken with it.
if(MPI_CXX_VERSION VERSION_GREATER_EQUAL 4)
  add_executable(session ${CMAKE_CURRENT_LIST_DIR}/programs/session.cpp)
  target_link_libraries(session PRIVATE reprieve_static reprieve_options)
  reprieve_add_mpi_test(NAME session.2_ranks RANKS 2 LABELS mpi few TIMEOUT 60 COMMAND $<TARGET_FILE:session>)
endif()

# The launcher must hand on the code that all ranks leave with, whatever it thinks of ranks that leave. If some do not, the
# others leave without them.
add_executable(leaves ${CMAKE_CURRENT_LIST_DIR}/programs/leaves.cpp)
target_link_libraries(leaves PRIVATE reprieve_static reprieve_options)
reprieve_add_mpi_test(NAME leave_together.exit_code RANKS 8 LABELS mpi quick TIMEOUT 300
  WRAPPER ${CMAKE_CURRENT_LIST_DIR}/exit_code.sh 42 10 COMMAND $<TARGET_FILE:leaves>)
reprieve_add_mpi_test(NAME leave_together.without_others RANKS 3 LABELS mpi quick TIMEOUT 60 COMMAND $<TARGET_FILE:leaves> alone)
set_tests_properties(leave_together.without_others PROPERTIES PASS_REGULAR_EXPRESSION "rank 0 leaves")
