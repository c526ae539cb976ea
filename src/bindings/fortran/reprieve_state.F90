!> The state of a program: type reprieve_checkpoint. Use module reprieve.
module reprieve_state
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use reprieve_c
  use reprieve_callbacks
  use reprieve_errors
  implicit none
  private

  public :: reprieve_checkpoint

  !> The registry of a program's state; empty at first, nothing needs to be created.
  type :: reprieve_checkpoint
    private
    type(c_ptr), public :: handle = c_null_ptr  !< for C
    type(callbacks), pointer :: owned => null()
  contains
    procedure :: add_replicated      !< equal on all ranks
    procedure :: add_per_rank        !< every rank has its own
    procedure, private :: add_distributed_i4, add_distributed_i8, add_boxes_i4, add_boxes_i8
    generic :: add_distributed => add_distributed_i4, add_distributed_i8  !< spread over the ranks
    generic :: add_distributed_boxes => add_boxes_i4, add_boxes_i8        !< the same, in any number of boxes
    procedure :: add_replicated_list !< of a length that a restore may change
    procedure :: add_per_rank_list
    procedure :: add_replicated_custom
    procedure :: add_per_rank_custom
    procedure :: add_component
    procedure :: when_values_restored
    procedure :: allow_missing
    procedure :: add_former_name
    procedure :: allow_dropped
    procedure :: on_migration
    procedure :: destroy => checkpoint_destroy
  end type

contains

  subroutine create(self)
    class(reprieve_checkpoint), intent(inout) :: self
    if (.not. c_associated(self%handle)) call reprieve_finish(reprieve_checkpoint_create(self%handle))
  end subroutine

  subroutine add_replicated(self, name, value, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: value
    integer, intent(out), optional :: ierr
    call create(self)
    call reprieve_finish(reprieve_fortran_add_replicated(self%handle, c_text(name), value), ierr)
  end subroutine

  !> redistribute: makes the value on another number of ranks; without it that is an error.
  subroutine add_per_rank(self, name, value, redistribute, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: value
    procedure(reprieve_redistribute), optional :: redistribute
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    call create(self)
    calls => new_callbacks(self%owned)
    if (present(redistribute)) calls%redistribute => redistribute
    call reprieve_finish(reprieve_fortran_add_per_rank(self%handle, c_text(name), value, redistribute_address(calls), &
                                                       c_loc(calls)), ierr)
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
    if (size(global_shape) /= size(lower)) then
      status = reprieve_registration_error(self%handle, shapes_differ(name))
    else
      status = reprieve_fortran_add_distributed(self%handle, c_text(name), value, int(size(lower), c_int), global_shape, &
                                                lower)
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

  !> mold: the view of a scalar of the type of the elements.
  subroutine add_boxes_i8(self, name, mold, global_shape, describe, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: mold
    integer(int64), intent(in) :: global_shape(:)
    procedure(reprieve_describe) :: describe
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    call create(self)
    calls => new_callbacks(self%owned)
    calls%describe => describe
    call reprieve_finish(reprieve_fortran_add_distributed_boxes(self%handle, c_text(name), mold, &
        int(size(global_shape), c_int), global_shape, c_funloc(call_describe), c_loc(calls)), ierr)
  end subroutine

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
    call create(self)
    calls => new_callbacks(self%owned)
    calls%memory => memory
    call memory(list, -1_int64)
    if (refused(self, name, list, ierr)) return
    call reprieve_finish(reprieve_add_replicated_resizable(self%handle, c_text(name), list%type, list%item_elements, &
                                                           c_funloc(call_memory), c_loc(calls)), ierr)
  end subroutine

  !> redistribute: as in add_per_rank; reprieve_in_order deals the items anew.
  subroutine add_per_rank_list(self, name, memory, redistribute, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    procedure(reprieve_memory) :: memory
    procedure(reprieve_redistribute), optional :: redistribute
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    type(reprieve_list) :: list
    call create(self)
    calls => new_callbacks(self%owned)
    calls%memory => memory
    if (present(redistribute)) calls%redistribute => redistribute
    call memory(list, -1_int64)
    if (refused(self, name, list, ierr)) return
    call reprieve_finish(reprieve_add_per_rank_resizable(self%handle, c_text(name), list%type, list%item_elements, &
        c_funloc(call_memory), redistribute_address(calls), c_loc(calls)), ierr)
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
    call reprieve_finish(reprieve_registration_error(self%handle, c_text("variable '"//trim(name)//"': "//problem)), ierr)
  end function

  subroutine add_replicated_custom(self, name, save, load, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    procedure(reprieve_save) :: save
    procedure(reprieve_load) :: load
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    call create(self)
    calls => new_callbacks(self%owned)
    calls%save => save
    calls%load => load
    call reprieve_finish(reprieve_add_replicated_custom(self%handle, c_text(name), c_funloc(call_save), &
                                                        c_funloc(call_load), c_loc(calls)), ierr)
  end subroutine

  subroutine add_per_rank_custom(self, name, save, load, redistribute, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    procedure(reprieve_save) :: save
    procedure(reprieve_load) :: load
    procedure(reprieve_redistribute), optional :: redistribute
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    call create(self)
    calls => new_callbacks(self%owned)
    calls%save => save
    calls%load => load
    if (present(redistribute)) calls%redistribute => redistribute
    call reprieve_finish(reprieve_add_per_rank_custom(self%handle, c_text(name), c_funloc(call_save), &
        c_funloc(call_load), redistribute_address(calls), c_loc(calls)), ierr)
  end subroutine

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
    call reprieve_finish(reprieve_add_component(self%handle, c_text(name), part%handle), ierr)
  end subroutine

  subroutine when_values_restored(self, prepare, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    procedure(reprieve_prepare) :: prepare
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    call create(self)
    calls => new_callbacks(self%owned)
    calls%prepare => prepare
    call reprieve_finish(reprieve_when_values_restored(self%handle, c_funloc(call_prepare), c_loc(calls)), ierr)
  end subroutine

  subroutine allow_missing(self, name, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: ierr
    call create(self)
    call reprieve_finish(reprieve_allow_missing(self%handle, c_text(name)), ierr)
  end subroutine

  subroutine add_former_name(self, name, former, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name, former
    integer, intent(out), optional :: ierr
    call create(self)
    call reprieve_finish(reprieve_add_former_name(self%handle, c_text(name), c_text(former)), ierr)
  end subroutine

  subroutine allow_dropped(self, name, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: ierr
    call create(self)
    call reprieve_finish(reprieve_allow_dropped(self%handle, c_text(name)), ierr)
  end subroutine

  subroutine on_migration(self, migrate, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    procedure(reprieve_migrate) :: migrate
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    call create(self)
    calls => new_callbacks(self%owned)
    calls%migrate => migrate
    call reprieve_finish(reprieve_on_migration(self%handle, c_funloc(call_migrate), c_loc(calls)), ierr)
  end subroutine

  !> Frees it. An error while a handler or a manager uses it.
  subroutine checkpoint_destroy(self, ierr)
    class(reprieve_checkpoint), intent(inout) :: self
    integer, intent(out), optional :: ierr
    integer :: status
    status = reprieve_checkpoint_destroy(self%handle)
    if (status == reprieve_ok) call free_callbacks(self%owned)
    call reprieve_finish(status, ierr)
  end subroutine

end module
