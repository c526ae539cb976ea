# SPDX-License-Identifier: BSD-3-Clause
# Writes what Fortran knows about C, from the headers of C alone:
#   cmake -D headers=FILE|FILE.. -D template=FILE -D result=FILE -P c_interface.cmake
# Enums become constants of the same names; structs and functions get names that begin with c_ instead of reprieve_. Beside
# the result come the `calls` below, a file for each type.

cmake_minimum_required(VERSION 3.25)

# What becomes a procedure of a type of Fortran that does nothing but hand its arguments to C. Of those with a number there
# is one for each kind of it, with _i4, _i8, _r4 or _r8 behind its name. A function that C calls is a procedure of the
# program: it is kept in the callbacks, and C gets the procedure of module reprieve_callbacks that calls it.
set(calls
  allow_missing allow_shared allow_dropped add_former_name set_memory_space
  add_constant add_constant_integer add_constant_real add_constant_file
  add_replicated_custom add_per_rank_custom add_replicated_walk add_per_rank_walk when_values_restored on_migration
  config_set_save_fn config_set_step_fn config_set_watcher_fn config_set_after_commit_fn
  config_load_file config_load_json config_set config_apply_environment config_set_exit
  handler_finish step_begin step_end save_if_preempted scope_end fail begin_phase request_checkpoint
  restored_from already_finished last_save manager_restore_latest manager_latest
  manager_close manager_save manager_save_in_background manager_finish_background_save manager_restore)

include(${CMAKE_CURRENT_LIST_DIR}/../c_headers.cmake)
list(TRANSFORM structs REPLACE "struct reprieve_([a-z_]+) .*" "\\1" OUTPUT_VARIABLE struct_names)
list(JOIN struct_names "|" struct_names)

# Types of C, as regular expressions, and what declares an argument of each in Fortran. The first that fits counts.
set(types
  "int|MPI_Fint" "integer(c_int), value"
  "u?int64_t" "integer(c_int64_t), value"
  "size_t" "integer(c_size_t), value"
  "double" "real(c_double), value"
  "int\\*" "integer(c_int), intent(inout)"
  "u?int64_t\\*" "integer(c_int64_t), intent(inout)"
  "size_t\\*" "integer(c_size_t), intent(inout)"
  "const int64_t\\*" "integer(c_int64_t), dimension(*), intent(in)"
  "const ptrdiff_t\\*" "integer(c_ptrdiff_t), dimension(*), intent(in)"
  "const char\\*" "character(kind=c_char), dimension(*), intent(in)"
  "const char\\* const\\*" "type(c_ptr), dimension(*), intent(in)"
  "const CFI_cdesc_t\\*" "type(*), dimension(..), target, intent(inout)"
  "reprieve_(${struct_names})\\*" "type(c_\\2), intent(inout)"
  "reprieve_[a-z_]+_fn" "type(c_funptr), value"
  "(const )?(reprieve_[a-z_]+|void)\\*" "type(c_ptr), value"
  ".*\\*\\*" "type(c_ptr), intent(inout)"
  "reprieve_array" "type(reprieve_array), value")

function(declare type result)
  while(types)
    list(POP_FRONT types pattern declaration)
    if(type MATCHES "^(${pattern})$")
      string(REGEX REPLACE "^(${pattern})$" "${declaration}" declaration "${type}")
      set(${result} "${declaration}" PARENT_SCOPE)
      return()
    endif()
  endwhile()
  message(FATAL_ERROR "c_interface.cmake does not say what the type '${type}' of C is in Fortran")
endfunction()

# What a function returns, or a member is: no argument, so a text is an address.
function(declare_value type result)
  string(REPLACE "const char*" "void*" type "${type}")
  declare("${type}" declaration)
  string(REPLACE ", value" "" declaration "${declaration}")
  set(${result} "${declaration}" PARENT_SCOPE)
endfunction()

