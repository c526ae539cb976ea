! SPDX-License-Identifier: BSD-3-Clause
!> The Fortran code of the page apps/guide/loops.md.
module page_test
  use, intrinsic :: iso_fortran_env, only: int64
  use checks
  use signals
  implicit none
  private
  public :: loop_of_the_page

  integer(int64), target :: step
  integer :: signal_at

contains

  integer(int64) function present_step()
    present_step = step
  end function

  subroutine advance()
    if (step == signal_at .and. rank == ranks - 1) call raise(sigusr1)
    step = step + 1
    call sleep_us(2000)
  end subroutine

  integer function run(steps) result(code)
    integer(int64), intent(in) :: steps
    type(reprieve_checkpoint) :: state
    type(reprieve_config) :: config
    type(reprieve_handler) :: handler
    step = 0
    call make_config(config)
    call state%add_replicated('step', reprieve_view(step))
    call config%set_step_fn(present_step)
    call config%set_exit(reprieve_exit_later)          ! return when saved
    call handler%open(MPI_COMM_WORLD, state, directory, config)
    do while (step < steps)
      call handler%save_if_preempted()
      if (handler%preempted()) exit                    ! the state is saved; the answer is the same on every rank
      call advance()
    end do
    call handler%finish()
    code = handler%exit_code()                         ! 42, or -1 if the loop came to its end
    call handler%close()
    call state%destroy()
    call config%destroy()
  end function

  subroutine loop_of_the_page()
    integer :: code
    integer(int64) :: saved_at
    signal_at = 5
    code = run(100000_int64)
    saved_at = step
    call check(code == 42 .and. saved_at > 5 .and. saved_at < 100000, 'preempted')
    signal_at = -1
    code = run(saved_at + 10)
    call check(code == -1 .and. step == saved_at + 10, 'the end')
  end subroutine
end module
