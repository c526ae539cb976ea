! SPDX-License-Identifier: BSD-3-Clause
!> The time loop: type reprieve_handler; reprieve_manager; and what these two report. Use module reprieve.
module reprieve_loop
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
#ifdef REPRIEVE_HAVE_MPI_F08
  use mpi_f08, only: MPI_Comm
#endif
  use reprieve_c
  use reprieve_callbacks, only: callback_list, callbacks, hold, release, reprieve_body
  use reprieve_errors
  use reprieve_settings
  use reprieve_state
  implicit none
  private

  public :: reprieve_checkpoint_info, reprieve_save_report, reprieve_notice
  public :: reprieve_handler, reprieve_manager, reprieve_watch_signals, reprieve_unwatch_signals, reprieve_run_resilient

  !> For next_step: the program leaves the loop by itself.
  integer(int64), parameter, public :: reprieve_no_limit = huge(1_int64)

  !> What is known about a checkpoint.
  type :: reprieve_checkpoint_info
    character(:), allocatable :: path
    integer(int64) :: number = 0      !< from the file name
    integer(int64) :: run_calls = 0   !< total_run_calls() at the save; -1 if no handler lived then
    integer :: world_size = 0         !< ranks that saved
    real(real64) :: time_s = 0        !< of the save, in seconds since 1970
    integer(int64) :: size_bytes = 0  !< of the file
    character(:), allocatable :: reason           !< 'user', 'periodic' or 'preemption'
    character(:), allocatable :: files_directory  !< rank 0's files of the save procedure; empty if there are none
  end type

  !> Figures of a save.
  type :: reprieve_save_report
    character(:), allocatable :: path
    integer(int64) :: number = 0
    integer(int64) :: size_bytes = 0       !< of the state, all ranks together
    real(real64) :: seconds = 0            !< to the commit, the slowest rank's
    real(real64) :: blocked_seconds = 0    !< for how much of that the program stood still
  end type

  !> What a rank learned about the end of the job.
  type :: reprieve_notice
    integer :: rank = -1
    character(:), allocatable :: host, source, message
    logical :: has_deadline = .false.
    real(real64) :: time_left_s = 0
  end type

  !> Coordinates all ranks to save one checkpoint when any of them is about to be taken away.
  type :: reprieve_handler
    type(c_ptr), private :: handle = c_null_ptr
    type(callback_list), pointer, private :: procedures => null()  !< those of the config
  contains
    procedure, private :: open_integer
#ifdef REPRIEVE_HAVE_MPI_F08
    procedure, private :: open_f08
    generic :: open => open_f08
#endif
    generic :: open => open_integer  !< restores the newest valid checkpoint, if there is one
    !> The last step boundary: waits for all ranks, reports what went wrong on any of them, saves the last step,
    !> and marks the run as finished. With a notice it returns too, so that the program can write its results. Collective.
    procedure :: finish => handler_finish
    procedure :: close => handler_close  !< after a complete loop of next_step it does the same; collective
    procedure, private :: next_step_i4, next_step_i8
    generic :: next_step => next_step_i4, next_step_i8  !< once per iteration: do while (handler%next_step(steps))
    procedure :: step_begin         !< a step boundary, after which a step is open; collective
    procedure :: step_end           !< the step that is open is complete; not collective
    procedure :: save_if_preempted  !< a step boundary without a step; collective
    procedure :: scope_begin
    procedure :: scope_end          !< collective
    !> fail(message): this rank cannot continue. Every rank gets reprieve_error_cluster with the message, at its next step
    !> boundary. Returns that as well, or ends the program if ierr is not there.
    procedure :: fail
    procedure :: total_run_calls
    procedure :: preempted
    procedure :: preemption_notice
    procedure :: restored_from     !< whether `open` restored a checkpoint, and which
    procedure :: already_finished  !< whether an earlier run here was finished, at how many steps, and nothing saved since
    procedure :: last_save         !< whether this handler has committed a checkpoint; figures of the latest
    !> Announces steps of another length, above all longer ones: the next boundary asks for notices. Collective.
    procedure :: begin_phase
    procedure :: request_checkpoint  !< at one of the next step boundaries; one rank is enough
    procedure :: exit_code
  end type

  !> The checkpoints of one directory, without a time loop.
  type :: reprieve_manager
    type(c_ptr), private :: handle = c_null_ptr
  contains
    procedure, private :: manager_open_integer
