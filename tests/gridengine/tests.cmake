# SPDX-License-Identifier: BSD-3-Clause
# A job in a real Grid Engine; skipped where that is not installed. It mostly waits.
if(REPRIEVE_BUILD_APPS)
  add_test(NAME gridengine.requeue COMMAND ${CMAKE_CURRENT_LIST_DIR}/requeue.sh ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  set_tests_properties(gridengine.requeue PROPERTIES LABELS slurm TIMEOUT 560 COST 1000 SKIP_RETURN_CODE 77)
endif()
