! SPDX-License-Identifier: BSD-3-Clause
!> What the Fortran tests have in common: checks that count failures, a directory for each test.
module checks
  use mpi_f08
  use reprieve
  implicit none
  public

  integer :: rank = 0, ranks = 1, failures = 0
  character(:), allocatable :: running, directory

contains

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    if (condition) return
    failures = failures + 1
    print '(a, i0, a, i0, 5a)', '[rank ', rank, '/', ranks, '] ', running, ': not so: ', what
  end subroutine

  !> The last call ended with `expected`; if that is an error, its message has `text` in it.
  subroutine check_status(ierr, expected, text)
    integer, intent(in) :: ierr, expected
    character(*), intent(in), optional :: text
    if (ierr /= expected) then
      call check(.false., reprieve_error_name(ierr)//' is not '//reprieve_error_name(expected)//': '// &
                 reprieve_error_message())
    end if
    if (present(text)) call check(index(reprieve_error_message(), text) > 0, "'"//text//"' in '"// &
                                  reprieve_error_message()//"'")
  end subroutine

  subroutine check_ok(ierr)
    integer, intent(in) :: ierr
    call check_status(ierr, reprieve_ok)
  end subroutine

  !> Settings with which a test that hangs ends; the exit returns.
  subroutine make_config(config)
    type(reprieve_config), intent(inout) :: config
    integer :: ierr
    call config%load_json('{"platform": "other", "termination": {"peer_timeout_s": 60, "metadata": "none"}, '// &
                          '"checkpoints": {"io_timeout_s": 60}, "log": {"level": "error", "other_ranks": "error"}}', ierr)
    call check_ok(ierr)
    call config%set_exit(reprieve_exit_return, ierr)
    call check_ok(ierr)
  end subroutine

  !> Runs a test in a directory for all ranks, empty at first.
  subroutine test(name, run)
    character(*), intent(in) :: name
    interface
      subroutine run()
      end subroutine
    end interface
    character(4096) :: parent
    integer :: all
    running = name
    call get_environment_variable('TEST_DIRECTORY', parent)
    directory = trim(parent)//'/'//name
    if (rank == 0) call execute_command_line('rm -rf '//directory)
    call MPI_Barrier(MPI_COMM_WORLD)
    call run()
    call MPI_Allreduce(failures, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0) then
      print '(4a)', merge('[ OK ] ', '[FAIL] ', all == 0), running
      call execute_command_line('rm -rf '//directory)
    end if
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine

  !> Saves once on all ranks.
  subroutine save_once(state)
    type(reprieve_checkpoint), intent(inout) :: state
    type(reprieve_manager) :: manager
    type(reprieve_config) :: config
    integer :: ierr
    call make_config(config)
    call manager%open(MPI_COMM_WORLD, state, directory, config, ierr)
    call check_ok(ierr)
    call manager%save(1, ierr)
    call check_ok(ierr)
    call manager%close()
    call config%destroy()
  end subroutine

  !> Restores on the ranks of a communicator.
  subroutine restore_once(comm, state, expected, text)
    type(MPI_Comm), intent(in) :: comm
    type(reprieve_checkpoint), intent(inout) :: state
    integer, intent(in), optional :: expected
    character(*), intent(in), optional :: text
    type(reprieve_manager) :: manager
    type(reprieve_config) :: config
    type(reprieve_checkpoint_info) :: info
    logical :: found
    integer :: ierr
    call make_config(config)
    call manager%open(comm, state, directory, config, ierr)
    call check_ok(ierr)
    found = manager%restore_latest(info, ierr)
    if (present(expected)) then
      call check_status(ierr, expected, text)
    else
      call check_ok(ierr)
      call check(found, 'a checkpoint was found')
      call check(info%world_size == ranks .and. info%reason == 'user', 'what is known about it')
    end if
    call manager%close()
    call config%destroy()
  end subroutine
end module
