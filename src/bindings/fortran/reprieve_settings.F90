! SPDX-License-Identifier: BSD-3-Clause
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
    type(callback_list), pointer, public :: owned => null()  !< for handlers
  contains
    procedure :: load_file => config_load_file  !< load_file(path): replaces all settings but procedures by those of JSON
    procedure :: load_json => config_load_json  !< load_json(json)
    procedure :: set => config_set  !< overrides one setting: call config%set('termination.grace_period_s', '30')
    !> Overrides settings by the environment variables REPRIEVE_... now: what is set afterwards goes before them.
    procedure :: apply_environment => config_apply_environment
    procedure :: read_environment => config_read_environment
    procedure :: set_exit => config_set_exit  !< set_exit(way): reprieve_exit_leave, reprieve_exit_return, ...
    procedure :: set_exit_fn => config_set_exit_fn
    !> set_save_fn(save): the program's own part of a save, called on every rank before the commit.
    procedure :: set_save_fn => config_set_save_fn
    !> set_step_fn(step): the program's own count of steps: it names the checkpoints, and `termination.save_every_steps`
    !> counts in it.
    procedure :: set_step_fn => config_set_step_fn
    !> set_watcher_fn(watch): asked every `termination.poll_interval_s` whether the job is about to end.
    procedure :: set_watcher_fn => config_set_watcher_fn
    procedure :: set_abort_fn => config_set_abort_fn
    !> set_after_commit_fn(after_commit): called on rank 0 after each commit; it must not call MPI.
    procedure :: set_after_commit_fn => config_set_after_commit_fn
    procedure :: json => config_json
    procedure :: destroy => config_destroy
  end type

contains

  subroutine create(self)
    class(reprieve_config), intent(inout) :: self
    if (c_associated(self%handle)) return
    call reprieve_finish(c_config_create(self%handle))
    allocate (self%owned)
    call hold(self%owned)
  end subroutine

  !> For the next procedure.
  function new_calls(self) result(calls)
    class(reprieve_config), intent(inout) :: self
    type(callbacks), pointer :: calls
    call create(self)
    calls => new_callbacks(self%owned%first)
  end function

  !> Whether the variables REPRIEVE_... of rank 0 go before these settings (.true., the default), or are not read.
  subroutine config_read_environment(self, read, ierr)
    class(reprieve_config), intent(inout) :: self
    logical, intent(in) :: read
    integer, intent(out), optional :: ierr
    call create(self)
    call reprieve_finish(c_config_read_environment(self%handle, merge(1_c_int, 0_c_int, read)), ierr)
  end subroutine

  ! Procedures are used as long as the config is there, and handlers that were opened with it are open. Without a
  ! procedure: none.

  !> A way to leave of the program's own, called on every rank after the last save; overrides set_exit.
  subroutine config_set_exit_fn(self, leave, ierr)
    class(reprieve_config), intent(inout) :: self
    procedure(reprieve_leave), optional :: leave
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    calls => new_calls(self)
    if (present(leave)) calls%leave => leave
    call reprieve_finish(c_fortran_config_set_exit_fn(self%handle, merge(c_loc(calls), c_null_ptr, present(leave))), ierr)
  end subroutine

  !> Called on a rank that failed, if its error never reaches the others: they are stuck in a collective call of the
  !> program. Should end the job; the default is MPI_Abort.
  subroutine config_set_abort_fn(self, abort_job, ierr)
    class(reprieve_config), intent(inout) :: self
    procedure(reprieve_abort), optional :: abort_job
    integer, intent(out), optional :: ierr
    type(callbacks), pointer :: calls
    calls => new_calls(self)
    if (present(abort_job)) calls%abort_job => abort_job
    call reprieve_finish(c_fortran_config_set_abort_fn(self%handle, merge(c_loc(calls), c_null_ptr, present(abort_job))), ierr)
  end subroutine

  !> All settings as JSON text.
  function config_json(self) result(json)
    class(reprieve_config), intent(inout) :: self
    character(:), allocatable :: json
    call create(self)
    json = text_of(c_config_json(self%handle))
  end function

  subroutine config_destroy(self, ierr)
    class(reprieve_config), intent(inout) :: self
    integer, intent(out), optional :: ierr
    integer :: status
    status = c_config_destroy(self%handle)
    call release(self%owned)
    call reprieve_finish(status, ierr)
  end subroutine

! What only hands its arguments to C: see c_interface.cmake.
#include <config_calls.inc>

end module
