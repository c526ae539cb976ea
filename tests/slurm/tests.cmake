# Jobs in a real Slurm: one program, slurm_tests, that starts a private Slurm for each of its test suites and runs the
# jobs of a suite in it side by side. One ctest entry per suite. Skipped where Slurm is not installed.
if(NOT REPRIEVE_BUILD_APPS)
  return()
endif()

file(GLOB slurm_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
add_executable(slurm_tests ${slurm_sources} ${CMAKE_CURRENT_SOURCE_DIR}/support/process.cpp)
target_link_libraries(slurm_tests PRIVATE nlohmann_json::nlohmann_json reprieve_options GTest::gtest GTest::gmock)
target_include_directories(slurm_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(slurm_tests PRIVATE
  REPRIEVE_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}" REPRIEVE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
add_dependencies(slurm_tests reprieve reprieve-trainer)

# reprieve_add_slurm_test(name filter [user]): the tests that the filter picks, run by root as @p user if given.
function(reprieve_add_slurm_test name filter)
  add_test(NAME slurm.${name} COMMAND slurm_tests --gtest_filter=${filter})
  set_tests_properties(slurm.${name} PROPERTIES
    LABELS slurm TIMEOUT 900 RUN_SERIAL ON SKIP_REGULAR_EXPRESSION "\\[  PASSED  \\] 0 tests"
    ENVIRONMENT "SLURM_TEST_USER=${ARGN}")
endfunction()
reprieve_add_slurm_test(cluster SlurmCluster.*)
reprieve_add_slurm_test(cluster.user SlurmCluster.* nobody)
