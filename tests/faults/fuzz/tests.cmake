# SPDX-License-Identifier: BSD-3-Clause
# Fuzzers (libFuzzer), built by the preset `fuzz` with clang: fuzz_settings, fuzz_events, fuzz_checkpoint. Elsewhere the
# same targets replay their corpus, which is one test each. README.md tells how to let them run.
foreach(name settings events checkpoint)
  add_executable(fuzz_${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.cpp)
  target_include_directories(fuzz_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(fuzz_${name} PRIVATE reprieve_internal reprieve_options PkgConfig::xxhash)
  if(REPRIEVE_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz.${name}
      COMMAND fuzz_${name} -max_total_time=5 -rss_limit_mb=2048 -timeout=20
        ${CMAKE_CURRENT_BINARY_DIR}/fuzz-${name} ${CMAKE_CURRENT_LIST_DIR}/corpus/${name})
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fuzz-${name})
  else()
    target_sources(fuzz_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/replay.cpp)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} ${CMAKE_CURRENT_LIST_DIR}/corpus/${name})
  endif()
  set_tests_properties(fuzz.${name} PROPERTIES LABELS faults TIMEOUT 120)
endforeach()
