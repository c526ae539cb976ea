# Every public header compiles alone, with what the library gives its users, and may be included twice.
file(GLOB public_headers RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/include/reprieve/*.hpp)
list(FILTER public_headers EXCLUDE REGEX "/(eigen|kokkos).hpp$")  # tests/adapters has these
set(header_sources)
foreach(header IN LISTS public_headers)
  get_filename_component(name ${header} NAME_WE)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/public_headers/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@header@\"\n#include \"@header@\"\n" @ONLY)
  list(APPEND header_sources ${source})
endforeach()
# The C interface, as C; and as C++.
foreach(language c cpp)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/public_headers/c_interface.${language})
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"reprieve/reprieve.h\"\n#include \"reprieve/reprieve.h\"\n")
  list(APPEND header_sources ${source})
endforeach()
add_library(public_headers OBJECT ${header_sources})
target_link_libraries(public_headers PRIVATE reprieve reprieve_options)
