!> Settings: type reprieve_config. Use module reprieve.
module reprieve_settings
  use, intrinsic :: iso_c_binding
  use reprieve_c
  use reprieve_callbacks
  use reprieve_errors
  implicit none
  private

  public :: reprieve_config

  !> Settings; configs/README.md lists the keys.
  type :: reprieve_config
    private
    type(c_ptr), public :: handle = c_null_ptr  !< for C
    type(callbacks), pointer :: owned => null()
  contains
    procedure :: load_file => config_load_file
    procedure :: load_json => config_load_json
    procedure :: set => config_set
    procedure :: apply_environment => config_apply_environment
    procedure :: set_exit => config_set_exit
    procedure :: set_save_fn => config_set_save_fn
    procedure :: json => config_json
    procedure :: destroy => config_destroy
  end type

contains

  subroutine create(self)
    class(reprieve_config), intent(inout) :: self
    if (.not. c_associated(self%handle)) call reprieve_finish(reprieve_config_create(self%handle))
  end subroutine

  !> Replaces all settings by those of a JSON file; procedures stay.
  subroutine config_load_file(self, path, ierr)
    class(reprieve_config), intent(inout) :: self
    character(*), intent(in) :: path
    integer, intent(out), optional :: ierr
    call create(self)
    call reprieve_finish(reprieve_config_load_file(self%handle, c_text(path)), ierr)
  end subroutine

  subroutine config_load_json(self, json, ierr)
    class(reprieve_config), intent(inout) :: self
    character(*), intent(in) :: json
    integer, intent(out), optional :: ierr
    call create(self)
    call reprieve_finish(reprieve_config_load_json(self%handle, c_text(json)), ierr)
  end subroutine

  !> Overrides one setting: call config%set('termination.grace_period_s', '30')
  subroutine config_set(self, key, value, ierr)
    class(reprieve_config), intent(inout) :: self
    character(*), intent(in) :: key, value
    integer, intent(out), optional :: ierr
    call create(self)
    call reprieve_finish(reprieve_config_set(self%handle, c_text(key), c_text(value)), ierr)
  end subroutine

  !> Overrides settings by the environment variables REPRIEVE_...
  subroutine config_apply_environment(self, ierr)
    class(reprieve_config), intent(inout) :: self
    integer, intent(out), optional :: ierr
    call create(self)
    call reprieve_finish(reprieve_config_apply_environment(self%handle), ierr)
  end subroutine

  !> way: reprieve_exit_leave, reprieve_exit_return, ...
  subroutine config_set_exit(self, way, ierr)
    class(reprieve_config), intent(inout) :: self
    integer, intent(in) :: way
    integer, intent(out), optional :: ierr
    call create(self)
    call reprieve_finish(reprieve_config_set_exit(self%handle, int(way, c_int)), ierr)
  end subroutine

  !> The program's own part of a save. The procedure is used until the config is destroyed, which must be after the handler
  !> is closed.
  subroutine config_set_save_fn(self, save, ierr)
    class(reprieve_config), intent(inout) :: self
    procedure(reprieve_save_files) :: save
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    call create(self)
    calls => new_callbacks(self%owned)
    calls%save_files => save
    call reprieve_finish(reprieve_config_set_save_fn(self%handle, c_funloc(call_save_files), c_loc(calls)), ierr)
  end subroutine

  !> All settings as JSON text.
  function config_json(self) result(json)
    class(reprieve_config), intent(inout) :: self
    character(:), allocatable :: json
    call create(self)
    json = text_of(reprieve_config_json(self%handle))
  end function

  subroutine config_destroy(self, ierr)
    class(reprieve_config), intent(inout) :: self
    integer, intent(out), optional :: ierr
    integer :: status
    status = reprieve_config_destroy(self%handle)
    call free_callbacks(self%owned)
    call reprieve_finish(status, ierr)
  end subroutine

end module
