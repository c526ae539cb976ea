!> The C functions of the time loop and of managers, private to module reprieve, and what both tell, in C and in Fortran.
module reprieve_loop_c
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  public

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

  !> reprieve_checkpoint_info of reprieve.h.
  type, bind(c) :: c_checkpoint_info
    type(c_ptr) :: path = c_null_ptr
    integer(c_int64_t) :: number = 0, run_calls = 0
    integer(c_int) :: world_size = 0
    real(c_double) :: time_s = 0
    integer(c_int64_t) :: size_bytes = 0
    type(c_ptr) :: reason = c_null_ptr, files_directory = c_null_ptr
  end type

  !> reprieve_save_report of reprieve.h.
  type, bind(c) :: c_save_report
    type(c_ptr) :: path = c_null_ptr
    integer(c_int64_t) :: number = 0, size_bytes = 0
    real(c_double) :: seconds = 0, blocked_seconds = 0
  end type

  !> reprieve_notice of reprieve.h.
  type, bind(c) :: c_notice
    integer(c_int) :: rank = -1
    type(c_ptr) :: host = c_null_ptr, source = c_null_ptr, message = c_null_ptr
    integer(c_int) :: has_deadline = 0
    real(c_double) :: time_left_s = 0
  end type

  interface
    integer(c_int) function c_watch_signals() bind(c, name='reprieve_watch_signals')
      import
    end function
    integer(c_int) function c_unwatch_signals() bind(c, name='reprieve_unwatch_signals')
      import
    end function
    integer(c_int) function reprieve_fortran_handler_open(comm, checkpoint, directory, config, handler) bind(c)
      import
      integer(c_int), value :: comm
      type(c_ptr), value :: checkpoint, config
      character(kind=c_char), intent(in) :: directory(*)
      type(c_ptr), intent(out) :: handler
    end function
    integer(c_int) function reprieve_handler_close(handler) bind(c)
      import
      type(c_ptr), intent(inout) :: handler
    end function
    integer(c_int) function reprieve_handler_finish(handler) bind(c)
      import
      type(c_ptr), value :: handler
    end function
    integer(c_int) function reprieve_next_step(handler, steps, status) bind(c)
      import
      type(c_ptr), value :: handler
      integer(c_int64_t), value :: steps
      integer(c_int), intent(out) :: status
    end function
    integer(c_int) function reprieve_step_begin(handler) bind(c)
      import
      type(c_ptr), value :: handler
    end function
    integer(c_int) function reprieve_step_end(handler) bind(c)
      import
      type(c_ptr), value :: handler
    end function
    integer(c_int) function reprieve_save_if_preempted(handler) bind(c)
      import
      type(c_ptr), value :: handler
    end function
    integer(c_int) function reprieve_scope_begin(handler) bind(c)
      import
      type(c_ptr), value :: handler
    end function
    integer(c_int) function reprieve_scope_begin_with(handler, mode) bind(c)
      import
      type(c_ptr), value :: handler
      integer(c_int), value :: mode
    end function
    integer(c_int) function reprieve_scope_end(handler) bind(c)
      import
      type(c_ptr), value :: handler
    end function
    integer(c_int) function reprieve_fail(handler, message) bind(c)
      import
      type(c_ptr), value :: handler
      character(kind=c_char), intent(in) :: message(*)
    end function
    integer(c_int64_t) function reprieve_total_run_calls(handler) bind(c)
      import
      type(c_ptr), value :: handler
    end function
    integer(c_int) function c_preempted(handler) bind(c, name='reprieve_preempted')
      import
      type(c_ptr), value :: handler
    end function
    integer(c_int) function reprieve_preemption_notice(handler, notice) bind(c)
      import
      type(c_ptr), value :: handler
      type(c_notice), intent(out) :: notice
    end function
    integer(c_int) function reprieve_restored_from(handler, restored, info) bind(c)
      import
      type(c_ptr), value :: handler
      integer(c_int), intent(out) :: restored
      type(c_checkpoint_info), intent(out) :: info
    end function
    integer(c_int) function reprieve_already_finished(handler, finished, steps) bind(c)
      import
      type(c_ptr), value :: handler
      integer(c_int), intent(out) :: finished
      integer(c_int64_t), intent(out) :: steps
    end function
    integer(c_int) function reprieve_last_save(handler, saved, report) bind(c)
      import
      type(c_ptr), value :: handler
      integer(c_int), intent(out) :: saved
      type(c_save_report), intent(out) :: report
    end function
    integer(c_int) function reprieve_begin_phase(handler) bind(c)
      import
      type(c_ptr), value :: handler
    end function
    integer(c_int) function reprieve_request_checkpoint(handler) bind(c)
      import
      type(c_ptr), value :: handler
    end function
    integer(c_int) function reprieve_exit_code(handler, code) bind(c)
      import
      type(c_ptr), value :: handler
      integer(c_int), intent(out) :: code
    end function

    integer(c_int) function reprieve_fortran_manager_open(comm, checkpoint, directory, config, manager) bind(c)
      import
      integer(c_int), value :: comm
      type(c_ptr), value :: checkpoint, config
      character(kind=c_char), intent(in) :: directory(*)
      type(c_ptr), intent(out) :: manager
    end function
    integer(c_int) function reprieve_manager_close(manager) bind(c)
      import
      type(c_ptr), intent(inout) :: manager
    end function
    integer(c_int) function reprieve_manager_save(manager, number) bind(c)
      import
      type(c_ptr), value :: manager
      integer(c_int64_t), value :: number
    end function
    integer(c_int) function reprieve_manager_save_next(manager, number) bind(c)
      import
      type(c_ptr), value :: manager
      integer(c_int64_t), intent(out) :: number
    end function
    integer(c_int) function reprieve_manager_save_in_background(manager, number) bind(c)
      import
      type(c_ptr), value :: manager
      integer(c_int64_t), value :: number
    end function
    integer(c_int) function reprieve_manager_background_save_pending(manager) bind(c)
      import
      type(c_ptr), value :: manager
    end function
    integer(c_int) function reprieve_manager_background_save_written(manager) bind(c)
      import
      type(c_ptr), value :: manager
    end function
    integer(c_int) function reprieve_manager_finish_background_save(manager) bind(c)
      import
      type(c_ptr), value :: manager
    end function
    integer(c_int) function reprieve_manager_restore_latest(manager, restored, info) bind(c)
      import
      type(c_ptr), value :: manager
      integer(c_int), intent(out) :: restored
      type(c_checkpoint_info), intent(out) :: info
    end function
    integer(c_int) function reprieve_manager_restore(manager, file) bind(c)
      import
      type(c_ptr), value :: manager
      character(kind=c_char), intent(in) :: file(*)
    end function
    integer(c_int) function reprieve_manager_checkpoints(manager, count, list) bind(c)
      import
      type(c_ptr), value :: manager
      integer(c_size_t), intent(out) :: count
      type(c_ptr), intent(out) :: list
    end function
    integer(c_int) function reprieve_manager_latest(manager, found, info) bind(c)
      import
      type(c_ptr), value :: manager
      integer(c_int), intent(out) :: found
      type(c_checkpoint_info), intent(out) :: info
    end function
  end interface
end module
