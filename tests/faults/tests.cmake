# SPDX-License-Identifier: BSD-3-Clause
# Faults. Labels: faults (short, for every change) and long (by hand: ctest --preset dev -C long -L long --verbose).
#
#   *_test.cpp       one program, faults_tests, that starts others and disturbs them; every test is a ctest entry
#   mpi/*_test.cpp   one program, faults_mpi_tests, whose ranks make their own calls fail; two ctest entries
#   programs/*.cpp   programs faults_<name>, which faults_tests starts
#   disk/disk.cpp    faults_disk, if there is libfuse3
#   injector/*.cpp   the library faults_injector, to be linked with or preloaded
if(NOT REPRIEVE_BUILD_APPS)
  return()
endif()

set(faults_folder ${CMAKE_CURRENT_LIST_DIR})
file(GLOB faults_sources CONFIGURE_DEPENDS ${faults_folder}/*.cpp)
file(GLOB faults_mpi_sources CONFIGURE_DEPENDS ${faults_folder}/mpi/*.cpp)
file(GLOB faults_program_sources CONFIGURE_DEPENDS ${faults_folder}/programs/*.cpp)
file(GLOB faults_injector_sources CONFIGURE_DEPENDS ${faults_folder}/injector/*.cpp)

add_library(faults_injector SHARED ${faults_injector_sources})
reprieve_unity(faults_injector 10)
target_link_libraries(faults_injector PRIVATE reprieve_options ${CMAKE_DL_LIBS})
target_include_directories(faults_injector PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})

foreach(source IN LISTS faults_program_sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(faults_${name} ${source})
  target_link_libraries(faults_${name} PRIVATE faults_injector reprieve_internal reprieve_options)
  target_include_directories(faults_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  list(APPEND faults_programs faults_${name})
endforeach()

pkg_check_modules(fuse3 IMPORTED_TARGET fuse3)
if(fuse3_FOUND)
  add_executable(faults_disk ${faults_folder}/disk/disk.cpp)
  target_link_libraries(faults_disk PRIVATE reprieve_options PkgConfig::fuse3)
  list(APPEND faults_programs faults_disk)
endif()

if(faults_sources)
  add_executable(faults_tests ${faults_sources} ${CMAKE_CURRENT_SOURCE_DIR}/support/process.cpp)
  reprieve_unity(faults_tests 10)
  target_link_libraries(faults_tests PRIVATE reprieve_internal reprieve_options GTest::gtest_main GTest::gmock)
  target_include_directories(faults_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(faults_tests PRIVATE $<$<BOOL:${REPRIEVE_FAILPOINTS}>:REPRIEVE_FAILPOINTS>)
  target_compile_definitions(faults_tests PRIVATE
    REPRIEVE_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}" REPRIEVE_LIB_DIR="${CMAKE_LIBRARY_OUTPUT_DIRECTORY}"
    REPRIEVE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_dependencies(faults_tests ${faults_programs} e2e_field faults_injector reprieve_tool)
  gtest_discover_tests(faults_tests DISCOVERY_TIMEOUT 120 PROPERTIES LABELS faults TIMEOUT 600 COST 100)  # long, so early
endif()

if(faults_mpi_sources)
  # The injector comes first, so that it is searched before the C library.
  add_executable(faults_mpi_tests ${faults_mpi_sources})
  reprieve_unity(faults_mpi_tests 10)
  target_link_libraries(faults_mpi_tests PRIVATE faults_injector mpi_test_main)
  # Their ranks exchange thousands of short messages: beside other tests, or if they yielded their cores while they wait,
  # each message would wait for a turn of another process.
  set(faults_mpi_environment TMPDIR=/dev/shm MPI_TEST_TIMEOUT_S=300 OMPI_MCA_mpi_yield_when_idle=0)
  reprieve_add_mpi_test(NAME faults_mpi_tests RANKS 2 LABELS faults
    COMMAND $<TARGET_FILE:faults_mpi_tests> --gtest_filter=-*EveryAllocation*:*HandlerMemory*
    ENVIRONMENT ${faults_mpi_environment})
  reprieve_add_mpi_test(NAME faults_mpi_memory RANKS 2 LABELS faults
    COMMAND $<TARGET_FILE:faults_mpi_tests> --gtest_filter=*EveryAllocation*:*HandlerMemory*
    ENVIRONMENT ${faults_mpi_environment})
  set_tests_properties(faults_mpi_tests faults_mpi_memory PROPERTIES COST 500 RUN_SERIAL ON TIMEOUT 1500)
endif()

# reprieve_long_faults(name filter variables...): the tests of faults_tests that the filter selects, at length.
function(reprieve_long_faults name filter)
  add_test(NAME faults.long.${name} CONFIGURATIONS long
    COMMAND faults_tests --gtest_filter=${filter})
  set_tests_properties(faults.long.${name} PROPERTIES LABELS long TIMEOUT 86400 RUN_SERIAL ON ENVIRONMENT "${ARGN}")
endfunction()
if(TARGET faults_tests)
  reprieve_long_faults(endurance Endurance.* REPRIEVE_FAULTS_SECONDS=3600 ${reprieve_mpi_environment})
  reprieve_long_faults(random_kills "*RandomKills*" REPRIEVE_RANDOM_KILLS=3334)
  reprieve_long_faults(failpoints "*Failpoints*" REPRIEVE_EVERY_PLACE=1)
reprieve_long_faults(emergency_saves "*EmergencySaveFaults*" REPRIEVE_EMERGENCIES=1000)
  reprieve_long_faults(kill_fuzzer "*KillFuzzer*" REPRIEVE_FUZZ_ROUNDS=5000)
  reprieve_long_faults(power_cuts "*PowerCut*" REPRIEVE_POWER_CUTS=1000)
  reprieve_long_faults(mpio_romio "*MpioEveryCall*" OMPI_MCA_io=romio321)
endif()
