# SPDX-License-Identifier: BSD-3-Clause
# Every public header compiles alone, with what the library gives its users, and may be included twice. Those named .h
# are for C as well.
file(GLOB public_headers RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/include/reprieve/*.h ${PROJECT_SOURCE_DIR}/include/reprieve/*.hpp)
list(FILTER public_headers EXCLUDE REGEX "/(eigen|kokkos|petsc|tpetra).hpp$")  # tests/adapters and tests/e2e/codes have these
set(header_sources)
foreach(header IN LISTS public_headers)
  get_filename_component(name ${header} NAME)
  set(languages cpp)
  if(name MATCHES "\\.h$")
    list(APPEND languages c)
  endif()
  foreach(language IN LISTS languages)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/public_headers/${name}.${language})
    file(CONFIGURE OUTPUT ${source} CONTENT
      "#include \"@header@\"\n#include \"@header@\"\nextern int not_empty;\n" @ONLY)
    list(APPEND header_sources ${source})
  endforeach()
endforeach()
add_library(public_headers OBJECT ${header_sources})
target_link_libraries(public_headers PRIVATE reprieve_headers reprieve_options)

# A type that cannot be stored is an error with words that help.
add_test(NAME public_headers.cannot_be_stored
  COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only -I ${PROJECT_SOURCE_DIR}/include
    ${CMAKE_CURRENT_LIST_DIR}/cannot_be_stored.cpp)
set_tests_properties(public_headers.cannot_be_stored PROPERTIES LABELS unit
  PASS_REGULAR_EXPRESSION "reprieve.containers.hpp.*reprieve::enable_record.*reprieve::Serializer")
