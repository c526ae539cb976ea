! SPDX-License-Identifier: BSD-3-Clause
!> All tests of the Fortran module, on all ranks side by side.
program fortran_tests
  use checks
  use loop_test
  use mixed_test
  use page_test
  use procedures_test
  use state_test
  use types_test
  use walk_test
  implicit none
  integer :: all

  call reprieve_watch_signals()
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call test('every_type', every_type)
  call test('every_rank', every_rank)
  call test('layout_of_the_file', layout_of_the_file)
  call test('wrong_registrations', wrong_registrations)
  call test('another_number_of_ranks', another_number_of_ranks)
  call test('versions', versions)
  call test('arrays_that_move', arrays_that_move)
  call test('nodes_on_borders', nodes_on_borders)
  call test('files_of_the_program', files_of_the_program)
  call test('blocks_that_come_and_go', blocks_that_come_and_go)
  call test('blocks_on_one_rank', blocks_on_one_rank)
  call test('steps_and_errors', steps_and_errors)
  call test('preempted_and_resumed', preempted_and_resumed)
  call test('resilient_body', resilient_body)
  call test('own_steps', own_steps)
  call test('loop_of_the_page', loop_of_the_page)
  call test('watched_and_left', watched_and_left)
  call test('background_saves', background_saves)
  call test('another_problem', another_problem)
  call test('other_layout', other_layout)
  call test('texts_of_errors', texts_of_errors)
  call test('a_solver_in_c', a_solver_in_c)
  call test('peers_that_are_stuck', peers_that_are_stuck)
  call reprieve_unwatch_signals()
  call MPI_Allreduce(failures, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (all > 0) stop 1
end program
