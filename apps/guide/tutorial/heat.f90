! SPDX-License-Identifier: BSD-3-Clause
! Heat in a square plate, cut into bands of columns, one per rank. With Reprieve: the lines that end with ! +
program heat
  use mpi_f08
  use reprieve  ! +
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  integer, parameter :: n = 400                 ! points per side
  real(real64), allocatable, target :: u(:, :)  ! + target
  real(real64), allocatable :: next(:, :)       ! with a ghost column on either side
  integer :: rank, size, first, columns, up, down, steps, j
  character(20) :: argument
  type(reprieve_checkpoint) :: state  ! +
  type(reprieve_handler) :: handler   ! +

  call reprieve_watch_signals()  ! +
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  steps = 20000
  call get_command_argument(1, argument)
  if (argument /= '') read (argument, *) steps
  first = n*rank/size + 1
  columns = n*(rank + 1)/size + 1 - first
  up = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  down = merge(rank + 1, MPI_PROC_NULL, rank < size - 1)
  allocate (u(n, 0:columns + 1), next(n, 0:columns + 1))
  u = 0
  next = 0
  do j = 1, columns
    u(:, j) = merge(1, 0, modulo(first + j - 2, 100) < 50)  ! warm and cold stripes
  end do

  call state%add_distributed('u', reprieve_view(u(:, 1:columns)), [n, n], [1, first])  ! +
  call handler%open(MPI_COMM_WORLD, state, 'checkpoints')                              ! +
  do while (handler%next_step(steps))                                                  ! +
    call advance()
  end do
  call handler%close()   ! +
  call state%destroy()   ! +

  call print_sum()
  call MPI_Finalize()

contains

  subroutine advance()
    integer :: i
    call MPI_Sendrecv(u(:, 1), n, MPI_DOUBLE_PRECISION, up, 0, u(:, columns + 1), n, MPI_DOUBLE_PRECISION, down, 0, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(u(:, columns), n, MPI_DOUBLE_PRECISION, down, 1, u(:, 0), n, MPI_DOUBLE_PRECISION, up, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    do j = 1, columns
      do i = 2, n - 1
        next(i, j) = 0.25_real64*(u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1))
      end do
    end do
    u(:, 1:columns) = next(:, 1:columns)  ! u stays where it is in memory
  end subroutine

  ! The sum over the plate, added up in the same order on any number of ranks.
  subroutine print_sum()
    real(real64), allocatable :: plate(:, :)
    real(real64) :: total
    integer :: i, r
    allocate (plate(n, n))
    call MPI_Gatherv(u(:, 1:columns), n*columns, MPI_DOUBLE_PRECISION, plate, [(n*(n*(r + 1)/size - n*r/size), r=0, size - 1)], &
                     [(n*(n*r/size), r=0, size - 1)], MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD)
    total = 0
    do j = 1, n
      do i = 1, n
        total = total + plate(i, j)
      end do
    end do
    if (rank == 0) print '(a, es24.16e3)', 'sum ', total
  end subroutine
end program
