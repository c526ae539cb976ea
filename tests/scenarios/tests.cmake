# SPDX-License-Identifier: BSD-3-Clause
# The rows of the specification (README.md): the worker of TensorFlow's own tests, ported, under mpirun with real signals.
set(scenarios_folder ${CMAKE_CURRENT_LIST_DIR})
add_executable(scenarios_tensorflow ${scenarios_folder}/programs/tensorflow.cpp)
target_link_libraries(scenarios_tensorflow PRIVATE reprieve_internal reprieve_options)

add_executable(scenarios_tests ${scenarios_folder}/scenarios_test.cpp ${CMAKE_CURRENT_SOURCE_DIR}/support/process.cpp)
target_link_libraries(scenarios_tests PRIVATE nlohmann_json::nlohmann_json reprieve_options GTest::gtest_main GTest::gmock)
target_include_directories(scenarios_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(scenarios_tests PRIVATE REPRIEVE_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
add_dependencies(scenarios_tests scenarios_tensorflow)
# They mostly wait, as those of e2e: each counts as one.
gtest_discover_tests(scenarios_tests DISCOVERY_TIMEOUT 120 PROPERTIES LABELS scenarios TIMEOUT 300)
if(REPRIEVE_OPEN_MPI)  # its MPI_Init then starts with MPI_THREAD_MULTIPLE, and the ranks agree by threads
  gtest_discover_tests(scenarios_tests TEST_SUFFIX .by_threads DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS scenarios TIMEOUT 300 ENVIRONMENT OMPI_MPI_THREAD_LEVEL=3)
endif()

# Each a hundred times: ctest -C long -L long
add_test(NAME scenarios.long CONFIGURATIONS long COMMAND scenarios_tests)
set_tests_properties(scenarios.long PROPERTIES LABELS long TIMEOUT 86400 RUN_SERIAL ON
  ENVIRONMENT REPRIEVE_SCENARIO_REPETITIONS=100)
