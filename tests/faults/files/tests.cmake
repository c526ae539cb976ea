# SPDX-License-Identifier: BSD-3-Clause
# Bad files: one program, file_tests, that feeds corrupt, foreign and forged files to readers in child processes.
file(GLOB file_test_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
add_executable(file_tests ${file_test_sources})
reprieve_unity(file_tests 10)
target_include_directories(file_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(file_tests SYSTEM PRIVATE ${HDF5_INCLUDE_DIRS})
target_link_libraries(file_tests PRIVATE whole_file reprieve_internal reprieve_options ${HDF5_LIBRARIES} PkgConfig::xxhash
  GTest::gtest GTest::gmock)
target_compile_definitions(file_tests PRIVATE REPRIEVE_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
  REPRIEVE_RECORDED_DIR="${CMAKE_CURRENT_LIST_DIR}/recorded")
if(TARGET reprieve_tool)
  add_dependencies(file_tests reprieve_tool)
endif()
gtest_discover_tests(file_tests DISCOVERY_TIMEOUT 60
  PROPERTIES LABELS faults TIMEOUT 600 ENVIRONMENT "${reprieve_mpi_environment}")

add_test(NAME faults.long.files CONFIGURATIONS long COMMAND file_tests --gtest_filter=Corruption.*)
set_tests_properties(faults.long.files PROPERTIES LABELS long TIMEOUT 86400
  ENVIRONMENT "${reprieve_mpi_environment};REPRIEVE_FAULTS_LONG=1")
