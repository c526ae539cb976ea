# SPDX-License-Identifier: BSD-3-Clause
# What programs of the Python world see of a checkpoint. Debian's modules belong to Debian's Python.
add_executable(python_writer ${CMAKE_CURRENT_LIST_DIR}/writer.cpp)
target_link_libraries(python_writer PRIVATE whole_file reprieve_options)
target_include_directories(python_writer PRIVATE ${PROJECT_SOURCE_DIR}/tests)
find_program(REPRIEVE_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(REPRIEVE_PYTHON python3)
if(REPRIEVE_PYTHON)
  set(directory ${CMAKE_CURRENT_BINARY_DIR}/python)
  reprieve_add_mpi_test(NAME python.write RANKS 2 LABELS mpi quick TIMEOUT 120 COMMAND $<TARGET_FILE:python_writer> ${directory})
  set_tests_properties(python.write PROPERTIES FIXTURES_SETUP python_checkpoint)
  add_test(NAME python.read COMMAND ${REPRIEVE_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/read.py ${directory})
  set_tests_properties(python.read PROPERTIES
    FIXTURES_REQUIRED python_checkpoint LABELS "mpi;quick" TIMEOUT 120 SKIP_RETURN_CODE 77)
  if(TARGET python_module)
    add_test(NAME python.reader COMMAND ${REPRIEVE_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/reader_test.py ${directory})
    set_tests_properties(python.reader PROPERTIES FIXTURES_REQUIRED python_checkpoint LABELS "mpi;quick" TIMEOUT 120
      ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=1" SKIP_RETURN_CODE 77)
  endif()

  # The Python module, with the MPI that Debian's mpi4py is made for. DOLFINx keeps what it compiles in a cache.
  function(add_python_test name ranks tests)
    reprieve_add_mpi_test(NAME python.${name}.${ranks}_ranks RANKS ${ranks} LABELS mpi ${ARGN} TIMEOUT 600
      COMMAND ${REPRIEVE_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/main.py ${tests}
      ENVIRONMENT PYTHONPATH=${PROJECT_BINARY_DIR}/python PYTHONDONTWRITEBYTECODE=1
        REPRIEVE_FAKE_CUDA=$<TARGET_FILE:fake_cuda> XDG_CACHE_HOME=${CMAKE_CURRENT_BINARY_DIR}/cache)
    set_tests_properties(python.${name}.${ranks}_ranks PROPERTIES SKIP_RETURN_CODE 77)
  endfunction()
  if(TARGET python_module AND REPRIEVE_OPEN_MPI)
    add_python_test(module 1 "" quick)
    add_python_test(module 2 "" quick few)
    add_python_test(module 3 "" quick)
    add_python_test(torch 2 tensors_test)  # where they are installed: apps/install-packages.sh torch, petsc
    set_tests_properties(python.torch.2_ranks PROPERTIES TIMEOUT 300)
    add_python_test(petsc 3 petsc_test)
    add_python_test(dolfinx 3 dolfinx_test)
    list(JOIN reprieve_mpirun " " mpirun)
    add_test(NAME python.processes
      COMMAND ${REPRIEVE_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/process_test.py ${PROJECT_BINARY_DIR})
    set_tests_properties(python.processes PROPERTIES
      ENVIRONMENT "${reprieve_mpi_environment};MPIRUN=${mpirun}" LABELS e2e PROCESSORS 2 TIMEOUT 300 SKIP_RETURN_CODE 77)
  endif()
else()
  message(STATUS "Python is not installed: what it sees of checkpoints is not tested")
endif()
