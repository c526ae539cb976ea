! SPDX-License-Identifier: BSD-3-Clause
!> What the procedures that a program registers get, and how C calls them. Use module reprieve.
module reprieve_callbacks
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real64
  use reprieve_c
  use reprieve_errors
  implicit none
  private

  public :: reprieve_pieces, reprieve_boxes, reprieve_list, reprieve_parts, reprieve_stored_state, reprieve_in_order
  public :: reprieve_redistribute, reprieve_find, reprieve_describe, reprieve_memory, reprieve_save, reprieve_load, reprieve_walk
  public :: reprieve_prepare, reprieve_migrate, reprieve_save_files, reprieve_step, reprieve_watch, reprieve_leave, reprieve_abort
  public :: reprieve_body, reprieve_after_commit, reprieve_files
  public :: callbacks, callback_list, new_callbacks, free_callbacks, hold, release
  public :: call_find, call_describe, call_memory, call_save, call_load, call_walk, call_prepare, call_migrate, call_save_files
  public :: call_step, call_watch, call_redistribute, call_after_commit, call_files

  !> What a per-rank variable was on each of the ranks that saved it.
  type :: reprieve_pieces
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: count => pieces_count            !< number of ranks that saved
    procedure :: size_bytes => pieces_size_bytes  !< of what a rank saved; -1 after an error
    procedure :: read => pieces_read              !< into an array of exactly that size
    procedure :: walk => pieces_walk              !< what a rank saved by a walk, into what this one names
  end type

  !> This rank's boxes of a distributed array.
  type :: reprieve_boxes
    private
    type(c_ptr) :: handle = c_null_ptr
    integer :: status = reprieve_ok
  contains
    procedure, private :: boxes_add_i4, boxes_add_i8
    generic :: add => boxes_add_i4, boxes_add_i8  !< a view, and where its first element lies in the global array
  end type

  !> Where the items of a list are.
  type :: reprieve_list
    private
    logical, public :: was_set = .false.
    integer, public :: status = reprieve_ok
    integer(c_int), public :: type = 0
    integer(c_int64_t), public :: item_elements = 0
    integer(c_int64_t) :: count = 0
    type(c_ptr) :: data = c_null_ptr
  contains
    procedure :: set => list_set  !< the array of this view is the list; its last dimension counts the items
  end type

  !> A value while its parts are saved or restored. After an error the calls do nothing, and the save or restore fails.
  type :: reprieve_parts
    private
    type(c_ptr) :: handle = c_null_ptr
    integer :: status = reprieve_ok
  contains
    procedure :: restores => parts_restores  !< whether the parts come from a checkpoint
    !> value(name, variable): a scalar or an array of fixed size, of any type but derived ones; its memory is contiguous.
    procedure :: value => parts_value
    procedure, private :: parts_int8_t, parts_int16_t, parts_int32_t, parts_int64_t
    procedure, private :: parts_float, parts_double, parts_float_complex, parts_double_complex
    !> array(name, array): an allocatable one, of any rank. A restore gives it the bounds that it had, or deallocates it.
    generic :: array => parts_int8_t, parts_int16_t, parts_int32_t, parts_int64_t
    generic :: array => parts_float, parts_double, parts_float_complex, parts_double_complex
  end type

  !> A checkpoint that is being restored, by the names that are stored.
  type :: reprieve_stored_state
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: contains => stored_contains
    procedure :: read => stored_read  !< a replicated variable, into the memory of this view
    procedure, private :: stored_read_distributed_i4, stored_read_distributed_i8
    generic :: read_distributed => stored_read_distributed_i4, stored_read_distributed_i8  !< a part of a distributed one
  end type

  abstract interface
    !> Makes this rank's value from the saved ones. `rank` and `size` are those of the restarted run. ierr: 0 on entry.
    subroutine reprieve_redistribute(pieces, rank, size, ierr)
      import :: reprieve_pieces
      type(reprieve_pieces), intent(inout) :: pieces
      integer, intent(in) :: rank, size
      integer, intent(inout) :: ierr
    end subroutine
    !> Where a variable is now: returns reprieve_view(variable).
    function reprieve_find()
      import :: reprieve_array
      type(reprieve_array) :: reprieve_find
    end function
    !> Adds this rank's boxes.
    subroutine reprieve_describe(boxes)
      import :: reprieve_boxes
      type(reprieve_boxes), intent(inout) :: boxes
    end subroutine
    !> Calls list%set(reprieve_view(array)), after it gave the array `wanted` items if that is not negative.
    subroutine reprieve_memory(list, wanted)
      import :: reprieve_list, int64
      type(reprieve_list), intent(inout) :: list
      integer(int64), intent(in) :: wanted
    end subroutine
    !> A value of the program's own kind as bytes.
    subroutine reprieve_save(bytes)
      import :: int8
      integer(int8), allocatable, intent(out) :: bytes(:)
    end subroutine
    !> The value from bytes. ierr: 0 on entry; anything else refuses the bytes.
    subroutine reprieve_load(bytes, ierr)
      import :: int8
      integer(int8), intent(in) :: bytes(:)
      integer, intent(inout) :: ierr
    end subroutine
    !> Names the parts of a value, for both directions: the same ones in the same order.
    subroutine reprieve_walk(parts)
      import :: reprieve_parts
      type(reprieve_parts), intent(inout) :: parts
    end subroutine
    !> Prepares for distributed variables, after the others are restored. ierr: 0 on entry.
    subroutine reprieve_prepare(ierr)
      integer, intent(inout) :: ierr
    end subroutine
    !> Writes files, whose paths begin with `prefix`, or reads them; on all ranks at the same time. ierr: 0 on entry.
    subroutine reprieve_files(prefix, restores, ierr)
      character(*), intent(in) :: prefix
      logical, intent(in) :: restores
      integer, intent(inout) :: ierr
    end subroutine
    !> Makes what is new from what is old. ierr: 0 on entry.
    subroutine reprieve_migrate(stored, ierr)
      import :: reprieve_stored_state
      type(reprieve_stored_state), intent(in) :: stored
      integer, intent(inout) :: ierr
    end subroutine
    !> The program's own part of a save: writes files into the directory. ierr: 0 on entry.
    subroutine reprieve_save_files(directory, number, is_chief, ierr)
      import :: int64
      character(*), intent(in) :: directory
      integer(int64), intent(in) :: number
      logical, intent(in) :: is_chief
      integer, intent(inout) :: ierr
    end subroutine
    !> Copies a committed checkpoint elsewhere, for example; on rank 0 alone. ierr: 0 on entry; anything else is a warning.
    subroutine reprieve_after_commit(checkpoint, ierr)
      character(*), intent(in) :: checkpoint
      integer, intent(inout) :: ierr
    end subroutine
    !> The program's own count of steps: the same on all ranks, never falling.
    integer(int64) function reprieve_step()
      import :: int64
    end function
    !> Asked from a thread of the library's own, until it gives a notice; must not call MPI, and must not keep local
    !> variables between calls. noticed: .false. on entry. message: free text. time_left_s: seconds until the end, negative
    !> (as on entry) if they are not known.
    subroutine reprieve_watch(noticed, message, time_left_s)
      import :: real64
      logical, intent(inout) :: noticed
      character(*), intent(inout) :: message
      real(real64), intent(inout) :: time_left_s
    end subroutine
    !> Leaves the process, or returns: then the program continues as if nothing had been noticed. comm: the library's own
    !> communicator of all ranks, as an integer; MPI_Comm(comm) for module mpi_f08. ierr: 0 on entry.
    subroutine reprieve_leave(comm, exit_code, checkpoint, ierr)
      integer, intent(in) :: comm, exit_code
      character(*), intent(in) :: checkpoint
      integer, intent(inout) :: ierr
    end subroutine
    !> Ends the job, since the other ranks never get this rank's error. comm: as in reprieve_leave.
    subroutine reprieve_abort(comm, exit_code)
      integer, intent(in) :: comm, exit_code
    end subroutine
    !> What the ranks that work do. ranks: their communicator, an integer; MPI_Comm(ranks) for module mpi_f08. Each call takes
    !> its ierr, and the procedure returns what it got there: without an ierr an error ends the job. ierr: 0 on entry.
    subroutine reprieve_body(ranks, ierr)
      integer, intent(in) :: ranks
      integer, intent(inout) :: ierr
    end subroutine
  end interface

  !> The procedures of one variable, at an address that C can hand back.
  type :: callbacks
    procedure(reprieve_redistribute), pointer, nopass :: redistribute => null()
    procedure(reprieve_find), pointer, nopass :: find => null()
    procedure(reprieve_describe), pointer, nopass :: describe => null()
    procedure(reprieve_memory), pointer, nopass :: memory => null()
    procedure(reprieve_save), pointer, nopass :: save => null()
    procedure(reprieve_load), pointer, nopass :: load => null()
    procedure(reprieve_walk), pointer, nopass :: walk => null()
    procedure(reprieve_prepare), pointer, nopass :: prepare => null()
    procedure(reprieve_files), pointer, nopass :: files => null()
    procedure(reprieve_migrate), pointer, nopass :: migrate => null()
    procedure(reprieve_save_files), pointer, nopass :: save_files => null()
    procedure(reprieve_after_commit), pointer, nopass :: after_commit => null()
    procedure(reprieve_step), pointer, nopass :: step => null()
    procedure(reprieve_watch), pointer, nopass :: watch => null()
    procedure(reprieve_leave), pointer, nopass :: leave => null()
    procedure(reprieve_abort), pointer, nopass :: abort_job => null()
    procedure(reprieve_body), pointer, nopass :: body => null()
    integer(int8), allocatable :: bytes(:)
    integer(int64), allocatable :: lower(:), extents(:)  !< of `find`: where its array lies, and how large it was
    type(callbacks), pointer :: next => null()  !< of the same owner
  end type

  !> The callbacks of a config, which handlers that were opened with it use when it is gone.
  type :: callback_list
    type(callbacks), pointer :: first => null()
    integer :: users = 0
  end type

