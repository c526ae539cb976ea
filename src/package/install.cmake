# SPDX-License-Identifier: BSD-3-Clause
# What `cmake --install` puts where: the library, its headers, and what find_package and pkg-config read.
# Components: library, development, tools (one Debian package each, see debian.cmake).
include(CMakePackageConfigHelpers)

set(reprieve_cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/reprieve)

install(TARGETS reprieve EXPORT reprieve-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
# Not of objects for an optimiser that runs at the link (-flto).
if(NOT BUILD_SHARED_LIBS AND CMAKE_OBJCOPY AND NOT CMAKE_INTERPROCEDURAL_OPTIMIZATION AND NOT "${CMAKE_CXX_FLAGS}" MATCHES "-flto")
  install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\"
    -D \"LIBRARY=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:reprieve>\"
    -D \"LINKER=${CMAKE_LINKER}\" -D \"OBJCOPY=${CMAKE_OBJCOPY}\" -D \"READELF=${CMAKE_READELF}\" -D \"AR=${CMAKE_AR}\"
    -P \"${CMAKE_CURRENT_LIST_DIR}/one_object.cmake\")" COMPONENT development)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/reprieve DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")

# find_package(reprieve)
if(BUILD_SHARED_LIBS)
  set(reprieve_is_static OFF)
else()
  set(reprieve_is_static ON)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/reprieve-config.cmake.in
  ${PROJECT_BINARY_DIR}/package/reprieve-config.cmake INSTALL_DESTINATION ${reprieve_cmake_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/reprieve-config-version.cmake
  COMPATIBILITY SameMinorVersion)  # before 1.0 a minor version may break programs
install(FILES ${PROJECT_BINARY_DIR}/package/reprieve-config.cmake
  ${PROJECT_BINARY_DIR}/package/reprieve-config-version.cmake
  DESTINATION ${reprieve_cmake_folder} COMPONENT development)
install(EXPORT reprieve-targets NAMESPACE reprieve:: DESTINATION ${reprieve_cmake_folder} COMPONENT development)

# pkg-config. Paths are relative to the file, so that the tree may be installed under any prefix and moved.
set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_prefix /${pc_folder} /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
list(TRANSFORM MPI_CXX_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE pc_mpi_cflags)
list(APPEND pc_mpi_cflags -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX)  # as reprieve-config.cmake.in: the old C++ bindings
list(JOIN pc_mpi_cflags " " pc_mpi_cflags)
list(JOIN MPI_CXX_LIBRARIES " " pc_mpi_libs)
if(reprieve_is_static)
  set(pc_requires "fmt libxxhash")
  if(liburing_FOUND)
    string(APPEND pc_requires " liburing")
  endif()
  # CMake writes libraries of the system as names or as paths.
  set(pc_libs ${reprieve_hdf5_libraries} ${CMAKE_THREAD_LIBS_INIT} ${CMAKE_DL_LIBS} stdc++ m)
  list(TRANSFORM pc_libs PREPEND -l REGEX "^[^-/]")
  list(JOIN pc_libs " " pc_libs)
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/reprieve.pc.in ${PROJECT_BINARY_DIR}/package/reprieve.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/reprieve.pc DESTINATION ${pc_folder} COMPONENT development)

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