#ifdef REPRIEVE_HAVE_MPI_F08
    procedure, private :: manager_open_f08
    generic :: open => manager_open_f08
#endif
    generic :: open => manager_open_integer
    procedure :: close => manager_close  !< collective
    procedure, private :: manager_save_i4, manager_save_i8, manager_save_in_background_i4, manager_save_in_background_i8
    generic :: save => manager_save_i4, manager_save_i8  !< save(number); collective
    !> save_in_background(number) copies the state and returns; a thread writes the copy. It becomes a checkpoint in
    !> finish_background_save, or in the next save, restore or close. Collective.
    generic :: save_in_background => manager_save_in_background_i4, manager_save_in_background_i8
    procedure :: save_next
    procedure :: background_save_pending
    procedure :: background_save_written
    !> Waits for the threads of all ranks, and commits. Nothing if there is nothing to commit. Collective.
    procedure :: finish_background_save => manager_finish_background_save
    procedure :: local_copy
    !> Whether there is a checkpoint, and which: the newest valid one is restored then. Collective.
    procedure :: restore_latest => manager_restore_latest
    procedure :: restore => manager_restore  !< restore(file); collective
    procedure :: latest => manager_latest  !< whether there is a checkpoint, and which is the newest; collective
    procedure :: checkpoints => manager_checkpoints
  end type

contains

  function info_of(c) result(info)
    type(c_checkpoint_info), intent(in) :: c
    type(reprieve_checkpoint_info) :: info
    info%path = text_of(c%path)
    info%number = c%number
    info%run_calls = c%run_calls
    info%world_size = c%world_size
    info%time_s = c%time_s
    info%size_bytes = c%size_bytes
    info%reason = text_of(c%reason)
    info%files_directory = text_of(c%files_directory)
  end function

  function report_of(c) result(report)
    type(c_save_report), intent(in) :: c
    type(reprieve_save_report) :: report
    report = reprieve_save_report(text_of(c%path), c%number, c%size_bytes, c%seconds, c%blocked_seconds)
  end function

  !> First thing in the program, before MPI_Init: a notice that comes while it starts is kept.
  subroutine reprieve_watch_signals(ierr)
    integer, intent(out), optional :: ierr
    call reprieve_finish(c_watch_signals(), ierr)
  end subroutine

  !> Calls the body with the ranks that work; when ranks die, again with those that live. Collective over comm, an integer.
  !> What it needs, and what the body may do: run_resilient.hpp. min_ranks: with fewer the process is left with code 42.
  !> worked: .false. on a rank that was a spare to the end.
  subroutine reprieve_run_resilient(comm, body, spare_ranks, min_ranks, worked, ierr)
    integer, intent(in) :: comm
    procedure(reprieve_body) :: body
    integer, intent(in), optional :: spare_ranks, min_ranks
    logical, intent(out), optional :: worked
    integer, intent(out), optional :: ierr
    type(callbacks), target :: calls
    integer(c_int) :: has_worked, spares, least
    integer :: status
    spares = 0
    least = 1
    has_worked = 0
    if (present(spare_ranks)) spares = int(spare_ranks, c_int)
    if (present(min_ranks)) least = int(min_ranks, c_int)
    calls%body => body
    status = c_fortran_run_resilient(int(comm, c_int), spares, least, c_loc(calls), has_worked)
    if (present(worked)) worked = has_worked == 1
    call reprieve_finish(status, ierr)
  end subroutine

  !> A signal ends the program again, as before.
  subroutine reprieve_unwatch_signals(ierr)
    integer, intent(out), optional :: ierr
    call reprieve_finish(c_unwatch_signals(), ierr)
  end subroutine

  ! -----------------------------------------------------------------------------------------------------------------
  ! The handler.

  !> Collective. directory: of the checkpoints; '' is the setting `directory`.
  subroutine open_integer(self, comm, state, directory, config, ierr)
    class(reprieve_handler), intent(inout) :: self
    integer, intent(in) :: comm
    type(reprieve_checkpoint), intent(inout) :: state
    character(*), intent(in) :: directory
    type(reprieve_config), intent(in), optional :: config
    integer, intent(out), optional :: ierr
    integer :: status
    status = c_fortran_handler_open(int(comm, c_int), state%handle, c_text(directory), handle_of(config), self%handle)
    if (status == reprieve_ok .and. present(config)) then
      self%procedures => config%owned
      call hold(self%procedures)
    end if
    call reprieve_finish(status, ierr)
  end subroutine

