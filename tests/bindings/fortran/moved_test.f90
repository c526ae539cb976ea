! SPDX-License-Identifier: BSD-3-Clause
!> Arrays that are deallocated and allocated again after they were registered.
module moved_test
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use checks
  implicit none
  private
  public :: arrays_that_move, nodes_on_borders

  integer, parameter :: rows = 3, columns = 5
  real(real64), allocatable, target :: field(:, :)  ! with a ghost column on either side
  real(real64), allocatable, target :: other(:)

contains

  function find_field() result(found)
    type(reprieve_array) :: found
    found = reprieve_view(field(:, 2:size(field, 2) - 1))
  end function

  function find_other() result(found)
    type(reprieve_array) :: found
    found = reprieve_view(other)
  end function

  subroutine make_field(inner, value)
    integer, intent(in) :: inner, value
    real(real64), allocatable :: between(:)
    if (allocated(field)) deallocate (field)
    allocate (between(1000))  ! so that the new one lies elsewhere
    allocate (field(rows, inner + 2))
    field = -1
    field(:, 2:inner + 1) = value
  end subroutine

  subroutine save_fails(state, text)
    type(reprieve_checkpoint), intent(inout) :: state
    character(*), intent(in) :: text
    type(reprieve_manager) :: manager
    type(reprieve_config) :: config
    integer :: ierr
    call make_config(config)
    call manager%open(MPI_COMM_WORLD, state, directory, config, ierr)
    if (ierr == reprieve_ok) call manager%save(2_int64, ierr=ierr)
    call check_status(ierr, reprieve_error_cluster, text)  ! as errors of all procedures
    call manager%close()
    call config%destroy()
  end subroutine

  subroutine arrays_that_move()
    type(reprieve_checkpoint) :: state
    call make_field(columns, 1)
    allocate (other(4), source=2.0_real64)
    call state%add_distributed_found('field', find_field, [rows, columns*ranks], [1, columns*rank + 1])
    call state%add_distributed_found('other', find_other, [4_int64*ranks], [4_int64*rank + 1])
    call make_field(columns, 7)
    call save_once(state)
    call make_field(columns, 0)
    other = 0
    call restore_once(MPI_COMM_WORLD, state)
    call check(all(field(:, 2:columns + 1) == 7) .and. all(other == 2), 'what was there at the save')
    call check(all(field(:, 1) == -1) .and. all(field(:, columns + 2) == -1), 'the ghosts were left alone')
    if (rank == ranks - 1) call make_field(columns - 1, 7)
    call save_fails(state, 'registered with an array of 3 x 5 elements, but the array has 3 x 4 now')
    call make_field(columns, 8)
    if (rank == 0) deallocate (other)
    if (rank == 0) allocate (other(5))
    call save_fails(state, 'registered with an array of 4 elements, but the array has 5 now')
    call state%destroy()
    deallocate (field, other)
  end subroutine
  !> Velocities on the faces of cells: both neighbours have the faces between them, with other last bits.
  subroutine nodes_on_borders()
    type(reprieve_checkpoint) :: state
    real(real64), target :: faces(rows, columns + 1)
    integer :: ierr
    faces = 1 + 1000*epsilon(1.0_real64)*rank
    call state%add_distributed('faces', reprieve_view(faces), [rows, columns*ranks + 1], [1, columns*rank + 1])
    call state%allow_shared('face', ierr)
    call check_status(ierr, reprieve_error_usage, "'face'")
    call state%destroy()
    call state%add_distributed('faces', reprieve_view(faces), [rows, columns*ranks + 1], [1, columns*rank + 1])
    call state%allow_shared('faces')
    call save_once(state)
    faces = 0
    call restore_once(MPI_COMM_WORLD, state)
    call check(all(faces == 1 + 1000*epsilon(1.0_real64)*rank), 'every rank has its own copy')
    call state%destroy()
  end subroutine
end module
