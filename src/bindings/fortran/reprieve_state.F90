! SPDX-License-Identifier: BSD-3-Clause
!> The state of a program: type reprieve_checkpoint. Use module reprieve.
module reprieve_state
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use mpi_f08, only: MPI_Comm
  use reprieve_c
  use reprieve_callbacks
  use reprieve_errors
  implicit none
  private

  public :: reprieve_checkpoint, reprieve_add_memory_space

  character(*), parameter :: not_described = 'the mold must be a scalar, and the global shape have 1 to 15 numbers'

  !> The registry of a program's state; empty at first, nothing needs to be created.
  type :: reprieve_checkpoint
    private
    type(c_ptr), public :: handle = c_null_ptr  !< for C
    type(callbacks), pointer :: owned => null()
  contains
    procedure :: add_replicated      !< equal on all ranks
    procedure :: add_per_rank        !< every rank has its own
    procedure, private :: add_distributed_i4, add_distributed_i8, add_boxes_i4, add_boxes_i8
    procedure, private :: add_found_i4, add_found_i8
    generic :: add_distributed => add_distributed_i4, add_distributed_i8  !< spread over the ranks
    generic :: add_distributed_found => add_found_i4, add_found_i8        !< the same, where a procedure finds it
    generic :: add_distributed_boxes => add_boxes_i4, add_boxes_i8        !< the same, in any number of boxes
    procedure :: add_replicated_list !< of a length that a restore may change
    procedure :: add_per_rank_list
    procedure :: add_replicated_custom
    procedure :: add_per_rank_custom
    procedure :: add_replicated_walk !< of parts that a procedure names: a derived type with allocatable arrays
    procedure :: add_per_rank_walk
    procedure, private :: add_files_integer, add_files_f08
    !> add_files(name, comm, directory, files): what the program writes and reads as files; see reprieve.h.
    generic :: add_files => add_files_integer, add_files_f08
    procedure :: add_component
    procedure :: when_values_restored
    procedure :: allow_missing       !< allow_missing(name)
    !> allow_shared(name): the boxes of a distributed variable may overlap: two ranks each have a copy of the nodes on
    !> their border. A restore with the same boxes gives every rank its own copy back; on another split all get that of
    !> the lowest rank that had it.
    procedure :: allow_shared
    procedure :: add_former_name     !< add_former_name(name, former)
    procedure, private :: add_constant_text => add_constant, add_constant_integer_i4, add_constant_integer_i8
    procedure, private :: add_constant_real_r4, add_constant_real_r8
    !> add_constant(name, value): what the run is about, the name of a case, a parameter. A checkpoint with another value is an
    !> error. See reprieve_manager.h.
    generic :: add_constant => add_constant_text, add_constant_integer_i4, add_constant_integer_i8
    generic :: add_constant => add_constant_real_r4, add_constant_real_r8
    procedure :: add_constant_file   !< add_constant_file(name, file): the same for the content of a file
    !> set_memory_space(name, space, stream): the variable is in "cuda" or "hip" memory, in work of that stream (c_null_ptr: any).
    !> Seldom needed: the library knows memory of these by its address.
    procedure :: set_memory_space
    procedure :: annotate            !< units, a description, names of dimensions
    procedure :: allow_dropped       !< allow_dropped(name)
    procedure :: on_migration
    procedure :: destroy => checkpoint_destroy
  end type

