! SPDX-License-Identifier: BSD-3-Clause
! e2e_code_staggered STEPS STEP_US: waves on a staggered grid, in the shape of a hydrodynamics code in Fortran. Pressures
! lie in the cells, velocities on their faces. The grid is cut into bands of columns, one per rank. The faces between two
! bands belong to both: each rank has a copy and moves it on by itself, in its own order of operations, so that the copies
! differ in their last bits.
!
! Rank 0 prints "restored N DIGEST" after a restore, "saved N DIGEST" after a preemption, and "final DIGEST copies DIGEST"
! at the end. The first digest is of the owners' faces (the lower rank owns a border), the second of all copies.
module fields
  use reprieve, only: reprieve_array, reprieve_view
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  real(real64), allocatable, target :: p(:, :), u(:, :), v(:, :)  ! p has a ghost column on either side

contains

  ! The array moves in every step: it is asked for when it is saved.
  function find_v()
    type(reprieve_array) :: find_v
    find_v = reprieve_view(v)
  end function
end module

program staggered
  use mpi_f08
  use fields
  use reprieve
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
  integer, parameter :: nx = 60, ny = 90
  real(real64), parameter :: dt = 0.1_real64, third = 1/3.0_real64
  real(real64), allocatable :: moved(:, :)
  integer :: rank, size, first, columns, down, up, steps, pause, ierr, code
  type(reprieve_checkpoint) :: state
  type(reprieve_config) :: config
  type(reprieve_handler) :: handler
  interface
    integer(c_int) function usleep(microseconds) bind(c)
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface

  call reprieve_watch_signals()
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  steps = argument(1, 1000)
  pause = argument(2, 0)
  first = ny*rank/size + 1
  columns = ny*(rank + 1)/size + 1 - first
  down = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  up = merge(rank + 1, MPI_PROC_NULL, rank < size - 1)
  call start()

  call state%add_distributed('pressure', reprieve_view(p(:, 1:columns)), [nx, ny], [1, first])
  call state%add_distributed('velocity/x', reprieve_view(u), [nx + 1, ny], [1, first])
  call state%add_distributed_found('velocity/y', find_v, [nx, ny + 1], [1, first])
  call state%allow_shared('velocity/y')
  call config%set('termination.save_every_steps', '50')
  call config%set_exit(reprieve_exit_return)
  call handler%open(MPI_COMM_WORLD, state, 'checkpoints', config)
  if (handler%restored_from()) call print_state('restored', int(handler%total_run_calls()), .false.)

  do while (handler%next_step(steps, ierr))
    call advance()
    if (pause > 0) ierr = usleep(int(pause, c_int))
  end do

  code = 0
  if (ierr == reprieve_preempted) then
    call print_state('saved', int(handler%total_run_calls()), .false.)
    code = handler%exit_code()
  else if (ierr /= reprieve_ok) then
    print '(a)', reprieve_error_message()
    call MPI_Abort(MPI_COMM_WORLD, 1)
  else
    call print_state('final', -1, .true.)
  end if
  call handler%close()
  call state%destroy()
  call MPI_Finalize()
  if (code /= 0) stop code, quiet=.true.

contains

  integer function argument(position, default)
    integer, intent(in) :: position, default
    character(20) :: text
    call get_command_argument(position, text)
    argument = default
    if (text /= '') read (text, *) argument
  end function

  subroutine start()
    integer :: i, j
    allocate (p(nx, 0:columns + 1), u(nx + 1, columns), v(nx, columns + 1))
    do j = 0, columns + 1
      do i = 1, nx
        p(i, j) = sin(0.37_real64*i)*cos(0.23_real64*(first + j))
      end do
    end do
    u = 0
    v = 0
  end subroutine

  subroutine advance()
    integer :: j
    call MPI_Sendrecv(p(:, 1), nx, MPI_DOUBLE_PRECISION, down, 0, p(:, columns + 1), nx, MPI_DOUBLE_PRECISION, up, 0, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(p(:, columns), nx, MPI_DOUBLE_PRECISION, up, 1, p(:, 0), nx, MPI_DOUBLE_PRECISION, down, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    u(2:nx, :) = u(2:nx, :) - dt*(p(2:nx, 1:columns) - p(1:nx - 1, 1:columns))
    do j = 1, columns + 1
      if ((j == 1 .and. down == MPI_PROC_NULL) .or. (j == columns + 1 .and. up == MPI_PROC_NULL)) cycle  ! walls
      if (j == columns + 1) then  ! the same sum as that of the neighbour, rounded otherwise
        v(:, j) = v(:, j) - dt*p(:, j)*third*3 + dt*p(:, j - 1)*third*3
      else
        v(:, j) = v(:, j) - dt*(p(:, j) - p(:, j - 1))
      end if
    end do
    p(:, 1:columns) = p(:, 1:columns) - dt*(u(2:nx + 1, :) - u(1:nx, :) + v(:, 2:columns + 1) - v(:, 1:columns))
    moved = v
    v = -huge(dt)
    deallocate (v)
    allocate (v, source=moved)
  end subroutine

  ! The same in whatever order it is added up.
  integer(int64) function mixed(value, i, j)
    real(real64), intent(in) :: value
    integer, intent(in) :: i, j
    integer(int64) :: place
    place = int(i, int64)*1000 + j
    mixed = ieor(transfer(value, mixed), place*2654435761_int64)
    mixed = ieor(mixed, ishft(mixed, -29))
    mixed = ishftc(mixed, int(modulo(place*37, 63_int64)) + 1)
    mixed = ieor(mixed, ishft(mixed, 17))
    mixed = ieor(mixed, ishft(mixed, -31))
  end function

  subroutine print_state(what, number, with_copies)
    character(*), intent(in) :: what
    integer, intent(in) :: number
    logical, intent(in) :: with_copies
    integer(int64) :: owners, copies, mine(2), all(2)
    integer :: i, j
    owners = 0
    do j = 1, columns
      do i = 1, nx
        owners = ieor(owners, mixed(p(i, j), i, first + j))
      end do
      do i = 1, nx + 1
        owners = ieor(owners, mixed(u(i, j), 100 + i, first + j))
      end do
    end do
    copies = owners
    do j = 1, columns + 1
      do i = 1, nx
        if (j > 1 .or. rank == 0) owners = ieor(owners, mixed(v(i, j), 200 + i, first + j))
        copies = ieor(copies, mixed(v(i, j), 300 + i + 100*rank, first + j))
      end do
    end do
    mine = [owners, copies]
    call MPI_Reduce(mine, all, 2, MPI_INTEGER8, MPI_BXOR, 0, MPI_COMM_WORLD)
    if (rank /= 0) return
    if (with_copies) then
      print '(a,1x,z16.16,a,z16.16)', what, all(1), ' copies ', all(2)
    else
      print '(a,1x,i0,1x,z16.16)', what, number, all(1)
    end if
  end subroutine
end program