# Appends the procedure for a function of the list above. @param arguments  each with its type
function(add_call name arguments)
  list(POP_FRONT arguments handle)
  string(REGEX REPLACE "reprieve_([a-z]+).*" "\\1" class "${handle}")
  foreach(bytes 8 4)
    math(EXPR bits "8 * ${bytes}")
    set(procedure ${name})
    set(dummies self)
    set(declarations "    class(reprieve_${class}), intent(inout) :: self\n")
    set(actuals "self%handle")
    set(kept "")
    foreach(argument IN LISTS arguments)
      string(REGEX MATCH "^(.*) ([a-z_]+)$" argument "${argument}")
      set(type "${CMAKE_MATCH_1}")
      set(dummy ${CMAKE_MATCH_2})
      set(attribute ", intent(in)")
      if(dummy STREQUAL "user")
        string(APPEND actuals ", &\n        c_loc(calls)")
        continue()
      elseif(type MATCHES "_fn$")
        set(member ${dummy})  # of the callbacks
        if(type STREQUAL "reprieve_save_files_fn")
          set(member save_files)
        elseif(type STREQUAL "reprieve_watcher_fn")
          set(member watch)
          set(dummy watch)
        endif()
        set(kind "procedure(reprieve_${member})")
        set(attribute "")
        set(keep "calls%${member} => ${dummy}")
        set(actual "c_funloc(call_${member})")
        if(class STREQUAL "config" OR dummy STREQUAL "redistribute")
          set(attribute ", optional")
          set(keep "if (present(${dummy})) ${keep}")
          set(actual "merge(${actual}, c_null_funptr, present(${dummy}))")
        endif()
        string(APPEND kept "    ${keep}\n")
      elseif(type STREQUAL "const char*")
        set(kind "character(*)")
        set(actual "c_text(${dummy})")
      elseif(type STREQUAL "int")
        set(kind "integer")
        set(actual "int(${dummy}, c_int)")
      elseif(type STREQUAL "void*")
        set(kind "type(c_ptr)")
        set(actual "${dummy}")
      elseif(type STREQUAL "double")
        set(procedure ${name}_r${bytes})
        set(kind "real(real${bits})")
        set(actual "real(${dummy}, c_double)")
      else()
        set(procedure ${name}_i${bytes})
        set(kind "integer(int${bits})")
        set(actual "int(${dummy}, c_int64_t)")
      endif()
      string(APPEND dummies ", ${dummy}")
      string(APPEND actuals ", &\n        ${actual}")
      string(APPEND declarations "    ${kind}${attribute} :: ${dummy}\n")
    endforeach()
    string(APPEND declarations "    integer, intent(out), optional :: ierr\n")
    if(kept)
      string(APPEND declarations "    type(callbacks), pointer :: calls\n    calls => new_calls(self)\n${kept}")
    elseif(class MATCHES "checkpoint|config")  # these are made when they are first used
      string(APPEND declarations "    call create(self)\n")
    endif()
    string(APPEND ${class}_calls "  subroutine ${procedure}(${dummies}, ierr)\n${declarations}"
      "    call reprieve_finish(c_${name}(${actuals}), ierr)\n  end subroutine\n\n")
    if(procedure STREQUAL name)
      break()
    endif()
  endforeach()
  set(${class}_calls "${${class}_calls}" PARENT_SCOPE)
endfunction()

# The same of a question, whose answer is an int*: a logical function. What C writes beside it is returned if it is wanted.
function(add_question name arguments)
  list(POP_FRONT arguments handle flag result)
  string(REGEX MATCH "^(const )?reprieve_([a-z]+)" handle "${handle}")
  set(intent inout)
  if(CMAKE_MATCH_1)
    set(intent in)
  endif()
  set(class ${CMAKE_MATCH_2})
  string(REGEX MATCH "^(reprieve_|u)([a-z0-9_]+)\\* ([a-z_]+)$" result "${result}")
  set(dummy ${CMAKE_MATCH_3})
  if(CMAKE_MATCH_1 STREQUAL "u")
    set(kind "integer(int64)")
    set(c "integer(c_int64_t) :: c\n    c = 0")
    set(value c)
  else()
    set(kind "type(reprieve_${CMAKE_MATCH_2})")
    set(c "type(c_${CMAKE_MATCH_2}) :: c")
    set(value "${dummy}_of(c)")
  endif()
  string(APPEND ${class}_calls "  logical function ${name}(self, ${dummy}, ierr)\n"
    "    class(reprieve_${class}), intent(${intent}) :: self\n"
    "    ${kind}, intent(out), optional :: ${dummy}\n    integer, intent(out), optional :: ierr\n"
    "    integer(c_int) :: answer\n    integer :: status\n    ${c}\n    answer = 0\n"
    "    status = c_${name}(self%handle, answer, c)\n    ${name} = answer == 1\n"
    "    if (present(${dummy})) ${dummy} = ${value}\n    call reprieve_finish(status, ierr)\n  end function\n\n")
  set(${class}_calls "${${class}_calls}" PARENT_SCOPE)
endfunction()