#ifdef REPRIEVE_HAVE_MPI_F08
  subroutine open_f08(self, comm, state, directory, config, ierr)
    class(reprieve_handler), intent(inout) :: self
    type(MPI_Comm), intent(in) :: comm
    type(reprieve_checkpoint), intent(inout) :: state
    character(*), intent(in) :: directory
    type(reprieve_config), intent(in), optional :: config
    integer, intent(out), optional :: ierr
    call self%open_integer(comm%mpi_val, state, directory, config, ierr)
  end subroutine
#endif

  type(c_ptr) function handle_of(config)
    type(reprieve_config), intent(in), optional :: config
    handle_of = c_null_ptr
    if (present(config)) handle_of = config%handle
  end function

  !> Reports what went wrong on any rank since the last boundary. Collective.
  subroutine handler_close(self, ierr)
    class(reprieve_handler), intent(inout) :: self
    integer, intent(out), optional :: ierr
    integer :: status
    status = c_handler_close(self%handle)
    if (.not. c_associated(self%handle)) call release(self%procedures)
    call reprieve_finish(status, ierr)
  end subroutine

  !> Ends the step before, then begins the next one, unless `steps` are done. The begin is a step boundary: if all ranks
  !> have agreed that this is the save step, the state is saved, and the process left. Collective.
  logical function next_step_i8(self, steps, ierr)
    class(reprieve_handler), intent(inout) :: self
    integer(int64), intent(in) :: steps
    integer, intent(out), optional :: ierr
    integer(c_int) :: status
    next_step_i8 = c_next_step(self%handle, steps, status) == 1
    call reprieve_finish(status, ierr)
  end function

  logical function next_step_i4(self, steps, ierr)
    class(reprieve_handler), intent(inout) :: self
    integer(int32), intent(in) :: steps
    integer, intent(out), optional :: ierr
    next_step_i4 = self%next_step_i8(int(steps, int64), ierr)
  end function

  !> Until scope_end a scope is open. mode: what step boundaries do in it when the job is about to end. With
  !> reprieve_scope_save_now, as without a mode, they save and leave, as outside of it; with reprieve_scope_save_at_end they
  !> mark it, and the end of the scope saves and leaves.
  subroutine scope_begin(self, mode, ierr)
    class(reprieve_handler), intent(inout) :: self
    integer, intent(in), optional :: mode
    integer, intent(out), optional :: ierr
    if (present(mode)) then
      call reprieve_finish(c_scope_begin_with(self%handle, int(mode, c_int)), ierr)
    else
      call reprieve_finish(c_scope_begin(self%handle), ierr)
    end if
  end subroutine

  !> Steps that are complete, over all restarts; -1 if the handler is not open.
  integer(int64) function total_run_calls(self)
    class(reprieve_handler), intent(in) :: self
    total_run_calls = c_total_run_calls(self%handle)
  end function

  !> Whether all ranks have agreed that the job is about to end.
  logical function preempted(self)
    class(reprieve_handler), intent(in) :: self
    preempted = c_preempted(self%handle) == 1
  end function

  !> The notice that all ranks have agreed on; an error if there is none.
  subroutine preemption_notice(self, notice, ierr)
    class(reprieve_handler), intent(in) :: self
    type(reprieve_notice), intent(out) :: notice
    integer, intent(out), optional :: ierr
    type(c_notice) :: c
    integer :: status
    c%rank = -1
    status = c_preemption_notice(self%handle, c)
    notice%rank = c%rank
    notice%host = text_of(c%host)
    notice%source = text_of(c%source)
    notice%message = text_of(c%message)
    notice%has_deadline = c%has_deadline /= 0
    notice%time_left_s = c%time_left_s
    call reprieve_finish(status, ierr)
  end subroutine

  !> The code to leave with after reprieve_preempted; -1 before that.
  integer function exit_code(self)
    class(reprieve_handler), intent(in) :: self
    integer(c_int) :: code
    exit_code = -1
    if (c_exit_code(self%handle, code) == reprieve_ok) exit_code = code
  end function

  ! -----------------------------------------------------------------------------------------------------------------
  ! The manager.

  !> Collective.
  subroutine manager_open_integer(self, comm, state, directory, config, ierr)
    class(reprieve_manager), intent(inout) :: self
    integer, intent(in) :: comm
    type(reprieve_checkpoint), intent(inout) :: state
    character(*), intent(in) :: directory
    type(reprieve_config), intent(in), optional :: config
    integer, intent(out), optional :: ierr
    call reprieve_finish(c_fortran_manager_open(int(comm, c_int), state%handle, c_text(directory), &
                                                handle_of(config), self%handle), ierr)
  end subroutine

