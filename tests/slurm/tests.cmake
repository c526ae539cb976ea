# SPDX-License-Identifier: BSD-3-Clause
# Jobs in a real Slurm: one program, slurm_tests, that starts a private Slurm for each of its test suites and plays the
# jobs of a suite in it side by side. One ctest entry per suite and user: of each user one at a time, and the first (COST) of
# all tests, since they mostly wait, beside the others. Skipped where Slurm is not installed.
if(NOT REPRIEVE_BUILD_APPS)
  return()
endif()

file(GLOB slurm_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
add_executable(slurm_tests ${slurm_sources} ${CMAKE_CURRENT_SOURCE_DIR}/support/process.cpp)
reprieve_unity(slurm_tests 10)
target_link_libraries(slurm_tests PRIVATE nlohmann_json::nlohmann_json reprieve_options GTest::gtest GTest::gmock
  Threads::Threads)
target_include_directories(slurm_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(slurm_tests PRIVATE
  REPRIEVE_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}" REPRIEVE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
add_dependencies(slurm_tests reprieve_tool reprieve-trainer)

# reprieve_add_slurm_tests(name filter user...): the tests that the filter picks, once as each user: `root` is skipped
# for anybody else; for `nobody` root becomes that user, and anybody else stays what he is.
function(reprieve_add_slurm_tests name filter)
  foreach(user IN LISTS ARGN)
    add_test(NAME slurm.${name}.${user} COMMAND slurm_tests --gtest_filter=${filter})
    set_tests_properties(slurm.${name}.${user} PROPERTIES
      LABELS slurm TIMEOUT 900 RESOURCE_LOCK slurm.${user} COST 1000 SKIP_RETURN_CODE 77
      ENVIRONMENT "SLURM_TEST_USER=${user}")
  endforeach()
endfunction()
reprieve_add_slurm_tests(preempted */OneNodePreempted.* nobody)
reprieve_add_slurm_tests(preempted_at_start */OneNodePreemptedAtStart.* nobody)
reprieve_add_slurm_tests(notified */OneNodeKnows.* nobody)
reprieve_add_slurm_tests(four_nodes FourNodes.* root)
reprieve_add_slurm_tests(dead_node DeadNode.* root)
reprieve_add_slurm_tests(rules */JobRules.* nobody)
reprieve_add_slurm_tests(requeue_exit */RequeueExit.* nobody)
reprieve_add_slurm_tests(no_user_signal */NoUserSignal.* nobody)
reprieve_add_slurm_tests(new_user */NewUser.* nobody)
reprieve_add_slurm_tests(drill SlurmDrill.* nobody)

# As root, by hand (ctest -C long -L long): the table of slurm/README.md, 126 jobs in six minutes; and what `nobody` does
# above, where Slurm kills by control group.
foreach(name_and_filter ways:WaysAndEnds.* one_node:*/OneNode*)
  string(REPLACE ":" ";--gtest_filter=" words ${name_and_filter})
  list(POP_FRONT words name)
  add_test(NAME slurm.long.${name} COMMAND slurm_tests ${words} CONFIGURATIONS long)
  set_tests_properties(slurm.long.${name} PROPERTIES
    LABELS long TIMEOUT 1200 RESOURCE_LOCK slurm.root SKIP_RETURN_CODE 77 ENVIRONMENT "SLURM_TEST_USER=root")
endforeach()