# The types of array elements are named in C alone: Fortran knows them from the variables.
string(REGEX REPLACE "enum reprieve_type {[^}]*}" "" enums "${text}")
string(REGEX MATCHALL "REPRIEVE_[A-Z_]+ = [0-9]+" constants "${enums}")
list(TRANSFORM constants TOLOWER)
list(TRANSFORM constants PREPEND "  integer, parameter :: ")
list(JOIN constants "\n" constants)

set(c_structs "")
foreach(struct IN LISTS structs)
  string(REGEX REPLACE "struct reprieve_([a-z_]+) .*" "  type, bind(c) :: c_\\1\n" head "${struct}")
  string(APPEND c_structs "${head}")
  string(REGEX MATCHALL "[a-z][^@{]* [a-z_]+@" members "${struct}")
  foreach(member IN LISTS members)
    string(REGEX MATCH "^(.*) ([a-z_]+)@$" member "${member}")
    set(name ${CMAKE_MATCH_2})
    declare_value("${CMAKE_MATCH_1}" declaration)
    set(zero 0)
    if(declaration STREQUAL "type(c_ptr)")
      set(zero c_null_ptr)
    endif()
    string(APPEND c_structs "    ${declaration} :: ${name} = ${zero}\n")
  endforeach()
  string(APPEND c_structs "  end type\n")
endforeach()

# Communicators are for C alone: descriptors.c passes them on. Allocatable arrays are declared below, for each type.
set(c_functions "")
foreach(function IN LISTS functions)
  if(function MATCHES "MPI_Comm|, CFI_cdesc_t")
    continue()
  endif()
  string(REGEX MATCH "^(.*) reprieve_([a-z_]+)\\((.*)\\)@$" function "${function}")
  set(name ${CMAKE_MATCH_2})
  set(arguments ${CMAKE_MATCH_3})
  if(CMAKE_MATCH_1 STREQUAL "void")
    set(head subroutine)
    set(procedure subroutine)
  else()
    declare_value("${CMAKE_MATCH_1}" returned)
    set(head "${returned} function")
    set(procedure function)
  endif()
  string(REGEX REPLACE ", " ";" arguments "${arguments}")
  if(name IN_LIST calls AND arguments MATCHES ";int\\* ")
    add_question(${name} "${arguments}")
  elseif(name IN_LIST calls)
    add_call(${name} "${arguments}")
  endif()
  set(names "")
  set(declarations "")
  foreach(argument IN LISTS arguments)
    string(REGEX MATCH "^(.*) ([a-z_]+)$" argument "${argument}")
    set(argument ${CMAKE_MATCH_2})
    list(APPEND names ${argument})
    declare("${CMAKE_MATCH_1}" declaration)
    string(APPEND declarations "      ${declaration} :: ${argument}\n")
  endforeach()
  list(JOIN names ", " names)
  string(APPEND c_functions "    ${head} c_${name} &\n        (${names}) &\n"
    "        bind(c, name='reprieve_${name}')\n      import\n${declarations}    end ${procedure}\n")
endforeach()
# The allocatable arrays of a walk.
foreach(kind int8_t int16_t int32_t int64_t float double float_complex double_complex)
  string(REGEX REPLACE "^int.*" "integer" type ${kind})
  string(REGEX REPLACE "^.*_complex" "complex" type ${type})
  string(REGEX REPLACE "^(float|double)" "real" type ${type})
  set(declaration "${type}(c_${kind}), allocatable, intent(inout) :: value(..)\n")
  string(APPEND parts_calls "  subroutine parts_${kind}(self, name, value)\n"
    "    class(reprieve_parts), intent(inout) :: self\n    character(*), intent(in) :: name\n    ${declaration}"
    "    interface\n      integer(c_int) function c_walk_array(walk, name, value) bind(c, name='reprieve_fortran_walk_array')\n"
    "        import\n        type(c_ptr), value :: walk\n        character(kind=c_char), intent(in) :: name(*)\n"
    "        ${declaration}      end function\n    end interface\n"
    "    if (self%status == reprieve_ok) self%status = c_walk_array(self%handle, c_text(name), value)\n"
    "  end subroutine\n\n")
endforeach()
configure_file(${template} ${result} @ONLY)
file(TOUCH ${result})  # configure_file leaves a file of the same text as it is
get_filename_component(folder ${result} DIRECTORY)
foreach(class checkpoint config handler manager parts)
  file(WRITE ${folder}/${class}_calls.inc "${${class}_calls}")
endforeach()
