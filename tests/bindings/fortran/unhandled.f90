! SPDX-License-Identifier: BSD-3-Clause
!> A program that does not ask for `ierr`: an error ends it, with its message. Through module mpi.
program unhandled
  use mpi
  use reprieve
  implicit none
  type(reprieve_checkpoint) :: state
  type(reprieve_handler) :: handler
  integer, target :: value = 1
  integer :: ierr

  call MPI_Init(ierr)
  call state%add_replicated('value', reprieve_view(value))
  call handler%open(MPI_COMM_WORLD, state, '/dev/null/checkpoints')
  print '(a)', 'it continued'
  call MPI_Finalize(ierr)
end program
