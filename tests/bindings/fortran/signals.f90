! SPDX-License-Identifier: BSD-3-Clause
!> Signals and pauses, as C has them.
module signals
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  private
  public :: raise, sleep_us

  integer, parameter, public :: sigusr1 = 10

  interface
    integer(c_int) function c_raise(signal) bind(c, name='raise')
      import
      integer(c_int), value :: signal
    end function
    integer(c_int) function c_usleep(microseconds) bind(c, name='usleep')
      import
      integer(c_int), value :: microseconds
    end function
  end interface

contains

  !> To this process.
  subroutine raise(signal)
    integer, intent(in) :: signal
    if (c_raise(int(signal, c_int)) /= 0) error stop 'raise failed'
  end subroutine

  !> A signal may end it early.
  subroutine sleep_us(microseconds)
    integer, intent(in) :: microseconds
    integer(c_int) :: unused
    unused = c_usleep(int(microseconds, c_int))
  end subroutine
end module
