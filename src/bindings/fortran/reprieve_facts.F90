! SPDX-License-Identifier: BSD-3-Clause
!> What handlers and managers report. Use module reprieve.
module reprieve_facts
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use reprieve_c
  implicit none
  private

  public :: reprieve_checkpoint_info, reprieve_save_report, reprieve_notice, info_of

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

end module
