! SPDX-License-Identifier: BSD-3-Clause
!> Derived types with allocatable arrays, walked by one procedure in both directions. It stands on apps/guide/state.md.
module walk_test
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use checks
  implicit none
  private
  public :: blocks_that_come_and_go, blocks_on_one_rank

  type block_type
    integer :: level = 0
    real(real64), allocatable :: cells(:, :)
    integer, allocatable :: neighbours(:)
    complex, allocatable :: phase
  end type
  type(block_type), allocatable :: blocks(:)
  logical :: is_wrong = .false.
  integer :: levels

contains

  subroutine walk_blocks(parts)
    type(reprieve_parts), intent(inout) :: parts
    integer :: i, n
    n = size(blocks)
    call parts%value('blocks', n)
    if (parts%restores()) then
      deallocate (blocks)
      allocate (blocks(n))
    end if
    do i = 1, n
      call parts%value('level', blocks(i)%level)
      call parts%array('cells', blocks(i)%cells)  ! allocatable: a restore allocates it
    end do
  end subroutine

  subroutine walk_all(parts)
    type(reprieve_parts), intent(inout) :: parts
    integer :: i, n
    call walk_blocks(parts)
    do i = 1, size(blocks)
      call parts%array('neighbours', blocks(i)%neighbours)
      call parts%array('phase', blocks(i)%phase)
    end do
    n = 0
    if (is_wrong) call parts%value('blocks', blocks)
    if (is_wrong) call parts%value('after an error', n)
  end subroutine

  !> Other blocks for each step and rank; some arrays are empty or not allocated.
  subroutine adapt(step)
    integer, intent(in) :: step
    integer :: i
    if (allocated(blocks)) deallocate (blocks)
    allocate (blocks(mod(step + rank, 4)))
    do i = 1, size(blocks)
      blocks(i)%level = i
      allocate (blocks(i)%cells(-1:step, 0:i), source=step + 0.5_real64*i)
      if (i /= 2) allocate (blocks(i)%neighbours(i - 1), source=7*i)
      if (i == 2) blocks(i)%phase = (1., -2.)
    end do
  end subroutine

  subroutine blocks_that_come_and_go()
    type(reprieve_checkpoint) :: state
    type(reprieve_config) :: config
    type(reprieve_manager) :: manager
    type(block_type), allocatable :: expected(:)
    integer :: i, step, ierr
    call make_config(config)
    call adapt(0)
    call state%add_per_rank_walk('blocks', walk_all)
    call manager%open(MPI_COMM_WORLD, state, directory, config)
    do step = 1, 9
      call adapt(step)
      expected = blocks
      call manager%save(step)
      call adapt(step*5 + 2)
      call check(manager%restore_latest(), 'restored')
      call check(size(blocks) == size(expected), 'the number of blocks')
      do i = 1, min(size(blocks), size(expected))
        call check(blocks(i)%level == i .and. all(lbound(blocks(i)%cells) == [-1, 0]) .and. &
                   all(ubound(blocks(i)%cells) == [step, i]) .and. all(blocks(i)%cells == expected(i)%cells), 'the cells')
        call check((allocated(blocks(i)%phase) .and. i == 2) .or. allocated(blocks(i)%neighbours), 'what is allocated')
        if (i == 3) call check(all(blocks(i)%neighbours == [21, 21]), 'the neighbours')
      end do
    end do
    is_wrong = .true.
    call adapt(5)
    call manager%save(100, ierr)
    call check_status(ierr, reprieve_error_cluster, 'values of this type cannot be stored')
    is_wrong = .false.
    call manager%close()
    call state%destroy()
    call config%destroy()
  end subroutine

  subroutine take_blocks(pieces, own_rank, own_ranks, ierr)
    type(reprieve_pieces), intent(inout) :: pieces
    integer, intent(in) :: own_rank, own_ranks
    integer, intent(inout) :: ierr
    integer :: saved
    levels = 0
    do saved = own_rank, pieces%count() - 1, own_ranks
      call pieces%walk(saved, walk_all, ierr)
      if (ierr /= reprieve_ok) return
      levels = levels + sum(blocks%level)
    end do
  end subroutine

  !> What other ranks had saved is walked too.
  subroutine blocks_on_one_rank()
    type(reprieve_checkpoint) :: state
    integer :: all
    if (ranks == 1) return
    call adapt(2)
    call MPI_Allreduce(sum(blocks%level), all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call state%add_per_rank_walk('blocks', walk_all, take_blocks)
    call save_once(state)
    if (rank == 0) call restore_once(MPI_COMM_SELF, state)
    if (rank == 0) call check(levels == all, 'the blocks of all ranks')
    call state%destroy()
  end subroutine
end module
