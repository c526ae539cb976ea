! SPDX-License-Identifier: BSD-3-Clause
!> Errors. Use module reprieve.
module reprieve_errors
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, output_unit
  use reprieve_c
  implicit none
  private

  public :: reprieve_error_message, reprieve_error_rank, reprieve_error_name, reprieve_callback_error
  public :: reprieve_version, reprieve_version_details, reprieve_finish, reprieve_abort_job

contains

  !> The text of the last error.
  function reprieve_error_message() result(message)
    character(:), allocatable :: message
    message = text_of(c_last_error_message())
  end function

  !> The rank that met the last error, or -1.
  integer function reprieve_error_rank()
    reprieve_error_rank = c_last_error_origin_rank()
  end function

  !> Name of an error: "no_space".
  function reprieve_error_name(status) result(name)
    integer, intent(in) :: status
    character(:), allocatable :: name
    name = text_of(c_status_name(int(status, c_int)))
  end function

  !> In a procedure that the library calls: reports an error with a text, which all ranks get. ierr: that of the procedure.
  subroutine reprieve_callback_error(message, ierr)
    character(*), intent(in) :: message
    integer, intent(out) :: ierr
    ierr = c_callback_error(c_text(message))
  end subroutine

  !> The version of the library that is running, 'major.minor.patch'.
  function reprieve_version() result(version)
    character(:), allocatable :: version
    version = text_of(c_version())
  end function

  !> Which library is running, in five lines: version, commit, MPI, HDF5 and the options of its build.
  function reprieve_version_details() result(details)
    character(:), allocatable :: details
    details = text_of(c_version_details())
  end function

  !> Hands `status` to the caller; if it does not want it, an error ends the program with its message.
  subroutine reprieve_finish(status, ierr)
    integer, intent(in) :: status
    integer, intent(out), optional :: ierr
    if (present(ierr)) then
      ierr = status
    else if (status /= reprieve_ok) then
      call reprieve_abort_job()
    end if
  end subroutine

  !> Ends the job with the message of the last error, which one rank prints for all, and exit code 1. Does not return.
  subroutine reprieve_abort_job()
    flush (output_unit)
    flush (error_unit)
    call c_abort()
  end subroutine

end module
