# SPDX-License-Identifier: BSD-3-Clause
# The site: the guide and the references, by the target `docs`: build/<preset>/docs/html. A warning is an error.
find_package(Doxygen QUIET)
find_program(REPRIEVE_DOCS_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "Python that has Sphinx, for the target docs")
mark_as_advanced(REPRIEVE_DOCS_PYTHON)
if(REPRIEVE_DOCS_PYTHON)
  execute_process(COMMAND ${REPRIEVE_DOCS_PYTHON} -c "import furo, myst_parser, numpy, sphinx, sphinx_copybutton"
    RESULT_VARIABLE lacks ERROR_QUIET)
endif()
if(NOT DOXYGEN_FOUND OR NOT lacks STREQUAL 0)
  message(STATUS "No target docs, for want of packages: apps/install-packages.sh docs")
  return()
endif()
set(REPRIEVE_REPOSITORY_URL "" CACHE STRING "Where files of the tree can be read, for links of the docs; empty: copies")

set(folder ${PROJECT_BINARY_DIR}/docs)
set(DOXYGEN_OUTPUT_DIRECTORY ${folder})
set(DOXYGEN_STRIP_FROM_PATH ${PROJECT_SOURCE_DIR}/include)
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_EXTRACT_ALL NO)
set(DOXYGEN_WARN_IF_UNDOCUMENTED NO)  # what a name says is not said again
set(DOXYGEN_WARN_NO_PARAMDOC NO)
set(DOXYGEN_WARN_IF_INCOMPLETE_DOC NO)
set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
set(DOXYGEN_EXCLUDE_SYMBOLS reprieve::detail)
set(DOXYGEN_MACRO_EXPANSION YES)
set(DOXYGEN_EXPAND_ONLY_PREDEF YES)
set(DOXYGEN_PREDEFINED REPRIEVE_EXPORT= __cplusplus=202002L)
set(DOXYGEN_QUIET YES)
set(DOXYGEN_GENERATE_HTML NO)
set(DOXYGEN_GENERATE_XML YES)
set(DOXYGEN_XML_PROGRAMLISTING NO)
doxygen_add_docs(docs_headers ${PROJECT_SOURCE_DIR}/include/reprieve COMMENT "headers, for the docs")

set(fortran ${PROJECT_SOURCE_DIR}/src/bindings/fortran)
set(headers ${PROJECT_SOURCE_DIR}/include/reprieve)
add_custom_target(docs
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${folder}/html
  COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}/fortran ${folder}/source
  COMMAND ${CMAKE_COMMAND} -D "headers=${headers}/reprieve.h|${headers}/reprieve_manager.h|${fortran}/descriptors.h"
          -D template=${fortran}/reprieve_c.F90.in -D result=${folder}/fortran/reprieve_c.F90 -P ${fortran}/c_interface.cmake
  COMMAND ${REPRIEVE_DOCS_PYTHON} -m sphinx -q -W --keep-going -j auto -b dirhtml -c ${CMAKE_CURRENT_LIST_DIR} -d ${folder}/doctrees
          -D release=${PROJECT_VERSION} -D repository=${REPRIEVE_REPOSITORY_URL} ${folder}/source ${folder}/html
  COMMAND ${CMAKE_COMMAND} -E echo "To read: python3 -m http.server --directory ${folder}/html"
  COMMENT "guide and references" VERBATIM)
add_dependencies(docs docs_headers)
