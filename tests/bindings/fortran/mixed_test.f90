! SPDX-License-Identifier: BSD-3-Clause
!> A program in Fortran with a solver in C (mixed.c): one state of both, by its handle; and the module `mpi` beside `mpi_f08`.
module mixed_test
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real64
  use checks, only: check, check_ok, directory, rank
  use mpi, only: MPI_COMM_WORLD
  use reprieve
  implicit none
  private
  public :: a_solver_in_c

  interface
    integer(c_int) function solver_register(state) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: state
    end function
    integer(c_int) function solver_run(comm, state, directory, steps) bind(c)
      import :: c_int, c_ptr, c_char
      integer(c_int), value :: comm  ! an MPI_Fint
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: directory(*)
      integer(c_int), value :: steps
    end function
    subroutine solver_set(value) bind(c)
      import :: c_double
      real(c_double), value :: value
    end subroutine
    real(c_double) function solver_sum() bind(c)
      import :: c_double
    end function
  end interface

contains

  subroutine run(field, steps)
    real(real64), target, intent(inout) :: field(3)
    integer, intent(in) :: steps
    type(reprieve_checkpoint) :: state
    call state%add_per_rank('field', reprieve_view(field))
    call check_ok(solver_register(state%handle))
    call check_ok(solver_run(MPI_COMM_WORLD, state%handle, directory//c_null_char, steps))
    call state%destroy()
  end subroutine

  subroutine a_solver_in_c()
    real(real64), target :: field(3)
    field = rank + 0.5_real64
    call solver_set(10.0_real64*rank)
    call run(field, 2)
    call check(solver_sum() == 4*(10.0_real64*rank + 2), 'two steps were made')
    field = 0
    call solver_set(0.0_real64)
    call run(field, 2)  ! both steps are made
    call check(all(field == rank + 0.5_real64), 'the field of Fortran came back')
    call check(solver_sum() == 4*(10.0_real64*rank + 2), 'the memory of C came back')
  end subroutine
end module
