# SPDX-License-Identifier: BSD-3-Clause
# Tests under mpirun. Sets reprieve_mpi_environment (for all tests that start mpirun) and offers reprieve_add_mpi_test.

# Root is refused by mpirun without being told twice. Tests run more ranks than there are cores: ranks then have to
# yield while they wait, and must not be bound to cores. The single-copy mechanism is forbidden in many containers.
# By the routes of the kernel (netlink) Open MPI 5 can take an address of this machine for one that it does not reach.
# Each variable twice where Open MPI 5 has another name for it; no version minds the names of the other.
set(reprieve_mpi_environment
  OMPI_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT=1
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:OVERSUBSCRIBE
  OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
  OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_smsc=^cma
  OMPI_MCA_reachable=weighted
  OMPI_MCA_mpi_yield_when_idle=1)
# MPICH does not bind, does not mind root, and knows nothing of these variables; ranks that share cores are made to nap.
set(reprieve_mpirun ${MPIEXEC_EXECUTABLE})
if(REPRIEVE_OPEN_MPI)
  list(APPEND reprieve_mpirun --oversubscribe)
else()
  add_library(mpich_nap MODULE ${CMAKE_CURRENT_LIST_DIR}/mpich_nap.c)
  target_link_libraries(mpich_nap PRIVATE ${CMAKE_DL_LIBS})
  cmake_host_system_information(RESULT reprieve_cores QUERY NUMBER_OF_LOGICAL_CORES)
endif()
# For projects of other folders that are to use the same MPI.
set(reprieve_mpi_selection)
foreach(variable MPI_C_COMPILER MPI_CXX_COMPILER MPI_Fortran_COMPILER MPIEXEC_EXECUTABLE HDF5_C_COMPILER_EXECUTABLE)
  if(${variable} AND NOT REPRIEVE_OPEN_MPI)
    list(APPEND reprieve_mpi_selection -D${variable}=${${variable}})
  endif()
endforeach()

# reprieve_add_mpi_test(NAME name RANKS n COMMAND program args... [LABELS ...] [TIMEOUT seconds] [ENVIRONMENT ...]
#   [WRAPPER program args...])
# One ctest entry that runs the program under mpirun, and mpirun under the wrapper if there is one. The time limit of
# ctest is the last resort: the test main names the ranks that hang long before.
function(reprieve_add_mpi_test)
  cmake_parse_arguments(arg "" "NAME;RANKS;TIMEOUT" "COMMAND;LABELS;ENVIRONMENT;WRAPPER" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 1500)  # far more than they need, also where the machine has more to do
  endif()
  # Ranks wait for each other and for the disk most of the time. With Open MPI they yield meanwhile: two count as one test.
  set(slots ${arg_RANKS})
  if(REPRIEVE_OPEN_MPI)
    math(EXPR slots "(${arg_RANKS} + 1) / 2")
  endif()
  set(nap)
  if(NOT REPRIEVE_OPEN_MPI AND arg_RANKS GREATER reprieve_cores)
    set(nap -genv LD_PRELOAD $<TARGET_FILE:mpich_nap>)
  endif()
  add_test(NAME ${arg_NAME}
    COMMAND ${arg_WRAPPER} ${reprieve_mpirun} ${nap} ${MPIEXEC_NUMPROC_FLAG} ${arg_RANKS} ${arg_COMMAND})
  set_tests_properties(${arg_NAME} PROPERTIES
    ENVIRONMENT "${reprieve_mpi_environment};${arg_ENVIRONMENT}"
    LABELS "${arg_LABELS}"
    PROCESSORS ${slots}
    TIMEOUT ${arg_TIMEOUT})
endfunction()

# The fast unwinder of sanitizers loses its way in MPI. These programs look for leaks before the end of MPI, so the first
# frame is enough to name its libraries: the tests take three fifths of the time.
set(reprieve_fast_unwinder ASAN_OPTIONS=fast_unwind_on_malloc=1:malloc_context_size=20:intercept_tls_get_addr=0)

add_library(mpi_test_main OBJECT ${CMAKE_CURRENT_LIST_DIR}/mpi_main.cpp)
target_include_directories(mpi_test_main PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(mpi_test_main PUBLIC reprieve_internal reprieve_options GTest::gtest GTest::gmock)

# The test main is tested as well: by a program whose tests fail, diverge and hang.
add_executable(mpi_main_probe ${CMAKE_CURRENT_LIST_DIR}/mpi_main_probe.cpp)
target_link_libraries(mpi_main_probe PRIVATE mpi_test_main)

# reprieve_probe_mpi_main(name filter pattern variable...): the probe must fail, and say what the pattern
# wants.
function(reprieve_probe_mpi_main name filter pattern)
  reprieve_add_mpi_test(NAME mpi_main.${name} RANKS 3 LABELS mpi quick TIMEOUT 60
    COMMAND $<TARGET_FILE:mpi_main_probe> --gtest_filter=${filter} ENVIRONMENT ${ARGN})
  set_tests_properties(mpi_main.${name} PROPERTIES PASS_REGULAR_EXPRESSION "${pattern}")
  reprieve_add_mpi_test(NAME mpi_main.${name}.exit_code RANKS 3 LABELS mpi quick TIMEOUT 60
    COMMAND $<TARGET_FILE:mpi_main_probe> --gtest_filter=${filter} ENVIRONMENT ${ARGN})
  set_tests_properties(mpi_main.${name}.exit_code PROPERTIES WILL_FAIL ON)
endfunction()
reprieve_probe_mpi_main(shows_failures_of_other_ranks Probe.FailsOnRank1 "\\[rank 1/3\\] .*on rank one.*FAILED")
reprieve_probe_mpi_main(shows_failures_of_rank_0 Probe.FailsOnRank0 "\\[rank 0/3\\] .*on rank 0.*FAILED")
reprieve_probe_mpi_main(shows_failures_outside_of_tests ProbeSetUp.* "\\[rank 2/3\\] .*in the set-up")
reprieve_probe_mpi_main(names_ranks_that_hang Probe.HangsOnRank1 "\\[rank 1/3\\] stuck in Probe.HangsOnRank1 for 3 s"
  MPI_TEST_TIMEOUT_S=3)
if(REPRIEVE_SANITIZE MATCHES address)
  reprieve_probe_mpi_main(shows_leaks Probe.LeaksOnRank1 "LeakSanitizer: detected memory leaks.*Probe_LeaksOnRank1" ${reprieve_fast_unwinder})
endif()
