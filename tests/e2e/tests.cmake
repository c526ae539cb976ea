# SPDX-License-Identifier: BSD-3-Clause
# Real processes: one program, e2e_tests, that starts the programs of this build, under mpirun where they are parallel.
# Every test is a ctest entry of its own. A source file programs/<name>.cpp is a program e2e_<name> that tests start.
if(NOT REPRIEVE_BUILD_APPS)
  return()
endif()

file(GLOB e2e_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
file(GLOB e2e_program_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/programs/*.cpp)

# Results that one test computes for others.
set(e2e_cache ${CMAKE_CURRENT_BINARY_DIR}/e2e-cache)
file(MAKE_DIRECTORY ${e2e_cache})

add_executable(e2e_tests ${e2e_sources} ${CMAKE_CURRENT_SOURCE_DIR}/support/process.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/support/http_server.cpp ${CMAKE_CURRENT_SOURCE_DIR}/support/metadata_server.cpp)
reprieve_unity(e2e_tests 10)
pkg_check_modules(tinyxml2 REQUIRED IMPORTED_TARGET tinyxml2)
target_link_libraries(e2e_tests PRIVATE PkgConfig::tinyxml2 nlohmann_json::nlohmann_json reprieve_options GTest::gtest_main GTest::gmock)
target_include_directories(e2e_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(e2e_tests PRIVATE
  REPRIEVE_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}" REPRIEVE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  REPRIEVE_CACHE_DIR="${e2e_cache}" REPRIEVE_NO_CURL="$<TARGET_FILE:no_curl>"
  REPRIEVE_NO_MPI="$<TARGET_FILE:no_mpi>")

# What the tests start.
add_custom_target(e2e_programs DEPENDS no_curl no_mpi)

foreach(source IN LISTS e2e_program_sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(e2e_${name} ${source})
  target_include_directories(e2e_${name} SYSTEM PRIVATE ${HDF5_INCLUDE_DIRS})
  target_link_libraries(e2e_${name} PRIVATE reprieve_internal reprieve_options ${HDF5_LIBRARIES})
  add_dependencies(e2e_programs e2e_${name})
endforeach()

# codes/: small codes in C, C++ and Fortran, which know of the library what its users know.
set(codes blocks.c nodes.cpp particles.cpp)
if(reprieve_with_fortran AND MPI_Fortran_HAVE_F08_MODULE)
  list(APPEND codes staggered.f90)
endif()
foreach(code IN LISTS codes)
  get_filename_component(name ${code} NAME_WE)
  add_executable(e2e_code_${name} ${CMAKE_CURRENT_LIST_DIR}/codes/${code})
  target_link_libraries(e2e_code_${name} PRIVATE $<IF:$<STREQUAL:${name},staggered>,reprieve_fortran,reprieve> m)
  target_compile_options(e2e_code_${name} PRIVATE -Wall -Wextra $<$<BOOL:${REPRIEVE_WARNINGS_AS_ERRORS}>:-Werror>)
  add_dependencies(e2e_programs e2e_code_${name})
endforeach()

if(petsc_FOUND)  # by adapters/tests.cmake
  foreach(name petsc petsc_loads)
    add_executable(e2e_code_${name} ${CMAKE_CURRENT_LIST_DIR}/codes/${name}.cpp)
    target_link_libraries(e2e_code_${name} PRIVATE reprieve PkgConfig::petsc)
    add_dependencies(e2e_programs e2e_code_${name})
  endforeach()
endif()

# And every program of apps/.
get_property(app_folders DIRECTORY ${PROJECT_SOURCE_DIR}/apps PROPERTY SUBDIRECTORIES)
foreach(folder IN LISTS app_folders)
  get_property(programs DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  if(programs)
    add_dependencies(e2e_programs ${programs})
  endif()
endforeach()

# A sixth of the time of these tests is computing, the rest is waiting: so each counts as one, whatever it starts.
# Label e2e_quick: every notice, restart, error and tool once, on two ranks where it is made on several numbers of them.
set(quick_e2e Trainer*.*/2Ranks Trainer/TrainerReshape.* TrainerNotice.* TrainerInput.* TrainerSource.* Of/LoopsPage.*
  Run*.* Signals/* Scripts/* Tool* SbatchTemplate.* Process.* Mpirun.* DrillSurvival.OfATraining*
  HeatTest.AnotherSplit*)
list(JOIN quick_e2e ":" quick_e2e)
# Label e2e_quick_few: of these what a system with other versions of all that is used may get wrong (.ci/debian13.sh).
set(few_e2e Trainer/TrainerPreemption.*/2Ranks Trainer/TrainerReshape.* TrainerNotice.* Mpirun.* Process.* *Resilient*)
list(JOIN few_e2e ":" few_e2e)
gtest_discover_tests(e2e_tests TEST_FILTER "${few_e2e}" DISCOVERY_TIMEOUT 120
  PROPERTIES LABELS e2e_quick_few TIMEOUT 300)
gtest_discover_tests(e2e_tests TEST_FILTER "${quick_e2e}-${few_e2e}" DISCOVERY_TIMEOUT 120
  PROPERTIES LABELS e2e_quick TIMEOUT 300)
gtest_discover_tests(e2e_tests TEST_FILTER "-${quick_e2e}:${few_e2e}" DISCOVERY_TIMEOUT 120 PROPERTIES LABELS e2e TIMEOUT 300)

# The lives of node-local copies at length: 15 minutes.
add_test(NAME e2e.long.local_lives CONFIGURATIONS long COMMAND e2e_tests --gtest_filter=LocalLives.*)
set_tests_properties(e2e.long.local_lives PROPERTIES LABELS long TIMEOUT 86400 RUN_SERIAL ON
  ENVIRONMENT "LOCAL_LIVES=300;${reprieve_mpi_environment}")