contains

  !> New callbacks, owned by the list that begins with `first`.
  function new_callbacks(first) result(calls)
    type(callbacks), pointer, intent(inout) :: first
    type(callbacks), pointer :: calls
    allocate (calls)
    calls%next => first
    first => calls
  end function

  subroutine free_callbacks(first)
    type(callbacks), pointer, intent(inout) :: first
    type(callbacks), pointer :: next
    do while (associated(first))
      next => first%next
      deallocate (first)
      first => next
    end do
  end subroutine

  subroutine hold(list)
    type(callback_list), pointer, intent(in) :: list
    if (associated(list)) list%users = list%users + 1
  end subroutine

  !> The last user frees the callbacks.
  subroutine release(list)
    type(callback_list), pointer, intent(inout) :: list
    if (.not. associated(list)) return
    list%users = list%users - 1
    if (list%users == 0) then
      call free_callbacks(list%first)
      deallocate (list)
    end if
    list => null()
  end subroutine

  ! -----------------------------------------------------------------------------------------------------------------
  ! What the procedures get.

  integer function pieces_count(self)
    class(reprieve_pieces), intent(in) :: self
    pieces_count = c_pieces_count(self%handle)
  end function

  !> saved_rank counts from 0, as ranks do.
  integer(int64) function pieces_size_bytes(self, saved_rank, ierr)
    class(reprieve_pieces), intent(in) :: self
    integer, intent(in) :: saved_rank
    integer, intent(out), optional :: ierr
    integer(c_size_t) :: bytes
    integer :: status
    status = c_pieces_size(self%handle, int(saved_rank, c_int), bytes)
    pieces_size_bytes = -1
    if (status == reprieve_ok) pieces_size_bytes = bytes
    call reprieve_finish(status, ierr)
  end function

  subroutine pieces_read(self, saved_rank, value, ierr)
    class(reprieve_pieces), intent(in) :: self
    integer, intent(in) :: saved_rank
    type(*), dimension(..), target, intent(inout) :: value
    integer, intent(out), optional :: ierr
    call reprieve_finish(c_fortran_pieces_read(self%handle, int(saved_rank, c_int), value), ierr)
  end subroutine

  subroutine pieces_walk(self, saved_rank, walk, ierr)
    class(reprieve_pieces), intent(in) :: self
    integer, intent(in) :: saved_rank
    procedure(reprieve_walk) :: walk
    integer, intent(out), optional :: ierr
    type(callbacks), target :: calls
    calls%walk => walk
    call reprieve_finish(c_pieces_walk(self%handle, int(saved_rank, c_int), c_funloc(call_walk), c_loc(calls)), ierr)
  end subroutine

  subroutine boxes_add_i8(self, value, lower)
    class(reprieve_boxes), intent(inout) :: self
    type(reprieve_array), intent(in) :: value
    integer(int64), intent(in) :: lower(:)
    if (self%status == reprieve_ok) then
      self%status = add_box(self%handle, value, lower)
    end if
  end subroutine

  integer(c_int) function add_box(boxes, value, lower) result(status)
    type(c_ptr), intent(in) :: boxes
    type(reprieve_array), intent(in) :: value
    integer(int64), intent(in) :: lower(:)
    status = check_array(c_null_ptr, 'in a list of boxes', value, size(lower))
    if (status == reprieve_ok) status = c_boxes_add(boxes, value%data, c_offset(value, lower), value%shape, value%strides)
  end function

  subroutine boxes_add_i4(self, value, lower)
    class(reprieve_boxes), intent(inout) :: self
    type(reprieve_array), intent(in) :: value
    integer(int32), intent(in) :: lower(:)
    call self%boxes_add_i8(value, int(lower, int64))
  end subroutine

  subroutine list_set(self, array)
    class(reprieve_list), intent(inout) :: self
    type(reprieve_array), intent(in) :: array
    integer(int64) :: bytes
    integer :: d
    self%was_set = .true.
    self%status = check_array(c_null_ptr, 'a list', array)
    if (self%status /= reprieve_ok) return
    if (array%rank == 0) then
      self%status = c_registration_error(c_null_ptr, c_text('a list is an array, of which the last dimension counts the items'))
      return
    end if
    bytes = merge(array%element_bytes, 1_int64, array%dimensions == array%rank)
    do d = array%dimensions, 1, -1
      if (array%shape(d) > 1 .and. array%strides(d) /= bytes) then
        self%status = c_registration_error(c_null_ptr, c_text('a list must be contiguous: pass the array itself, not '// &
                                                              'every other element of it'))
        return
      end if
      bytes = array%strides(d)*array%shape(d)
    end do
    self%type = array%type
    self%item_elements = product(array%shape(2:array%dimensions))
    self%data = array%data
    self%count = array%shape(1)
  end subroutine

  logical function parts_restores(self)
    class(reprieve_parts), intent(in) :: self
    parts_restores = c_walk_restores(self%handle) == 1
  end function

  subroutine parts_value(self, name, value)
    class(reprieve_parts), intent(inout) :: self
    character(*), intent(in) :: name
    type(*), dimension(..), target, intent(inout) :: value
    if (self%status == reprieve_ok) self%status = check_array(c_null_ptr, name, c_fortran_view(value))
    if (self%status == reprieve_ok) self%status = c_fortran_walk_value(self%handle, c_text(name), value)
  end subroutine

