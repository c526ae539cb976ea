! SPDX-License-Identifier: BSD-3-Clause
! The same as consumer.cpp, in Fortran: every step adds to every element its global index.
program consumer
  use mpi_f08
  use reprieve
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: int64, output_unit, real64
  implicit none

  interface
    integer(c_int) function getpid() bind(c)
      import
    end function
    integer(c_int) function usleep(microseconds) bind(c)
      import
      integer(c_int), value :: microseconds
    end function
  end interface

  integer, parameter :: rows = 10, all_columns = 60
  real(real64), allocatable, target :: field(:, :)
  type(reprieve_checkpoint) :: state
  type(reprieve_handler) :: handler
  integer :: rank, ranks, first, columns, steps, i, j
  integer(int64) :: step
  logical :: right
  character(20) :: argument

  call reprieve_watch_signals()
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  steps = 200
  call get_command_argument(1, argument)
  if (argument /= '') read (argument, *) steps
  first = all_columns*rank/ranks + 1
  columns = all_columns*(rank + 1)/ranks + 1 - first
  allocate (field(rows, first:first + columns - 1))
  field = 0

  call state%add_distributed('field', reprieve_view(field), [rows, all_columns], [1, first])
  call handler%open(MPI_COMM_WORLD, state, 'checkpoints')
  if (rank == 0) print '(a, i0)', 'begins at step ', handler%total_run_calls()
  do while (handler%next_step(steps))
    step = handler%total_run_calls() + 1
    call advance()
    if (rank == 0 .and. modulo(step, 10_int64) == 0) then
      print '(a, i0, a, i0)', 'process ', getpid(), ' did step ', step
      flush (output_unit)
    end if
  end do
  call handler%close()
  call state%destroy()

  right = .true.
  do j = first, first + columns - 1
    do i = 1, rows
      right = right .and. nint(field(i, j), int64) == int(steps, int64)*((j - 1)*rows + i)
    end do
  end do
  call MPI_Allreduce(MPI_IN_PLACE, right, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD)
  if (rank == 0) print '(2a)', 'finished, and ', merge('right', 'wrong', right)
  call MPI_Finalize()
  if (.not. right) stop 1

contains

  subroutine advance()
    integer :: unused
    do j = first, first + columns - 1
      do i = 1, rows
        field(i, j) = field(i, j) + (j - 1)*rows + i
      end do
    end do
    unused = usleep(20000_c_int)
  end subroutine
end program
