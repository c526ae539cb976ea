# SPDX-License-Identifier: BSD-3-Clause
# Debian packages: `cmake --preset package && cmake --build --preset package && cpack --preset package`.
# libreprieve0.1 (the shared library), libreprieve-dev, reprieve-tools, python3-reprieve. Dependencies on libraries are found by
# dpkg-shlibdeps.
set(library_package libreprieve${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME reprieve)
set(CPACK_PACKAGE_VENDOR "The Reprieve authors")
set(CPACK_PACKAGE_CONTACT "The Reprieve authors <maintainers@reprieve.invalid>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(components library development tools)
if(TARGET python_module)
  list(APPEND components python)
endif()
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)  # as in apps/recipes/debian/changelog, which the packages bring along
set(same_version "${library_package} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Preemption-safe checkpoints for MPI programs (shared library)
 When any rank learns that the job is about to end, all ranks agree on one
 step, write one checkpoint together, and leave with a code that means: start
 me again.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "libcurl4 | libcurl3-gnutls")  # loaded on clouds

set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Preemption-safe checkpoints for MPI programs (headers and docs)
 What programs need to be built with libreprieve, by CMake or by pkg-config.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libreprieve-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${same_version}, libopenmpi-dev")

set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Preemption-safe checkpoints for MPI programs (tools)
 reprieve lists, shows, verifies and compares checkpoints, runs jobs so that a
 notice of their end reaches them, and rehearses a preemption. With examples.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME reprieve-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${same_version}, openmpi-bin")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "bash-completion")

set(CPACK_COMPONENT_PYTHON_DESCRIPTION "Preemption-safe checkpoints for MPI programs (Python)
 The module reprieve: handlers whose state is a dictionary of numpy arrays and
 values, for programs with mpi4py, and a reader of checkpoints that needs no
 MPI.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-reprieve)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "${same_version}, python3:any (>= 3.9), python3-numpy, python3-mpi4py, libxxhash0")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-xarray")

# Debian has the loader's list of libraries made anew by a trigger. (CPack writes scripts that do it as well.)
set(control ${PROJECT_BINARY_DIR}/package/debian)
file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${control}/triggers)

# Each package says under which licence it is, and what has changed.
execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/apps/recipes/debian/changelog
  OUTPUT_FILE ${control}/changelog.Debian.gz COMMAND_ERROR_IS_FATAL ANY)
foreach(component IN LISTS components)
  string(TOUPPER ${component} name)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${name}_PACKAGE_NAME} COMPONENT ${component})
  install(FILES ${control}/changelog.Debian.gz
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${name}_PACKAGE_NAME} COMPONENT ${component})
endforeach()

include(${CMAKE_CURRENT_LIST_DIR}/rpm.cmake)
include(CPack)
