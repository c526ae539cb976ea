! SPDX-License-Identifier: BSD-3-Clause
!> Distributed arrays with ghost layers, blocks, lists, values of the program's own kind: restored on the same number of
!> ranks, and on one fewer.
module state_test
  use, intrinsic :: iso_fortran_env, only: int8, int64, real64
  use checks
  implicit none
  private
  public :: another_number_of_ranks, versions, arrays_that_move, nodes_on_borders, files_of_the_program

  integer, parameter :: rows = 5, columns = 11

  real(real64), allocatable, target :: particles(:, :)
  integer(int8), allocatable :: note(:)
  real(real64), allocatable, target :: blocks(:, :)
  integer, target :: first, count
  real(real64), target :: kelvin, celsius

  ! Arrays that are deallocated and allocated again after they were registered.
  integer, parameter :: moved_rows = 3, moved_columns = 5
  real(real64), allocatable, target :: field(:, :)  ! with a ghost column on either side
  real(real64), allocatable, target :: other(:)

contains

  pure real(real64) function expected(i, j)
    integer, intent(in) :: i, j
    expected = 100*i + j + 0.5_real64
  end function

  !> This rank's columns.
  subroutine split(my_rank, my_ranks)
    integer, intent(in) :: my_rank, my_ranks
    first = my_rank*columns/my_ranks + 1
    count = (my_rank + 1)*columns/my_ranks + 1 - first
  end subroutine

  subroutine particle_memory(list, wanted)
    type(reprieve_list), intent(inout) :: list
    integer(int64), intent(in) :: wanted
    if (wanted >= 0) then
      deallocate (particles)
      allocate (particles(3, wanted))
    end if
    call list%set(reprieve_view(particles))
  end subroutine

  subroutine save_note(bytes)
    integer(int8), allocatable, intent(out) :: bytes(:)
    bytes = note
  end subroutine

  subroutine load_note(bytes, ierr)
    integer(int8), intent(in) :: bytes(:)
    integer, intent(inout) :: ierr
    note = bytes
    if (size(bytes) == 0) ierr = 1
  end subroutine

  !> Every rank has the notes of all, one after the other.
  subroutine join_notes(pieces, rank, size, ierr)
    type(reprieve_pieces), intent(inout) :: pieces
    integer, intent(in) :: rank, size
    integer, intent(inout) :: ierr
    integer(int8), allocatable, target :: piece(:)
    integer :: saved
    note = [integer(int8) ::]
    do saved = 0, pieces%count() - 1
      allocate (piece(pieces%size_bytes(saved)))
      call pieces%read(saved, piece, ierr)
      if (ierr /= 0) return
      note = [note, piece]
      deallocate (piece)
    end do
    call check(rank < size, 'the arguments of the redistribution')
  end subroutine

  subroutine describe(boxes)
    type(reprieve_boxes), intent(inout) :: boxes
    integer :: j
    do j = 1, count
      call boxes%add(reprieve_view(blocks(:, j:j)), [1, first + j - 1])
    end do
  end subroutine

  subroutine another_number_of_ranks()
    type(MPI_Comm) :: fewer
    integer :: my_rank, my_ranks, i, before
    call save_and_restore(MPI_COMM_WORLD, rank, ranks, .true.)
    call check(size(note) == rank + 1 .and. all(note == rank), 'the note')
    call check(size(particles, 2) == 2*rank + 1, 'the number of particles')
    call check(all(particles(1, :) == [(particle(rank, i), i=1, 2*rank + 1)]), 'the particles')
    if (ranks > 1) then
      call MPI_Comm_split(MPI_COMM_WORLD, merge(MPI_UNDEFINED, 1, rank == 0), rank, fewer)
      if (fewer /= MPI_COMM_NULL) then
        call MPI_Comm_rank(fewer, my_rank)
        call MPI_Comm_size(fewer, my_ranks)
        call save_and_restore(fewer, my_rank, my_ranks, .false.)
        call check(size(note) == ranks*(ranks + 1)/2, 'the joined notes')
        before = 0
        call MPI_Exscan(size(particles, 2), before, 1, MPI_INTEGER, MPI_SUM, fewer)
        if (my_rank == 0) before = 0
        call check(all(nint(particles(3, :)) == [(before + i, i=1, size(particles, 2))]), 'the dealt particles')
        call check(abs(size(particles, 2)*my_ranks - ranks**2) < my_ranks, 'as even as possible')
        call MPI_Comm_free(fewer)
      end if
    end if
  end subroutine

  real(real64) function particle(of_rank, i)
    integer, intent(in) :: of_rank, i
    particle = 1000*of_rank + i
  end function

  subroutine save_and_restore(comm, my_rank, my_ranks, save)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(in) :: my_rank, my_ranks
    logical, intent(in) :: save
    real(real64), allocatable, target :: field(:, :)  ! with a ghost layer all around
    character(2), allocatable, target :: labels(:)
    type(reprieve_checkpoint) :: state
    real(real64), target :: mold
    integer :: i, j

    call split(my_rank, my_ranks)
    allocate (field(0:rows + 1, first - 1:first + count), labels(count))
    if (allocated(blocks)) deallocate (blocks)
    if (allocated(particles)) deallocate (particles)
    allocate (blocks(rows, count), particles(3, merge(2*my_rank + 1, 0, save)))
    field = -1
    do j = first, first + count - 1
      do i = 1, rows
        if (save) field(i, j) = expected(i, j)
        blocks(i, j - first + 1) = merge(-expected(i, j), 0.0_real64, save)
      end do
      labels(j - first + 1) = achar(64 + j)//'.'
    end do
    note = [(int(my_rank, int8), i=0, my_rank)]
    do i = 1, size(particles, 2)
      particles(:, i) = [particle(my_rank, i), 0.0_real64, real(my_rank**2 + i, real64)]
    end do

    call state%add_distributed('field', reprieve_view(field(1:rows, first:first + count - 1)), [rows, columns], [1, first])
    call state%add_distributed_boxes('blocks', reprieve_view(mold), [rows, columns], describe)
    call state%add_distributed('labels', reprieve_view(labels), [columns], [first])
    call state%add_per_rank_list('particles', particle_memory, reprieve_in_order)
    call state%add_per_rank_custom('note', save_note, load_note, join_notes)
    if (save) then
      call save_once(state)
      field(1:rows, first:first + count - 1) = 0
      blocks = 0
      deallocate (particles)
      allocate (particles(3, 0))
      note = [integer(int8) ::]
    end if
    labels = '??'
    call restore_once(comm, state)
    call check(all(field(0, :) == -1) .and. all(field(rows + 1, :) == -1), 'the ghosts were left alone')
    call check(all(field(:, first - 1) == -1) .and. all(field(:, first + count) == -1), 'the ghosts on either side')
    do j = first, first + count - 1
      call check(labels(j - first + 1) == achar(64 + j)//'.', 'the labels')
      do i = 1, rows
        call check(field(i, j) == expected(i, j), 'the field')
        call check(blocks(i, j - first + 1) == -expected(i, j), 'the blocks')
      end do
    end do
    call state%destroy()
  end subroutine

  subroutine migrate(stored, ierr)
    type(reprieve_stored_state), intent(in) :: stored
    integer, intent(inout) :: ierr
    call check(stored%contains('kelvin') .and. .not. stored%contains('rankine'), 'what is stored')
    call stored%read('kelvin', reprieve_view(kelvin), ierr)
    celsius = kelvin - 273
  end subroutine

  subroutine prepare(ierr)
    integer, intent(inout) :: ierr
    if (first < 0) ierr = 1
    first = first + 1
  end subroutine

  !> Another version of the program; components; a procedure in the middle of the restore.
  subroutine versions()
    real(real64), target :: pressure
    type(reprieve_checkpoint) :: state, part
    kelvin = 300
    pressure = 5
    call part%add_replicated('kelvin', reprieve_view(kelvin))
    call part%add_replicated('p', reprieve_view(pressure))
    call state%add_component('a', part)
    call state%add_replicated('kelvin', reprieve_view(celsius))
    celsius = 310
    call save_once(state)
    call state%destroy()

    call state%add_replicated('pressure', reprieve_view(pressure))
    call state%add_replicated('celsius', reprieve_view(celsius))
    pressure = 0
    call restore_once(MPI_COMM_WORLD, state, reprieve_error_mismatch, "'celsius'")
    call state%allow_missing('celsius')
    call state%add_former_name('pressure', 'a/p')
    call state%allow_dropped('kelvin')
    call state%allow_dropped('a')
    call state%on_migration(migrate)
    call state%when_values_restored(prepare)
    first = 1
    call restore_once(MPI_COMM_WORLD, state)
    call check(pressure == 5 .and. celsius == 37 .and. first == 2, 'the migrated state')
    call state%destroy()
  end subroutine

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
    allocate (field(moved_rows, inner + 2))
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
    call make_field(moved_columns, 1)
    allocate (other(4), source=2.0_real64)
    call state%add_distributed_found('field', find_field, [moved_rows, moved_columns*ranks], [1, moved_columns*rank + 1])
    call state%add_distributed_found('other', find_other, [4_int64*ranks], [4_int64*rank + 1])
    call make_field(moved_columns, 7)
    call save_once(state)
    call make_field(moved_columns, 0)
    other = 0
    call restore_once(MPI_COMM_WORLD, state)
    call check(all(field(:, 2:moved_columns + 1) == 7) .and. all(other == 2), 'what was there at the save')
    call check(all(field(:, 1) == -1) .and. all(field(:, moved_columns + 2) == -1), 'the ghosts were left alone')
    if (rank == ranks - 1) call make_field(moved_columns - 1, 7)
    call save_fails(state, 'registered with an array of 3 x 5 elements, but the array has 3 x 4 now')
    call make_field(moved_columns, 8)
    if (rank == 0) deallocate (other)
    if (rank == 0) allocate (other(5))
    call save_fails(state, 'registered with an array of 4 elements, but the array has 5 now')
    call state%destroy()
    deallocate (field, other)
  end subroutine
  !> Velocities on the faces of cells: both neighbours have the faces between them, with other last bits.
  subroutine nodes_on_borders()
    type(reprieve_checkpoint) :: state
    real(real64), target :: faces(moved_rows, moved_columns + 1)
    integer :: ierr
    faces = 1 + 1000*epsilon(1.0_real64)*rank
    call state%add_distributed('faces', reprieve_view(faces), [moved_rows, moved_columns*ranks + 1], [1, moved_columns*rank + 1])
    call state%allow_shared('face', ierr)
    call check_status(ierr, reprieve_error_usage, "'face'")
    call state%destroy()
    call state%add_distributed('faces', reprieve_view(faces), [moved_rows, moved_columns*ranks + 1], [1, moved_columns*rank + 1])
    call state%allow_shared('faces')
    call save_once(state)
    faces = 0
    call restore_once(MPI_COMM_WORLD, state)
    call check(all(faces == 1 + 1000*epsilon(1.0_real64)*rank), 'every rank has its own copy')
    call state%destroy()
  end subroutine

  subroutine restart_files(prefix, restores, ierr)
    character(*), intent(in) :: prefix
    logical, intent(in) :: restores
    integer, intent(inout) :: ierr
    character(8) :: number
    integer :: unit
    write (number, '(i0)') rank
    open (newunit=unit, file=prefix//'.'//trim(number), form='unformatted', access='stream', iostat=ierr)
    if (ierr /= 0) return
    if (restores) then
      read (unit, iostat=ierr) first
    else
      write (unit, iostat=ierr) first
    end if
    close (unit)
  end subroutine

  !> Files that the program writes and reads itself.
  subroutine files_of_the_program()
    type(reprieve_checkpoint) :: state
    character(4096) :: parent
    call get_environment_variable('TEST_DIRECTORY', parent)
    call state%add_files('restart', MPI_COMM_WORLD, trim(parent), restart_files)
    first = 10 + rank
    call save_once(state)
    first = 0
    call restore_once(MPI_COMM_WORLD, state)
    call check(first == 10 + rank, 'what the files had')
    call state%destroy()
  end subroutine
end module
