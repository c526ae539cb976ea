# SPDX-License-Identifier: BSD-3-Clause
# Looks for what the Fortran module needs: a compiler, MPI for it, and the C header for its array descriptors.
# Not under sanitizers, which do not know Fortran.
set(reprieve_with_fortran OFF)
set(reprieve_wants_fortran ${REPRIEVE_FORTRAN})
get_property(reprieve_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(REPRIEVE_FORTRAN STREQUAL AUTO AND NOT PROJECT_IS_TOP_LEVEL AND NOT Fortran IN_LIST reprieve_languages)
  set(reprieve_wants_fortran OFF)  # a project without Fortran has no use for it
endif()
if(reprieve_wants_fortran AND NOT REPRIEVE_SANITIZE)
  include(CheckLanguage)
  include(CheckIncludeFile)
  check_language(Fortran)
  check_include_file(ISO_Fortran_binding.h reprieve_have_fortran_binding_header)
  if(CMAKE_Fortran_COMPILER AND reprieve_have_fortran_binding_header)
    enable_language(Fortran)
    find_package(MPI 3.1 COMPONENTS Fortran)
    set(reprieve_with_fortran ${MPI_Fortran_FOUND})
    if(MPI_Fortran_FOUND AND MPI_Fortran_COMPILE_OPTIONS)  # MPICH has some that C does not know, for targets in both languages
      set_target_properties(MPI::MPI_Fortran PROPERTIES
        INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:Fortran>:${MPI_Fortran_COMPILE_OPTIONS}>")
    endif()
  endif()
  if(NOT reprieve_with_fortran)
    set(problem "The Fortran module needs a Fortran compiler, its ISO_Fortran_binding.h, and MPI for Fortran (Debian: gfortran)")
    if(REPRIEVE_FORTRAN STREQUAL AUTO)
      message(STATUS "${problem}: it is not built")
    else()
      message(FATAL_ERROR "${problem}; or set REPRIEVE_FORTRAN=OFF")
    endif()
  endif()
endif()
