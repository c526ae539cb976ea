! SPDX-License-Identifier: BSD-3-Clause
!> All tests of the Fortran module, on all ranks side by side.
program fortran_tests
  use checks
  use loop_test
  use mixed_test
  use moved_test
  use page_test
  use procedures_test
  use state_test
  use types_test
  implicit none
  integer :: all

  call reprieve_watch_signals()
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call every_type()
  call every_rank()
  call layout_of_the_file()
  call wrong_registrations()
  call another_number_of_ranks()
  call versions()
  call arrays_that_move()
  call nodes_on_borders()
  call steps_and_errors()
  call preempted_and_resumed()
  call own_steps()
  call loop_of_the_page()
  call watched_and_left()
  call background_saves()
  call another_problem()
  call other_layout()
  call texts_of_errors()
  call a_solver_in_c()
  call peers_that_are_stuck()
  call reprieve_unwatch_signals()
  call MPI_Allreduce(failures, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (all > 0) stop 1
end program
