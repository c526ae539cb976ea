!> The C functions that module reprieve is made of. Private to it.
module reprieve_c
  use, intrinsic :: iso_c_binding
  implicit none
  public

  integer, parameter, private :: max_rank = 15

  !> Where an array lies; reprieve_array of descriptors.h. Made by reprieve_view.
  type, bind(c) :: reprieve_array
    type(c_ptr) :: data = c_null_ptr
    integer(c_int64_t) :: element_bytes = 0
    integer(c_int32_t) :: type = 0, rank = 0
    integer(c_int64_t) :: extents(max_rank) = 0, strides_bytes(max_rank) = 0
  end type

  interface
    !> A scalar, an array or a section of it, of any type and rank, as what is registered. The library keeps the address.
    type(reprieve_array) function reprieve_view(value) bind(c, name='reprieve_fortran_view')
      import
      type(*), dimension(..), target, intent(inout) :: value
    end function

    function c_strlen(text) bind(c, name='strlen')
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: c_strlen
    end function

    ! Errors.
    function reprieve_last_error_message() bind(c)
      import
      type(c_ptr) :: reprieve_last_error_message
    end function
    integer(c_int) function reprieve_last_error_origin_rank() bind(c)
      import
    end function
    function reprieve_status_name(status) bind(c)
      import
      integer(c_int), value :: status
      type(c_ptr) :: reprieve_status_name
    end function
    integer(c_int) function c_callback_error(message) bind(c, name='reprieve_callback_error')
      import
      character(kind=c_char), intent(in) :: message(*)
    end function
    function c_version() bind(c, name='reprieve_version')
      import
      type(c_ptr) :: c_version
    end function

    ! The state.
    integer(c_int) function reprieve_checkpoint_create(checkpoint) bind(c)
      import
      type(c_ptr), intent(out) :: checkpoint
    end function
    integer(c_int) function reprieve_checkpoint_destroy(checkpoint) bind(c)
      import
      type(c_ptr), intent(inout) :: checkpoint
    end function
    integer(c_int) function reprieve_fortran_add_replicated(checkpoint, name, value) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      type(reprieve_array), intent(in) :: value
    end function
    integer(c_int) function reprieve_fortran_add_per_rank(checkpoint, name, value, redistribute, user) bind(c)
      import
      type(c_ptr), value :: checkpoint, user
      character(kind=c_char), intent(in) :: name(*)
      type(reprieve_array), intent(in) :: value
      type(c_funptr), value :: redistribute
    end function
    integer(c_int) function reprieve_fortran_add_distributed(checkpoint, name, value, count, global_shape, lower) &
        bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      type(reprieve_array), intent(in) :: value
      integer(c_int), value :: count
      integer(c_int64_t), intent(in) :: global_shape(*), lower(*)
    end function
    integer(c_int) function reprieve_fortran_add_distributed_boxes(checkpoint, name, mold, count, global_shape, &
        describe, user) bind(c)
      import
      type(c_ptr), value :: checkpoint, user
      character(kind=c_char), intent(in) :: name(*)
      type(reprieve_array), intent(in) :: mold
      integer(c_int), value :: count
      integer(c_int64_t), intent(in) :: global_shape(*)
      type(c_funptr), value :: describe
    end function
    integer(c_int) function reprieve_fortran_boxes_add(boxes, value, count, lower) bind(c)
      import
      type(c_ptr), value :: boxes
      type(reprieve_array), intent(in) :: value
      integer(c_int), value :: count
      integer(c_int64_t), intent(in) :: lower(*)
    end function
    integer(c_int) function reprieve_fortran_describe_list(value, type, item_elements, data, count) bind(c)
      import
      type(reprieve_array), intent(in) :: value
      integer(c_int), intent(out) :: type
      integer(c_int64_t), intent(out) :: item_elements, count
      type(c_ptr), intent(out) :: data
    end function
    integer(c_int) function reprieve_add_replicated_resizable(checkpoint, name, type, item_elements, memory, user) &
        bind(c)
      import
      type(c_ptr), value :: checkpoint, user
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: type
      integer(c_int64_t), value :: item_elements
      type(c_funptr), value :: memory
    end function
    integer(c_int) function reprieve_add_per_rank_resizable(checkpoint, name, type, item_elements, memory, &
        redistribute, user) bind(c)
      import
      type(c_ptr), value :: checkpoint, user
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: type
      integer(c_int64_t), value :: item_elements
      type(c_funptr), value :: memory, redistribute
    end function
    integer(c_int) function reprieve_add_replicated_custom(checkpoint, name, save, load, user) bind(c)
      import
      type(c_ptr), value :: checkpoint, user
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr), value :: save, load
    end function
    integer(c_int) function reprieve_add_per_rank_custom(checkpoint, name, save, load, redistribute, user) bind(c)
      import
      type(c_ptr), value :: checkpoint, user
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr), value :: save, load, redistribute
    end function
    integer(c_int) function reprieve_registration_error(checkpoint, message) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: message(*)
    end function
    integer(c_int) function reprieve_add_component(checkpoint, name, part) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(inout) :: part
    end function
    integer(c_int) function reprieve_when_values_restored(checkpoint, prepare, user) bind(c)
      import
      type(c_ptr), value :: checkpoint, user
      type(c_funptr), value :: prepare
    end function
    integer(c_int) function reprieve_allow_missing(checkpoint, name) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function reprieve_allow_shared(checkpoint, name) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function reprieve_add_former_name(checkpoint, name, former) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*), former(*)
    end function
    integer(c_int) function reprieve_allow_dropped(checkpoint, name) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function reprieve_add_constant(checkpoint, name, value) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*), value(*)
    end function
    integer(c_int) function reprieve_add_constant_integer(checkpoint, name, value) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: value
    end function
    integer(c_int) function reprieve_add_constant_real(checkpoint, name, value) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: value
    end function
    integer(c_int) function reprieve_add_constant_file(checkpoint, name, file) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*), file(*)
    end function
    integer(c_int) function reprieve_annotate(checkpoint, name, units, description, dimensions, dims) bind(c)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*), units(*), description(*)
      integer(c_int), value :: dimensions
      type(c_ptr), intent(in) :: dims(*)
    end function
    integer(c_int) function reprieve_on_migration(checkpoint, migrate, user) bind(c)
      import
      type(c_ptr), value :: checkpoint, user
      type(c_funptr), value :: migrate
    end function
    integer(c_int) function reprieve_stored_contains(stored, name) bind(c)
      import
      type(c_ptr), value :: stored
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function reprieve_fortran_stored_read(stored, name, value) bind(c)
      import
      type(c_ptr), value :: stored
      character(kind=c_char), intent(in) :: name(*)
      type(reprieve_array), intent(in) :: value
    end function
    integer(c_int) function reprieve_fortran_stored_read_distributed(stored, name, value, count, global_shape, lower) &
        bind(c)
      import
      type(c_ptr), value :: stored
      character(kind=c_char), intent(in) :: name(*)
      type(reprieve_array), intent(in) :: value
      integer(c_int), value :: count
      integer(c_int64_t), intent(in) :: global_shape(*), lower(*)
    end function

    ! Saved pieces.
    integer(c_int) function reprieve_pieces_count(pieces) bind(c)
      import
      type(c_ptr), value :: pieces
    end function
    integer(c_int) function reprieve_pieces_size(pieces, saved_rank, size_bytes) bind(c)
      import
      type(c_ptr), value :: pieces
      integer(c_int), value :: saved_rank
      integer(c_size_t), intent(out) :: size_bytes
    end function
    integer(c_int) function reprieve_fortran_pieces_read(pieces, saved_rank, value) bind(c)
      import
      type(c_ptr), value :: pieces
      integer(c_int), value :: saved_rank
      type(*), dimension(..), target, intent(in) :: value
    end function
    integer(c_int) function c_in_order(pieces, rank, size, user) bind(c, name='reprieve_in_order')
      import
      type(c_ptr), value :: pieces, user
      integer(c_int), value :: rank, size
    end function

    ! Settings.
    integer(c_int) function reprieve_config_create(config) bind(c)
      import
      type(c_ptr), intent(out) :: config
    end function
    integer(c_int) function reprieve_config_destroy(config) bind(c)
      import
      type(c_ptr), intent(inout) :: config
    end function
    integer(c_int) function reprieve_config_load_file(config, path) bind(c)
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: path(*)
    end function
    integer(c_int) function reprieve_config_load_json(config, json) bind(c)
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: json(*)
    end function
    integer(c_int) function reprieve_config_set(config, key, value) bind(c)
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: key(*), value(*)
    end function
    integer(c_int) function reprieve_config_apply_environment(config) bind(c)
      import
      type(c_ptr), value :: config
    end function
    integer(c_int) function reprieve_config_read_environment(config, read) bind(c)
      import
      type(c_ptr), value :: config
      integer(c_int), value :: read
    end function
    function reprieve_config_json(config) bind(c)
      import
      type(c_ptr), value :: config
      type(c_ptr) :: reprieve_config_json
    end function
    integer(c_int) function reprieve_config_set_exit(config, way) bind(c)
      import
      type(c_ptr), value :: config
      integer(c_int), value :: way
    end function
    integer(c_int) function reprieve_config_set_save_fn(config, save, user) bind(c)
      import
      type(c_ptr), value :: config, user
      type(c_funptr), value :: save
    end function
    integer(c_int) function reprieve_config_set_step_fn(config, step, user) bind(c)
      import
      type(c_ptr), value :: config, user
      type(c_funptr), value :: step
    end function
    integer(c_int) function reprieve_config_set_watcher_fn(config, watcher, user) bind(c)
      import
      type(c_ptr), value :: config, user
      type(c_funptr), value :: watcher
    end function
    !> Null for user: none. Otherwise the procedure is that of the callbacks at this address.
    integer(c_int) function reprieve_fortran_config_set_exit_fn(config, user) bind(c)
      import
      type(c_ptr), value :: config, user
    end function
    integer(c_int) function reprieve_fortran_config_set_abort_fn(config, user) bind(c)
      import
      type(c_ptr), value :: config, user
    end function
  end interface

