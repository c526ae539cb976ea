# SPDX-License-Identifier: BSD-3-Clause
# The codes of messages, from the page that explains them: rows {"RPV-0101", "a part of the message"}, for core/error.cpp and,
# with round brackets, for Python.
set(page ${PROJECT_SOURCE_DIR}/apps/guide/troubleshooting.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
file(READ ${page} text)
string(REPLACE "\"" "\\\"" text "${text}")
set(rows "")
while(text MATCHES "\n- (RPV-[0-9]+) ((`[^`]+`,?[ \n]*)+):(.*)")
  set(code ${CMAKE_MATCH_1})
  set(parts "${CMAKE_MATCH_2}")
  set(text "${CMAKE_MATCH_4}")
  string(REGEX REPLACE "`([^`]+)`,?[ \n]*" "{\"${code}\", \"\\1\"},\n" rows_of_entry "${parts}")
  string(APPEND rows "${rows_of_entry}")
endwhile()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/core/message_codes.inc CONTENT "${rows}" @ONLY)
string(REPLACE "{\"RPV" "(\"RPV" rows "${rows}")
string(REPLACE "\"},\n" "\"),\n" reprieve_message_codes_for_python "${rows}")
target_include_directories(reprieve_core PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