#include <parts_calls.inc>

  logical function stored_contains(self, name)
    class(reprieve_stored_state), intent(in) :: self
    character(*), intent(in) :: name
    stored_contains = c_stored_contains(self%handle, c_text(name)) == 1
  end function

  subroutine stored_read(self, name, value, ierr)
    class(reprieve_stored_state), intent(in) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: value
    integer, intent(out), optional :: ierr
    integer :: status
    status = check_array(c_null_ptr, name, value)
    if (status == reprieve_ok) then
      status = c_stored_read(self%handle, c_text(name), value%type, value%data, value%dimensions, value%shape, value%strides)
    end if
    call reprieve_finish(status, ierr)
  end subroutine

  !> Arguments as in add_distributed of reprieve_checkpoint; the part may be any, whatever this rank had.
  subroutine stored_read_distributed_i8(self, name, value, global_shape, lower, ierr)
    class(reprieve_stored_state), intent(in) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: value
    integer(int64), intent(in) :: global_shape(:), lower(:)
    integer, intent(out), optional :: ierr
    integer :: status
    status = check_part(c_null_ptr, name, value, global_shape, lower)
    if (status == reprieve_ok) then
      status = c_stored_read_distributed(self%handle, c_text(name), value%type, value%data, value%dimensions, &
          c_shape(value, global_shape), c_offset(value, lower), value%shape, value%strides)
    end if
    call reprieve_finish(status, ierr)
  end subroutine

  subroutine stored_read_distributed_i4(self, name, value, global_shape, lower, ierr)
    class(reprieve_stored_state), intent(in) :: self
    character(*), intent(in) :: name
    type(reprieve_array), intent(in) :: value
    integer(int32), intent(in) :: global_shape(:), lower(:)
    integer, intent(out), optional :: ierr
    call self%stored_read_distributed_i8(name, value, int(global_shape, int64), int(lower, int64), ierr)
  end subroutine

  !> A redistribution for lists: those of all ranks, one after the other, are cut into parts as even as possible.
  subroutine reprieve_in_order(pieces, rank, size, ierr)
    type(reprieve_pieces), intent(inout) :: pieces
    integer, intent(in) :: rank, size
    integer, intent(inout) :: ierr
    ierr = c_in_order(pieces%handle, int(rank, c_int), int(size, c_int), c_null_ptr)
  end subroutine

  ! -----------------------------------------------------------------------------------------------------------------
  ! What C calls. `user` is the address of the callbacks. Names of their own in C only where C names them.

  !> Text for an error of a callback, if the procedure did not leave one that is better.
  integer(c_int) function status_of(ierr, status)
    integer, intent(in) :: ierr     !< of the procedure
    integer, intent(in) :: status   !< of a call that it made to this library
    status_of = reprieve_ok
    if (status /= reprieve_ok) then
      status_of = c_callback_error(c_text(reprieve_error_message()))
    else if (ierr /= 0) then
      status_of = int(ierr, c_int)
    end if
  end function

  integer(c_int) function call_redistribute(pieces, rank, size, user) bind(c, name='')
    type(c_ptr), value :: pieces, user
    integer(c_int), value :: rank, size
    type(callbacks), pointer :: calls
    type(reprieve_pieces) :: shown
    integer :: ierr
    call c_f_pointer(user, calls)
    shown%handle = pieces
    ierr = 0
    call calls%redistribute(shown, int(rank), int(size), ierr)
    call_redistribute = status_of(ierr, reprieve_ok)
  end function

  !> One box, in the array that is found; its size must be what it was when it was registered.
  integer(c_int) function call_find(boxes, user) bind(c, name='')
    type(c_ptr), value :: boxes, user
    type(callbacks), pointer :: calls
    type(reprieve_array) :: found
    call c_f_pointer(user, calls)
    found = calls%find()
    if (found%rank /= size(calls%extents)) then
      call_find = c_callback_error(c_text('the array has another number of dimensions than when it was registered'))
    else if (any(found%shape(found%rank:1:-1) /= calls%extents)) then
      call_find = c_callback_error(c_text('it was registered with an array of '//shape_text(calls%extents)// &
                                          ' elements, but the array has '//shape_text(found%shape(found%rank:1:-1))//' now'))
    else
      call_find = add_box(boxes, found, calls%lower)
    end if
  end function

  integer(c_int) function call_describe(boxes, user) bind(c, name='')
    type(c_ptr), value :: boxes, user
    type(callbacks), pointer :: calls
    type(reprieve_boxes) :: shown
    call c_f_pointer(user, calls)
    shown%handle = boxes
    call calls%describe(shown)
    call_describe = status_of(0, shown%status)
  end function

  integer(c_int) function call_memory(wanted, data, count, user) bind(c, name='')
    integer(c_int64_t), value :: wanted
    type(c_ptr), intent(out) :: data
    integer(c_int64_t), intent(out) :: count
    type(c_ptr), value :: user
    type(callbacks), pointer :: calls
    type(reprieve_list) :: list
    call c_f_pointer(user, calls)
    call calls%memory(list, wanted)
    data = list%data
    count = list%count
    call_memory = status_of(0, list%status)
    if (.not. list%was_set) call_memory = c_callback_error(c_text('list%set was not called'))
  end function

  integer(c_int) function call_save(bytes, size_bytes, user) bind(c, name='')
    type(c_ptr), intent(out) :: bytes
    integer(c_size_t), intent(out) :: size_bytes
    type(c_ptr), value :: user
    type(callbacks), pointer :: calls
    call c_f_pointer(user, calls)
    call calls%save(calls%bytes)
    call_save = reprieve_ok
    bytes = c_null_ptr
    size_bytes = 0
    if (.not. allocated(calls%bytes)) then
      call_save = c_callback_error(c_text('the bytes were not allocated'))
    else if (size(calls%bytes) > 0) then
      bytes = c_loc(calls%bytes)
      size_bytes = size(calls%bytes, kind=c_size_t)
    end if
  end function

  integer(c_int) function call_load(bytes, size_bytes, user) bind(c, name='')
    type(c_ptr), value :: bytes, user
    integer(c_size_t), value :: size_bytes
    type(callbacks), pointer :: calls
    integer(int8), pointer :: values(:)
    integer(int8), target :: nothing(0)
    integer :: ierr
    call c_f_pointer(user, calls)
    values => nothing
    if (size_bytes > 0) call c_f_pointer(bytes, values, [size_bytes])
    ierr = 0
    call calls%load(values, ierr)
    call_load = status_of(ierr, reprieve_ok)
  end function

  integer(c_int) function call_walk(walk, user) bind(c, name='')
    type(c_ptr), value :: walk, user
    type(callbacks), pointer :: calls
    type(reprieve_parts) :: shown
    call c_f_pointer(user, calls)
    shown%handle = walk
    call calls%walk(shown)
    call_walk = status_of(0, shown%status)
  end function

  integer(c_int) function call_prepare(user) bind(c, name='')
    type(c_ptr), value :: user
    type(callbacks), pointer :: calls
    integer :: ierr
    call c_f_pointer(user, calls)
    ierr = 0
    call calls%prepare(ierr)
    call_prepare = status_of(ierr, reprieve_ok)
  end function

  integer(c_int) function call_files(prefix, restores, user) bind(c, name='')
    type(c_ptr), value :: prefix, user
    integer(c_int), value :: restores
    type(callbacks), pointer :: calls
    integer :: ierr
    call c_f_pointer(user, calls)
    ierr = 0
    call calls%files(text_of(prefix), restores /= 0, ierr)
    call_files = status_of(ierr, reprieve_ok)
  end function

  integer(c_int) function call_migrate(stored, user) bind(c, name='')
    type(c_ptr), value :: stored, user
    type(callbacks), pointer :: calls
    type(reprieve_stored_state) :: shown
    integer :: ierr
    call c_f_pointer(user, calls)
    shown%handle = stored
    ierr = 0
    call calls%migrate(shown, ierr)
    call_migrate = status_of(ierr, reprieve_ok)
  end function

  integer(c_int) function call_save_files(directory, number, is_chief, user) bind(c, name='')
    type(c_ptr), value :: directory, user
    integer(c_int64_t), value :: number
    integer(c_int), value :: is_chief
    type(callbacks), pointer :: calls
    integer :: ierr
    call c_f_pointer(user, calls)
    ierr = 0
    call calls%save_files(text_of(directory), number, is_chief /= 0, ierr)
    call_save_files = status_of(ierr, reprieve_ok)
  end function

  integer(c_int) function call_after_commit(checkpoint, user) bind(c, name='')
    type(c_ptr), value :: checkpoint, user
    type(callbacks), pointer :: calls
    integer :: ierr
    call c_f_pointer(user, calls)
    ierr = 0
    call calls%after_commit(text_of(checkpoint), ierr)
    call_after_commit = status_of(ierr, reprieve_ok)
  end function

  integer(c_int64_t) function call_step(user) bind(c, name='')
    type(c_ptr), value :: user
    type(callbacks), pointer :: calls
    call c_f_pointer(user, calls)
    call_step = calls%step()
  end function

  !> On another thread: all that it needs is on its stack.
  recursive integer(c_int) function call_watch(message, message_size, time_left_s, user) bind(c, name='')
    type(c_ptr), value :: message, user
    integer(c_size_t), value :: message_size
    real(c_double), intent(inout) :: time_left_s
    type(callbacks), pointer :: calls
    character(kind=c_char), pointer :: buffer(:)
    character(message_size - 1) :: text
    logical :: noticed
    integer :: i
    call c_f_pointer(user, calls)
    call c_f_pointer(message, buffer, [message_size])
    text = ''
    noticed = .false.
    call calls%watch(noticed, text, time_left_s)
    do i = 1, len_trim(text)
      buffer(i) = text(i:i)
    end do
    buffer(len_trim(text) + 1) = c_null_char
    call_watch = merge(1_c_int, 0_c_int, noticed)
  end function

  integer(c_int) function call_leave(comm, exit_code, checkpoint, user) bind(c, name='reprieve_fortran_call_leave')
    integer(c_int), value :: comm, exit_code
    type(c_ptr), value :: checkpoint, user
    type(callbacks), pointer :: calls
    integer :: ierr
    call c_f_pointer(user, calls)
    ierr = 0
    call calls%leave(int(comm), int(exit_code), text_of(checkpoint), ierr)
    call_leave = status_of(ierr, reprieve_ok)
  end function

  subroutine call_abort(comm, exit_code, user) bind(c, name='reprieve_fortran_call_abort')
    integer(c_int), value :: comm, exit_code
    type(c_ptr), value :: user
    type(callbacks), pointer :: calls
    call c_f_pointer(user, calls)
    call calls%abort_job(int(comm), int(exit_code))
  end subroutine

  integer(c_int) function call_body(ranks, user) bind(c, name='reprieve_fortran_call_body')
    integer(c_int), value :: ranks
    type(c_ptr), value :: user
    type(callbacks), pointer :: calls
    integer :: ierr
    call c_f_pointer(user, calls)
    ierr = 0
    call calls%body(int(ranks), ierr)
    call_body = int(ierr, c_int)
  end function

end module
