! SPDX-License-Identifier: BSD-3-Clause
!> The time loop in Fortran: preempted by a real signal and resumed, with communicators of both MPI modules.
module loop_test
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use checks
  use signals
  implicit none
  private
  public :: preempted_and_resumed, steps_and_errors, resilient_body

  integer, parameter :: steps = 60
  integer :: files = 0
  integer :: total_of_ranks = 0

contains

  subroutine save_files(directory, number, is_chief, ierr)
    character(*), intent(in) :: directory
    integer(int64), intent(in) :: number
    logical, intent(in) :: is_chief
    integer, intent(inout) :: ierr
    integer :: unit
    files = files + 1
    call check(number > 0 .and. (is_chief .eqv. rank == 0), 'the arguments of the save procedure')
    open (newunit=unit, file=directory//'/notes.txt', status='new', action='write', iostat=ierr)
    if (ierr == 0) close (unit)
  end subroutine

  !> Sums up the step numbers.
  integer function run(handler, total, signal_at) result(ierr)
    type(reprieve_handler), intent(inout) :: handler
    real(real64), intent(inout) :: total
    integer, intent(in) :: signal_at
    do while (handler%next_step(steps, ierr))
      if (handler%total_run_calls() == signal_at .and. rank == ranks - 1) call raise(sigusr1)
      total = total + handler%total_run_calls()
      call sleep_us(2000)
    end do
  end function

  subroutine preempted_and_resumed()
    real(real64), target :: total
    type(reprieve_checkpoint) :: state
    type(reprieve_config) :: config
    type(reprieve_handler) :: handler
    type(reprieve_notice) :: notice
    type(reprieve_checkpoint_info) :: info
    integer(int64) :: saved_at
    integer :: ierr
    total = 0
    call make_config(config)
    call config%set('termination.restart_code', '75')
    call config%set_save_fn(save_files)
    call check(index(config%json(), '75') > 0, 'the settings as text')
    call state%add_replicated('total', reprieve_view(total))
    call handler%open(MPI_COMM_WORLD, state, directory, config)
    call check(.not. handler%restored_from(info), 'nothing to restore yet')
    call check(handler%exit_code() == -1 .and. .not. handler%preempted(), 'no preemption yet')
    call handler%preemption_notice(notice, ierr)
    call check_status(ierr, reprieve_error_usage, 'there is no notice')
    ierr = run(handler, total, 5)
    call check_status(ierr, reprieve_preempted, 'the state is saved in')
    call check(handler%preempted() .and. handler%exit_code() == 75, 'preempted')
    call handler%preemption_notice(notice)
    call check(notice%rank == ranks - 1 .and. index(notice%source, 'SIGUSR1') > 0 .and. notice%host /= '', 'the notice')
    saved_at = handler%total_run_calls()
    call check(saved_at > 5 .and. saved_at < steps .and. total == saved_at*(saved_at - 1)/2, 'the state')
    call check(files == 1, 'the save procedure')
    call handler%close()
    call state%destroy()

    ! With an integer for the communicator, as module mpi has it.
    total = 0
    call state%add_replicated('total', reprieve_view(total))
    call handler%open(MPI_COMM_WORLD%mpi_val, state, directory, config)
    call check(handler%restored_from(info), 'restored')
    call check(info%run_calls == saved_at .and. info%reason == 'preemption' .and. info%files_directory /= '', 'from what')
    ierr = run(handler, total, -1)
    call check_ok(ierr)
    call check(total == steps*(steps - 1)/2 .and. handler%total_run_calls() == steps, 'the end')
    call handler%close()
    call state%destroy()
    call config%destroy()
  end subroutine

  subroutine steps_and_errors()
    real(real64), target :: total
    type(reprieve_checkpoint) :: state
    type(reprieve_config) :: config
    type(reprieve_handler) :: handler
    integer :: ierr
    total = 0
    call make_config(config)
    call state%add_replicated('total', reprieve_view(total))
    call handler%open(MPI_COMM_WORLD, state, directory, config)
    call state%destroy(ierr)
    call check_status(ierr, reprieve_error_usage, 'close its handler or manager first')
    call handler%step_end(ierr)
    call check_status(ierr, reprieve_error_usage, 'no step is open')
    call handler%save_if_preempted()
    call handler%step_begin()
    call handler%save_if_preempted(ierr)
    call check_status(ierr, reprieve_error_usage, 'a step is open')
    call handler%step_end()
    call handler%scope_begin(reprieve_scope_save_at_end)
    call handler%step_begin()
    call handler%step_end()
    call handler%scope_end()
    call handler%begin_phase()
    call handler%request_checkpoint()
    do while (handler%next_step(reprieve_no_limit, ierr))
      if (handler%total_run_calls() == 6) exit
      call sleep_us(20000)
    end do
    call check_ok(ierr)
    call handler%step_end()
    do while (handler%next_step(1000, ierr))
      if (handler%total_run_calls() == 9 .and. rank == ranks - 1) then
        call handler%fail('the pressure is negative', ierr)
        exit
      end if
      call sleep_us(1000)
    end do
    call check_status(ierr, reprieve_error_cluster, 'the pressure is negative')
    call check(reprieve_error_rank() == ranks - 1, 'the rank that failed')
    call handler%close()
    call check(handler%total_run_calls() == -1, 'closed')
    call state%destroy()
    call config%destroy()
  end subroutine

  subroutine work(ranks_that_work, ierr)
    integer, intent(in) :: ranks_that_work
    integer, intent(inout) :: ierr
    call MPI_Allreduce(1, total_of_ranks, 1, MPI_INTEGER, MPI_SUM, MPI_Comm(ranks_that_work), ierr)
  end subroutine

  subroutine fail_to_work(ranks_that_work, ierr)
    integer, intent(in) :: ranks_that_work
    integer, intent(inout) :: ierr
    if (ranks_that_work /= 0) ierr = 7
  end subroutine

  !> Deaths: tests/e2e/resilient_test.cpp.
  subroutine resilient_body()
    integer :: ierr
    logical :: worked
    call reprieve_run_resilient(MPI_COMM_WORLD%MPI_VAL, work, spare_ranks=ranks - 1, worked=worked)
    call check(worked .eqv. rank == 0, 'the first rank works')
    call check(total_of_ranks == merge(1, 0, worked), 'its communicator')
    call reprieve_run_resilient(MPI_COMM_WORLD%MPI_VAL, fail_to_work, min_ranks=ranks, ierr=ierr)
    call check_status(ierr, reprieve_error_cluster, 'it returned 7')
  end subroutine
end module