contains

  !> A text of C's as one of Fortran's; empty if it is null.
  function text_of(c_text) result(text)
    type(c_ptr), intent(in) :: c_text
    character(:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    integer :: i
    if (.not. c_associated(c_text)) then
      text = ''
      return
    end if
    call c_f_pointer(c_text, characters, [c_strlen(c_text)])
    allocate (character(size(characters)) :: text)
    do i = 1, size(characters)
      text(i:i) = characters(i)
    end do
  end function

  !> "3 x 5"
  function shape_text(extents) result(text)
    integer(c_int64_t), intent(in) :: extents(:)
    character(:), allocatable :: text
    character(20) :: number
    integer :: d
    text = ''
    do d = 1, size(extents)
      write (number, '(i0)') extents(d)
      if (d > 1) text = text//' x '
      text = text//trim(number)
    end do
  end function

  !> What is wrong with arguments that say where a distributed variable lies.
  pure function shapes_differ(name) result(problem)
    character(*), intent(in) :: name
    character(:, kind=c_char), allocatable :: problem
    problem = c_text("variable '"//trim(name)//"': the global shape and the lower bounds must have one number for each "// &
                     'dimension')
  end function

  !> A text of Fortran's, without the blanks at its end, as one of C's.
  pure function c_text(text)
    character(*), intent(in) :: text
    character(len_trim(text) + 1, kind=c_char) :: c_text
    c_text = trim(text)//c_null_char
  end function

end module