#ifdef REPRIEVE_HAVE_MPI_F08
  subroutine manager_open_f08(self, comm, state, directory, config, ierr)
    class(reprieve_manager), intent(inout) :: self
    type(MPI_Comm), intent(in) :: comm
    type(reprieve_checkpoint), intent(inout) :: state
    character(*), intent(in) :: directory
    type(reprieve_config), intent(in), optional :: config
    integer, intent(out), optional :: ierr
    call self%manager_open_integer(comm%mpi_val, state, directory, config, ierr)
  end subroutine
#endif

  !> The same with a number that follows all that are in the directory: the steps of the handler that uses this manager if
  !> they do, else one more than the greatest. Collective.
  !> @param number  the number that was taken
  subroutine save_next(self, number, ierr)
    class(reprieve_manager), intent(inout) :: self
    integer(int64), intent(out), optional :: number
    integer, intent(out), optional :: ierr
    integer(c_int64_t) :: taken
    integer :: status
    taken = 0
    status = c_manager_save_next(self%handle, taken)
    if (present(number)) number = taken
    call reprieve_finish(status, ierr)
  end subroutine

  !> Whether a save in the background has begun that is not committed. Not collective; the same on every rank.
  logical function background_save_pending(self)
    class(reprieve_manager), intent(in) :: self
    background_save_pending = c_manager_background_save_pending(self%handle) == 1
  end function

  !> Whether this rank's thread has written its part. Not collective, and not the same on every rank.
  logical function background_save_written(self)
    class(reprieve_manager), intent(in) :: self
    background_save_written = c_manager_background_save_written(self%handle) == 1
  end function

  !> Copies the state into the memory of the nodes (setting checkpoints.local_directory); a thread completes the copy. A
  !> handler does this by itself. Collective. taken: false if it was left out, since the one before is not complete yet or
  !> there is no room.
  !> @param number  of the checkpoint that it would be: who gives numbers to save gives them here too
  subroutine local_copy(self, number, taken, ierr)
    class(reprieve_manager), intent(inout) :: self
    integer(int64), intent(in), optional :: number
    logical, intent(out), optional :: taken
    integer, intent(out), optional :: ierr
    integer(c_int) :: was_taken
    integer :: status
    was_taken = 0
    if (present(number)) then
      status = c_manager_local_copy(self%handle, number, was_taken)
    else
      status = c_manager_local_copy_next(self%handle, was_taken)
    end if
    if (present(taken)) taken = was_taken == 1
    call reprieve_finish(status, ierr)
  end subroutine

  !> All committed checkpoints, oldest first. Collective.
  subroutine manager_checkpoints(self, list, ierr)
    class(reprieve_manager), intent(inout) :: self
    type(reprieve_checkpoint_info), allocatable, intent(out) :: list(:)
    integer, intent(out), optional :: ierr
    type(c_checkpoint_info), pointer :: found(:)
    type(c_ptr) :: address
    integer(c_size_t) :: count, i
    integer :: status
    status = c_manager_checkpoints(self%handle, count, address)
    allocate (list(count))
    if (count > 0) call c_f_pointer(address, found, [count])
    do i = 1, count
      list(i) = info_of(found(i))
    end do
    call reprieve_finish(status, ierr)
  end subroutine

! What only hands its arguments to C: see c_interface.cmake.
#include <handler_calls.inc>
#include <manager_calls.inc>

end module
