# SPDX-License-Identifier: BSD-3-Clause
# Memory of devices, with drivers that are none: two libraries with the names of the real ones, in a folder of their own, which
# only the tests load.
set(fake_folder ${PROJECT_BINARY_DIR}/tests/fake_devices)
foreach(fake cuda hip)
  add_library(fake_${fake} SHARED ${CMAKE_CURRENT_LIST_DIR}/fake_${fake}.cpp)
  target_compile_features(fake_${fake} PRIVATE cxx_std_20)
  target_include_directories(fake_${fake} PRIVATE ${CMAKE_CURRENT_LIST_DIR})
  set_target_properties(fake_${fake} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${fake_folder})
endforeach()
set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SOVERSION 1)
set_target_properties(fake_hip PROPERTIES OUTPUT_NAME amdhip64 SOVERSION 6)

file(GLOB device_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*_test.cpp)
add_executable(device_tests ${device_sources})
target_link_libraries(device_tests PRIVATE mpi_test_main reprieve_internal reprieve_options ${CMAKE_DL_LIBS})
target_include_directories(device_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(device_tests PRIVATE
  REPRIEVE_FAKE_CUDA="$<TARGET_FILE:fake_cuda>" REPRIEVE_FAKE_HIP="$<TARGET_FILE:fake_hip>")
add_dependencies(device_tests fake_cuda fake_hip)
foreach(ranks 1 2 3)
  reprieve_add_mpi_test(NAME device_tests.${ranks}_ranks RANKS ${ranks} LABELS mpi quick COMMAND $<TARGET_FILE:device_tests>)
endforeach()