contains

  !> Adds a kind of device memory; see reprieve.h. The functions are those of C, or have bind(c).
  subroutine reprieve_add_memory_space(name, owner_of, synchronize, copy_out, copy_in, wait, user, ierr)
    character(*), intent(in) :: name
    type(c_funptr), intent(in) :: owner_of, synchronize, copy_out, copy_in, wait
    type(c_ptr), intent(in) :: user
    integer, intent(out), optional :: ierr
    call reprieve_finish(c_add_memory_space(c_text(name), owner_of, synchronize, copy_out, copy_in, wait, user), ierr)
  end subroutine

  subroutine create(self)
    class(reprieve_checkpoint), intent(inout) :: self
    if (.not. c_associated(self%handle)) call reprieve_finish(c_checkpoint_create(self%handle))
  end subroutine

  !> For the procedures of the next variable.
  function new_calls(self) result(calls)
    class(reprieve_checkpoint), intent(inout) :: self
    type(callbacks), pointer :: calls
    call create(self)
    calls => new_callbacks(self%owned)
  end function

  subroutine add_replicated(self, name, value, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: value
    integer, intent(out), optional :: ierr
    integer :: status
    call create(self)
    status = check_array(self%handle, name, value)
    if (status == reprieve_ok) then
      status = c_add_replicated(self%handle, c_text(name), value%type, value%data, value%dimensions, value%shape, value%strides)
    end if
    call reprieve_finish(status, ierr)
  end subroutine

  !> redistribute: makes the value on another number of ranks; without it that is an error.
  subroutine add_per_rank(self, name, value, redistribute, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: value
    procedure(reprieve_redistribute), optional :: redistribute
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    integer :: status
    calls => new_calls(self)
    if (present(redistribute)) calls%redistribute => redistribute
    status = check_array(self%handle, name, value)
    if (status == reprieve_ok) then
      status = c_add_per_rank(self%handle, c_text(name), value%type, value%data, value%dimensions, value%shape, &
                              value%strides, merge(c_funloc(call_redistribute), c_null_funptr, present(redistribute)), &
                              c_loc(calls))
    end if
    call reprieve_finish(status, ierr)
  end subroutine

  subroutine add_files_integer(self, name, comm, directory, files, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name, directory
    integer, intent(in) :: comm
    procedure(reprieve_files) :: files
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    calls => new_calls(self)
    calls%files => files
    call reprieve_finish(c_fortran_add_files(self%handle, c_text(name), int(comm, c_int), c_text(directory), &
                                             c_funloc(call_files), c_loc(calls)), ierr)
  end subroutine

  subroutine add_files_f08(self, name, comm, directory, files, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name, directory
    type(MPI_Comm), intent(in) :: comm
    procedure(reprieve_files) :: files
    integer, intent(out), optional :: ierr
    call self%add_files_integer(name, comm%mpi_val, directory, files, ierr)
  end subroutine

  !> value: the view of this rank's part, a section without the ghost layers. lower: where its first element lies in the
  !> global array, counted from 1 in each dimension.
  subroutine add_distributed_i8(self, name, value, global_shape, lower, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: value
    integer(int64), intent(in) :: global_shape(:), lower(:)
    integer, intent(out), optional :: ierr
    integer :: status
    call create(self)
    status = check_part(self%handle, name, value, global_shape, lower)
    if (status == reprieve_ok) then
      status = c_add_distributed(self%handle, c_text(name), value%type, value%data, value%dimensions, &
          c_shape(value, global_shape), c_offset(value, lower), value%shape, value%strides)
    end if
    call reprieve_finish(status, ierr)
  end subroutine

  subroutine add_distributed_i4(self, name, value, global_shape, lower, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: value
    integer(int32), intent(in) :: global_shape(:), lower(:)
    integer, intent(out), optional :: ierr
    call self%add_distributed_i8(name, value, int(global_shape, int64), int(lower, int64), ierr)
  end subroutine

  !> find: is asked at every save and restore where the array is, so that it may be deallocated and allocated again, or
  !> be swapped with another one. Asked here as well: from then on the size stays the same.
  subroutine add_found_i8(self, name, find, global_shape, lower, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    procedure(reprieve_find) :: find
    integer(int64), intent(in) :: global_shape(:), lower(:)
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    type(reprieve_array) :: mold
    integer :: status
    calls => new_calls(self)
    mold = find()
    calls%find => find
    calls%lower = lower
    calls%extents = mold%shape(mold%rank:1:-1)
    if (size(global_shape) /= size(lower)) then
      status = check_part(self%handle, name, mold, global_shape, lower)
    else
      status = add_described(self, name, mold, global_shape, c_funloc(call_find), calls)
    end if
    call reprieve_finish(status, ierr)
  end subroutine

  subroutine add_found_i4(self, name, find, global_shape, lower, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    procedure(reprieve_find) :: find
    integer(int32), intent(in) :: global_shape(:), lower(:)
    integer, intent(out), optional :: ierr
    call self%add_found_i8(name, find, int(global_shape, int64), int(lower, int64), ierr)
  end subroutine

  !> mold: the view of a scalar of the type of the elements.
  subroutine add_boxes_i8(self, name, mold, global_shape, describe, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: mold
    integer(int64), intent(in) :: global_shape(:)
    procedure(reprieve_describe) :: describe
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    integer :: status
    calls => new_calls(self)
    calls%describe => describe
    if (mold%rank == 0) then
      status = add_described(self, name, mold, global_shape, c_funloc(call_describe), calls)
    else
      status = refuse(self%handle, name, not_described)
    end if
    call reprieve_finish(status, ierr)
  end subroutine

  !> Of elements as those of `mold`. describe: what C calls.
  integer function add_described(self, name, mold, global_shape, describe, calls) result(status)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: mold
    integer(int64), intent(in) :: global_shape(:)
    type(c_funptr), value :: describe
    type(callbacks), pointer, intent(in) :: calls
    status = check_array(self%handle, name, mold)
    if (status == reprieve_ok .and. size(global_shape) > 15) then
      status = refuse(self%handle, name, not_described)
    else if (status == reprieve_ok) then
      status = c_add_distributed_boxes(self%handle, c_text(name), mold%type, &
          int(size(global_shape) + mold%dimensions - mold%rank, c_int), c_shape(mold, global_shape), describe, c_loc(calls))
    end if
  end function

  subroutine add_boxes_i4(self, name, mold, global_shape, describe, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: mold
    integer(int32), intent(in) :: global_shape(:)
    procedure(reprieve_describe) :: describe
    integer, intent(out), optional :: ierr
    call self%add_boxes_i8(name, mold, int(global_shape, int64), describe, ierr)
  end subroutine

  subroutine add_replicated_list(self, name, memory, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    procedure(reprieve_memory) :: memory
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    type(reprieve_list) :: list
    calls => new_calls(self)
    calls%memory => memory
    call memory(list, -1_int64)
    if (refused(self, name, list, ierr)) return
    call reprieve_finish(c_add_replicated_resizable(self%handle, c_text(name), list%type, list%item_elements, &
                                                    c_funloc(call_memory), c_loc(calls)), ierr)
  end subroutine

  !> redistribute: as in add_per_rank; reprieve_in_order deals the items again.
  subroutine add_per_rank_list(self, name, memory, redistribute, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    procedure(reprieve_memory) :: memory
    procedure(reprieve_redistribute), optional :: redistribute
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    type(reprieve_list) :: list
    calls => new_calls(self)
    calls%memory => memory
    if (present(redistribute)) calls%redistribute => redistribute
    call memory(list, -1_int64)
    if (refused(self, name, list, ierr)) return
    call reprieve_finish(c_add_per_rank_resizable(self%handle, c_text(name), list%type, list%item_elements, &
        c_funloc(call_memory), merge(c_funloc(call_redistribute), c_null_funptr, present(redistribute)), c_loc(calls)), ierr)
  end subroutine

  !> Whether the memory procedure did not say where the list is.
  logical function refused(self, name, list, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_list), intent(in) :: list
    integer, intent(out), optional :: ierr
    character(:), allocatable :: problem
    refused = list%status /= reprieve_ok .or. .not. list%was_set
    if (.not. refused) return
    problem = 'its memory procedure did not call list%set'
    if (list%was_set) problem = reprieve_error_message()
    call reprieve_finish(c_registration_error(self%handle, c_text("variable '"//trim(name)//"': "//problem)), ierr)
  end function

  !> Takes over all variables of `part`, as `<name>/<name in the part>`; it is empty afterwards.
  subroutine add_component(self, name, part, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_checkpoint), intent(inout) :: part
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: last
    call create(self)
    call create(part)
    if (associated(part%owned)) then
      last => part%owned
      do while (associated(last%next))
        last => last%next
      end do
      last%next => self%owned
      self%owned => part%owned
      part%owned => null()
    end if
    call reprieve_finish(c_add_component(self%handle, c_text(name), part%handle), ierr)
  end subroutine

  !> What a registered variable means, for those who read the file with h5py or xarray: its units, a description, the names of
  !> its dimensions, in the order of the array's. Trailing spaces do not count. See reprieve_manager.h.
  subroutine annotate(self, name, units, description, dims, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    character(*), intent(in), optional :: units, description, dims(:)
    integer, intent(out), optional :: ierr
    character(kind=c_char), allocatable, target :: texts(:)
    type(c_ptr), allocatable :: addresses(:)
    character(:), allocatable :: unit_text, about
    integer :: d, ranks, length
    unit_text = ''
    about = ''
    ranks = 0
    length = 0
    if (present(units)) unit_text = units
    if (present(description)) about = description
    if (present(dims)) then
      ranks = size(dims)
      length = len(dims) + 1
    end if
    allocate(texts(ranks*length), addresses(ranks))
    do d = 1, ranks  ! the slowest one comes first in the file
      texts((d - 1)*length + 1:d*length) = padded_text(dims(ranks + 1 - d), length)
      addresses(d) = c_loc(texts((d - 1)*length + 1))
    end do
    call create(self)
    call reprieve_finish(c_annotate(self%handle, c_text(name), c_text(unit_text), c_text(about), int(ranks, c_int), &
                                    addresses), ierr)
  end subroutine

  !> A text for C in an array of that length, which is longer than the text.
  function padded_text(text, length) result(letters)
    character(*), intent(in) :: text
    integer, intent(in) :: length
    character(kind=c_char) :: letters(length)
    integer :: i
    letters = c_null_char
    do i = 1, len_trim(text)
      letters(i) = text(i:i)
    end do
  end function

  !> Frees it. An error while a handler or a manager uses it.
  subroutine checkpoint_destroy(self, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    integer, intent(out), optional :: ierr
    integer :: status
    status = c_checkpoint_destroy(self%handle)
    if (status == reprieve_ok) call free_callbacks(self%owned)
    call reprieve_finish(status, ierr)
  end subroutine

! What only hands its arguments to C: see c_interface.cmake.
#include <checkpoint_calls.inc>

end module
