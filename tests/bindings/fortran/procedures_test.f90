! SPDX-License-Identifier: BSD-3-Clause
!> Procedures of the program's that settings hold: its own count of steps, how it leaves, notices that it watches for,
!> how it ends a job that is stuck. Saves in the background. What older versions of the program stored.
module procedures_test
  use, intrinsic :: iso_c_binding, only: c_long_double
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
  use checks
  use signals
  implicit none
  private
  public :: own_steps, watched_and_left, peers_that_are_stuck, background_saves, other_layout, texts_of_errors, &
    another_problem

  integer, parameter :: columns = 12
  integer(int64), target :: steps
  integer :: exits, aborts, abort_ranks, copies
  logical, volatile :: lost
  real(c_long_double), target :: old_field(4, columns)
  real(real64), target :: unknown(2)

contains

  integer(int64) function count_steps()
    count_steps = steps
  end function

  !> Sub-cycles; and the program ends its loop when it likes. The config is gone by then.
  subroutine own_steps()
    type(reprieve_checkpoint) :: state
    type(reprieve_config) :: config
    type(reprieve_handler) :: handler
    type(reprieve_save_report) :: report
    steps = 0
    call make_config(config)
    call config%set_exit(reprieve_exit_later)
    call config%set('termination.save_every_steps', '100')
    call config%set('checkpoints.background', 'true')
    call config%set_step_fn(count_steps)
    call state%add_replicated('steps', reprieve_view(steps))
    call handler%open(MPI_COMM_WORLD, state, directory, config)
    call config%destroy()
    call check(.not. handler%last_save(report) .and. report%path == '', 'nothing is saved yet')
    do while (.not. handler%preempted() .and. steps < 100000)
      steps = steps + 50
      if (steps == 500 .and. rank == ranks - 1) call raise(sigusr1)
      call handler%save_if_preempted()
      call sleep_us(2000)
    end do
    call check(steps >= 500 .and. steps < 100000 .and. handler%exit_code() == 42, 'saved, and to be left')
    call check(handler%last_save(report), 'the last save')
    call check(report%number == steps .and. index(report%path, '.h5') > 0 .and. report%size_bytes >= 8, 'what was saved')
    call check(report%seconds > 0 .and. report%blocked_seconds > 0, 'how long it took')
    call handler%close()
    call state%destroy()
  end subroutine

  subroutine watch(noticed, message, time_left_s)
    logical, intent(inout) :: noticed
    character(*), intent(inout) :: message
    real(real64), intent(inout) :: time_left_s
    if (noticed .or. message /= '' .or. time_left_s >= 0) return  ! then the test hangs no longer than its steps
    noticed = lost
    message = 'the node is wanted back'
    time_left_s = 0.001
  end subroutine

  subroutine keep_running(comm, exit_code, checkpoint, ierr)
    integer, intent(in) :: comm, exit_code
    character(*), intent(in) :: checkpoint
    integer, intent(inout) :: ierr
    integer :: here
    call MPI_Comm_size(MPI_Comm(comm), here)
    call check(here == ranks .and. exit_code == 75 .and. index(checkpoint, '.h5') > 0, 'the arguments of the exit')
    if (ierr == 0) exits = exits + 1
  end subroutine

  subroutine no_way_out(comm, exit_code, checkpoint, ierr)
    integer, intent(in) :: comm, exit_code
    character(*), intent(in) :: checkpoint
    integer, intent(inout) :: ierr
    if (comm == exit_code .and. checkpoint == '') return  ! never
    call reprieve_callback_error('no way out', ierr)
  end subroutine

  subroutine watched_and_left()
    type(reprieve_checkpoint) :: state
    type(reprieve_config) :: config
    type(reprieve_handler) :: handler
    integer :: ierr, done
    steps = 0
    exits = 0
    lost = .false.
    call make_config(config)
    call config%set('termination.restart_code', '75')
    call config%set('termination.poll_interval_s', '0.01')
    call config%set_exit_fn(keep_running)
    call config%set_watcher_fn(watch)
    call state%add_replicated('steps', reprieve_view(steps))
    call handler%open(MPI_COMM_WORLD, state, directory, config)
    done = 0
    do while (handler%next_step(100000, ierr) .and. done == 0)
      call sleep_us(2000)
      lost = rank == 0 .and. handler%total_run_calls() >= 5
      done = exits
      call MPI_Bcast(done, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
    end do
    call check_ok(ierr)
    call check(exits > 0, 'the exit procedure was called, and the program continued')
    lost = .false.
    call handler%close()

    call config%set_watcher_fn()  ! no longer
    call config%set_exit_fn(no_way_out)
    call handler%open(MPI_COMM_WORLD, state, directory, config)
    call check(handler%restored_from(), 'what was saved')
    call raise(sigusr1)
    do while (handler%next_step(handler%total_run_calls() + 10, ierr))
      call sleep_us(2000)
    end do
    call check_status(ierr, reprieve_error_cluster, 'the exit function failed: no way out')
    call handler%close()
    call config%destroy()
    call state%destroy()
  end subroutine

  !> Comes to where the others wait. Another program would end the job.
  subroutine let_the_others_go(comm, exit_code)
    integer, intent(in) :: comm, exit_code
    aborts = aborts + exit_code
    call MPI_Comm_size(MPI_Comm(comm), abort_ranks)
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine

  subroutine peers_that_are_stuck()
    type(reprieve_checkpoint) :: state
    type(reprieve_config) :: config
    type(reprieve_handler) :: handler
    integer :: ierr
    aborts = 0
    call make_config(config)
    call config%set('termination.error_timeout_s', '1')
    call config%set('termination.peer_timeout_s', '2')  ! the others are left alone at the end
    call config%set('log.level', 'off')
    call config%set('log.other_ranks', 'off')
    call config%set_abort_fn(let_the_others_go)
    call state%add_replicated('steps', reprieve_view(steps))
    call handler%open(MPI_COMM_WORLD, state, directory, config)
    call handler%step_begin()
    if (rank == ranks - 1) then
      call handler%fail('the matrix is singular', ierr)
      call check_status(ierr, reprieve_error_cluster, 'the matrix is singular')
      call check(ranks == 1 .or. (aborts == 1 .and. abort_ranks == ranks), 'the abort procedure')
    else
      call MPI_Barrier(MPI_COMM_WORLD)  ! of the program's: it waits for the rank that failed
      call check(aborts == 0, 'not on the others')
      call handler%step_end()
    end if
    call handler%close(ierr)
    if (rank == ranks - 1) then
      call check_ok(ierr)  ! it has told its error
    else
      call check(ierr == reprieve_error_unresponsive, 'the others learn that it is missing')
    end if
    call config%destroy()
    call state%destroy()
  end subroutine

  !> Fails each time: that is a warning.
  subroutine copy_elsewhere(checkpoint, ierr)
    character(*), intent(in) :: checkpoint
    integer, intent(inout) :: ierr
    logical :: is_there
    inquire (file=checkpoint, exist=is_there)
    call check(rank == 0 .and. is_there .and. index(checkpoint, '.h5') > 0 .and. ierr == 0, 'a committed file')
    copies = copies + 1
    call reprieve_callback_error('no network', ierr)
  end subroutine

  subroutine background_saves()
    type(reprieve_checkpoint) :: state
    type(reprieve_config) :: config
    type(reprieve_manager) :: manager
    type(reprieve_checkpoint_info) :: info
    type(reprieve_checkpoint_info), allocatable :: list(:)
    integer(int64) :: number
    integer :: ierr
    copies = 0
    call make_config(config)
    call config%set_after_commit_fn(copy_elsewhere)
    call state%add_replicated('steps', reprieve_view(steps))
    call manager%open(MPI_COMM_WORLD, state, directory, config)
    call manager%finish_background_save()  ! nothing
    call manager%checkpoints(list)
    call check(size(list) == 0, 'nothing to list')
    steps = 7
    call manager%save_in_background(3)
    steps = 8  ! the copy stays what it is
    call check(manager%background_save_pending(), 'it has begun')
    do while (.not. manager%background_save_written())
      call sleep_us(1000)
    end do
    call check(.not. manager%latest(), 'written, but not committed')
    call check(manager%background_save_pending(), 'it is not over')
    call manager%finish_background_save()
    call check(.not. manager%background_save_pending() .and. manager%background_save_written(), 'it is over')
    call check(manager%restore_latest(info), 'it is a checkpoint')
    call check(info%number == 3 .and. steps == 7, 'of the state as it was')
    call manager%save_in_background(4_int64)
    call manager%save(2_int64**40)  ! commits the one before
    call check(manager%latest(info) .and. info%number == 2_int64**40, 'large numbers')
    call manager%checkpoints(list)
    call check(all(list%number == [3_int64, 4_int64, 2_int64**40]) .and. list(3)%path == info%path, 'the list')
    call manager%save_next(number)
    call check(number == 2_int64**40 + 1, 'the next number')
    call manager%save(5)
    call check(manager%latest(info) .and. info%number == 5 .and. info%run_calls == -1, 'the last save is the newest')
    call manager%save_next()
    call check(manager%latest(info) .and. info%number == 2_int64**40 + 2, 'the next number, not asked for')
    call check(copies == merge(6, 0, rank == 0), 'each commit was reported to rank 0')
    call manager%local_copy(ierr=ierr)
    call check(ierr == reprieve_error_usage, 'node-local copies need a directory')
    call manager%close()
    call check(.not. manager%background_save_pending(), 'closed')
    call manager%save_in_background(5, ierr)
    call check_status(ierr, reprieve_error_usage, 'the manager is NULL')
    call manager%checkpoints(list, ierr)
    call check_status(ierr, reprieve_error_usage, 'the manager is NULL')
    call check(size(list) == 0, 'no list of a manager that is closed')
    call config%destroy()
    call state%destroy()
  end subroutine

  !> A field of numbers of `long double` that the new version does not register: read by another cut, with ghost rows.
  subroutine migrate(stored, ierr)
    type(reprieve_stored_state), intent(in) :: stored
    integer, intent(inout) :: ierr
    integer :: status
    call stored%read_distributed('field', reprieve_view(old_field(2:3, :)), [2, columns], [1, 1], ierr)
    if (ierr /= 0) return
    call stored%read_distributed('field', reprieve_view(old_field(1, 1:2)), [2], [1, 2], status)
    call check_status(status, reprieve_error_usage, 'one number for each dimension')
    call stored%read_distributed('field', reprieve_view(unknown), [2_int64], [1_int64], status)
    call check_status(status, reprieve_error_mismatch, "'field'")
    call stored%read('no such thing', reprieve_view(unknown), ierr)  ! the migration fails by this error
  end subroutine

  subroutine another_problem()
    type(reprieve_checkpoint) :: state, other
    type(reprieve_handler) :: handler
    type(reprieve_config) :: config
    integer(int64) :: at
    integer :: ierr
    call state%add_replicated('steps', reprieve_view(steps))
    call state%add_constant('case', 'tank')
    call state%add_constant('cells', 100)
    call state%add_constant('density', 1.5_real64)
    call save_once(state)
    call other%add_replicated('steps', reprieve_view(steps))
    call other%add_constant('case', 'pipe')
    call other%add_constant('cells', 100_int64)
    call other%add_constant('density', 1.5_real32)
    call other%add_constant('case', 'tank', ierr)
    call check_status(ierr, reprieve_error_usage, "'case'")
    call other%destroy()
    call other%add_replicated('steps', reprieve_view(steps))
    call other%add_constant('case', 'pipe')
    call restore_once(MPI_COMM_WORLD, other, reprieve_error_mismatch, "'tank' when it was saved, 'pipe' now")
    call other%destroy()
    call state%destroy()
    call make_config(config)
    call state%add_constant('density', 1.5)
    call handler%open(MPI_COMM_WORLD, state, directory//'/new', config)
    call check(.not. handler%already_finished(at) .and. at == 0, 'it has just begun')
    call handler%close()
    call config%destroy()
    call state%destroy()
  end subroutine

  subroutine other_layout()
    real(c_long_double), allocatable, target :: field(:, :)
    type(reprieve_checkpoint) :: state
    integer :: first, last, j
    first = rank*columns/ranks + 1
    last = (rank + 1)*columns/ranks
    allocate (field(2, first:last))
    do j = first, last
      field(:, j) = [1, 2]*(j + 1/3.0_c_long_double)
    end do
    call state%add_distributed('field', reprieve_view(field), [2, columns], [1, first])
    call save_once(state)
    call state%destroy()

    old_field = -1
    unknown = 0
    call state%add_replicated('unknown', reprieve_view(unknown))
    call state%allow_missing('unknown')
    call state%allow_dropped('field')
    call state%on_migration(migrate)
    call restore_once(MPI_COMM_WORLD, state, reprieve_error_cluster, "the migration function failed: ")
    call check(index(reprieve_error_message(), "'no such thing'") > 0, 'the text of the call that failed')
    do j = 1, columns
      call check(all(old_field(2:3, j) == [1, 2]*(j + 1/3.0_c_long_double)), 'the whole field, on every rank')
    end do
    call check(all(old_field(1, :) == -1) .and. all(old_field(4, :) == -1), 'the ghost rows were left alone')
    call state%destroy()
  end subroutine

  subroutine refuse(ierr)
    integer, intent(inout) :: ierr
    if (rank == ranks - 1) call reprieve_callback_error('no memory for the blocks', ierr)
  end subroutine

  subroutine texts_of_errors()
    type(reprieve_checkpoint) :: state
    call check(index(reprieve_version(), '.') > 1, 'the version')
    call check(index(reprieve_version_details(), 'HDF5') > 1, 'the details of the version')
    call state%add_replicated('steps', reprieve_view(steps))
    call save_once(state)
    call state%when_values_restored(refuse)
    call restore_once(MPI_COMM_WORLD, state, reprieve_error_cluster, 'failed: no memory for the blocks')
    call check(reprieve_error_rank() == ranks - 1, 'the rank that failed')
    call state%destroy()
  end subroutine
end module
