# SPDX-License-Identifier: BSD-3-Clause
# What `cmake --install` puts where: the library, its headers, and what find_package and pkg-config read.
# Components: library, development, tools and examples (apps/CMakeLists.txt), python: one Debian package each (apps/recipes/debian).
include(CMakePackageConfigHelpers)

set(reprieve_cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/reprieve)

install(TARGETS reprieve reprieve_static EXPORT reprieve-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/reprieve DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")

# What a program links besides the static library: the files that were found here. Programs that link the shared one need
# none of them.
find_library(REPRIEVE_FMT_LIBRARY fmt HINTS ${fmt_DIR}/../.. REQUIRED)
mark_as_advanced(REPRIEVE_FMT_LIBRARY)
set(static_needs ${reprieve_hdf5_libraries} ${REPRIEVE_FMT_LIBRARY} ${xxhash_LINK_LIBRARIES} ${blosc_LINK_LIBRARIES}
  ${CMAKE_THREAD_LIBS_INIT} ${CMAKE_DL_LIBS} stdc++ m)
target_link_libraries(reprieve_static INTERFACE "$<INSTALL_INTERFACE:${static_needs}>")

# find_package(reprieve)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/reprieve-config.cmake.in
  ${PROJECT_BINARY_DIR}/package/reprieve-config.cmake INSTALL_DESTINATION ${reprieve_cmake_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/reprieve-config-version.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/reprieve-config.cmake
  ${PROJECT_BINARY_DIR}/package/reprieve-config-version.cmake
  DESTINATION ${reprieve_cmake_folder} COMPONENT development)
install(EXPORT reprieve-targets NAMESPACE reprieve:: DESTINATION ${reprieve_cmake_folder} COMPONENT development)

# pkg-config. Paths are relative to the file, so that the tree may be installed under any prefix and moved.
set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_prefix /${pc_folder} /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")

# reprieve_install_pc(name library INCLUDES folders LINKS libraries NEEDS libraries REQUIRES name): the file `name` for programs
# that link the shared library, and `name`-static for those that link the static one, which NEEDS more.
function(reprieve_install_pc name library)
  cmake_parse_arguments(PARSE_ARGV 2 pc "" "REQUIRES" "INCLUDES;LINKS;NEEDS")
  list(TRANSFORM pc_INCLUDES PREPEND -I)
  foreach(list pc_INCLUDES pc_LINKS pc_NEEDS)
    list(TRANSFORM ${list} PREPEND -l REGEX "^[^-/]")  # CMake writes libraries of the system as names or as paths
    list(JOIN ${list} " " ${list})
  endforeach()
  foreach(kind "" -static)
    set(pc_requires ${pc_REQUIRES})
    if(pc_REQUIRES)
      set(pc_requires "${pc_REQUIRES}${kind} = ${PROJECT_VERSION}")
    endif()
    if(kind)
      set(pc_libs "\${libdir}/lib${library}.a ${pc_LINKS} ${pc_NEEDS}")
      set(pc_private)
    else()
      set(pc_libs "-L\${libdir} -l${library} ${pc_LINKS}")
      set(pc_private ${pc_NEEDS})
    endif()
    set(pc_name ${name}${kind})
    set(file ${PROJECT_BINARY_DIR}/package/${pc_name}.pc)
    configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/reprieve.pc.in ${file} @ONLY)
    install(FILES ${file} DESTINATION ${pc_folder} COMPONENT development)
  endforeach()
endfunction()
reprieve_install_pc(reprieve reprieve
  INCLUDES ${MPI_CXX_INCLUDE_DIRS} LINKS ${MPI_CXX_LIBRARIES} NEEDS ${static_needs})

# Docs, in the folders that they have here, so that their links lead on.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
file(GLOB_RECURSE docs RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.md
  ${PROJECT_SOURCE_DIR}/apps/*.md ${PROJECT_SOURCE_DIR}/configs/*.md ${PROJECT_SOURCE_DIR}/slurm/*.md
  ${PROJECT_SOURCE_DIR}/tests/*.md)
file(GLOB tutorial RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/guide/tutorial/heat*
  ${PROJECT_SOURCE_DIR}/apps/guide/pytorch/*.py ${PROJECT_SOURCE_DIR}/apps/guide/*.svg)
foreach(file IN LISTS docs tutorial ITEMS README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md
    tests/consumer/CMakeLists.txt tests/consumer/Makefile tests/consumer/consumer.cpp)  # a whole program, as an example
  get_filename_component(folder ${file} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${file} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder} COMPONENT development)
endforeach()
