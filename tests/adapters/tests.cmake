# SPDX-License-Identifier: BSD-3-Clause
# The headers for other libraries, one program each, if the library is there. Label: unit.
function(reprieve_add_adapter_test name)
  add_executable(${name}_adapter_tests adapters/${name}_test.cpp)
  target_link_libraries(${name}_adapter_tests PRIVATE reprieve_static reprieve_options GTest::gmock ${ARGN})
  gtest_discover_tests(${name}_adapter_tests PROPERTIES LABELS unit TIMEOUT 60)
endfunction()

find_package(Eigen3 QUIET)
if(TARGET Eigen3::Eigen)
  reprieve_add_adapter_test(eigen Eigen3::Eigen GTest::gtest_main)
endif()
# Without its CMake package, which names folders that are not there in Debian 12.
find_path(kokkos_include Kokkos_Core.hpp PATH_SUFFIXES trilinos)
find_library(kokkos_core NAMES kokkoscore trilinos_kokkoscore)
if(kokkos_include AND kokkos_core)
  add_library(reprieve_test_kokkos INTERFACE)
  target_include_directories(reprieve_test_kokkos SYSTEM INTERFACE ${kokkos_include})
  target_link_libraries(reprieve_test_kokkos INTERFACE ${kokkos_core})
  reprieve_add_adapter_test(kokkos reprieve_test_kokkos)
endif()
