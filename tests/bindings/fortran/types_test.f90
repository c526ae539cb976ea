! SPDX-License-Identifier: BSD-3-Clause
!> Every type and kind, every rank, texts, sections: saved, overwritten, restored; and what the file shows.
module types_test
  use, intrinsic :: iso_c_binding, only: c_long_double
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64, real128
  use checks
  implicit none
  private
  public :: every_type, every_rank, layout_of_the_file, wrong_registrations

  type :: point
    integer :: id
    real(real64) :: x
  end type

contains

  subroutine every_type()
    integer(int8), target :: i1 = -8
    integer(int16), target :: i2 = -1600
    integer(int32), target :: i4 = -320000
    integer(int64), target :: i8 = -6400000000_int64
    real(real32), target :: r4 = 1.5
    real(real64), target :: r8 = -2.25_real64
    real(c_long_double), target :: r10 = 1/3.0_c_long_double
    real(real128), target :: r16 = 1.0_real128/3.0_real128
    complex(real32), target :: c4 = (1.0, -2.0)
    complex(real64), target :: c8 = (3.0, -4.0)
    complex(c_long_double), target :: c10 = (7.0, -8.0)
    complex(real128), target :: c16 = (5.0, -6.0)
    logical, target :: l = .true.
    logical(int8), target :: l1(3) = [.true., .false., .true.]
    logical(int16), target :: l2 = .true.
    logical(int64), target :: l8(2) = [.false., .true.]
    character(5), target :: text = 'hello'
    character(3), target :: words(2) = ['one', 'two']
    character(:), allocatable, target :: long
    type(point), target :: points(3) = [point(1, 1.5), point(2, 2.5), point(3, 3.5)]
    type(reprieve_checkpoint) :: state

    allocate (long, source='of a length that is found out')
    call state%add_replicated('i1', reprieve_view(i1))
    call state%add_replicated('i2', reprieve_view(i2))
    call state%add_replicated('i4', reprieve_view(i4))
    call state%add_replicated('i8', reprieve_view(i8))
    call state%add_replicated('r4', reprieve_view(r4))
    call state%add_replicated('r8', reprieve_view(r8))
    call state%add_replicated('r10', reprieve_view(r10))
    call state%add_replicated('r16', reprieve_view(r16))
    call state%add_replicated('c4', reprieve_view(c4))
    call state%add_replicated('c8', reprieve_view(c8))
    call state%add_replicated('c10', reprieve_view(c10))
    call state%add_replicated('c16', reprieve_view(c16))
    call state%add_replicated('l', reprieve_view(l))
    call state%add_replicated('l1', reprieve_view(l1))
    call state%add_replicated('l2', reprieve_view(l2))
    call state%add_replicated('l8', reprieve_view(l8))
    call state%add_replicated('text', reprieve_view(text))
    call state%add_replicated('words', reprieve_view(words))
    call state%add_replicated('long', reprieve_view(long))
    call state%add_replicated('points/id', reprieve_view(points%id))  ! a component of each: not contiguous
    call state%add_per_rank('points/x', reprieve_view(points%x))
    call save_once(state)

    i1 = 0; i2 = 0; i4 = 0; i8 = 0
    r4 = 0; r8 = 0; r10 = 0; r16 = 0
    c4 = 0; c8 = 0; c10 = 0; c16 = 0
    l = .false.; l1 = .false.; l2 = .false.; l8 = .true.
    text = ''; words = ''; long(:) = ''
    points%id = 0
    points%x = 0
    call restore_once(MPI_COMM_WORLD, state)
    call check(i1 == -8 .and. i2 == -1600 .and. i4 == -320000 .and. i8 == -6400000000_int64, 'integers')
    call check(r4 == 1.5 .and. r8 == -2.25_real64, 'reals')
    call check(r10 == 1/3.0_c_long_double .and. r16 == 1.0_real128/3.0_real128, 'long reals')
    call check(c4 == (1.0, -2.0) .and. c8 == (3.0, -4.0) .and. c10 == (7.0, -8.0) .and. c16 == (5.0, -6.0), 'complex numbers')
    call check(l .and. logical(l2) .and. all(logical(l1) .eqv. [.true., .false., .true.]), 'logicals')
    call check(.not. logical(l8(1)) .and. logical(l8(2)), 'wide logicals')
    call check(text == 'hello' .and. words(1) == 'one' .and. words(2) == 'two', 'texts')
    call check(long == 'of a length that is found out', 'a text of deferred length')
    call check(all(points%id == [1, 2, 3]), 'a component')
    call check(all(points%x == [1.5_real64, 2.5_real64, 3.5_real64]), 'another one, of each rank')
    call state%destroy()
  end subroutine

  !> Arrays of 1 to 7 dimensions with other lower bounds than 1, of 15, sections with strides, and empty ones.
  subroutine every_rank()
    real(real64), allocatable, target :: a1(:), a2(:, :), a3(:, :, :), a4(:, :, :, :), a5(:, :, :, :, :)
    real(real64), allocatable, target :: a6(:, :, :, :, :, :), a7(:, :, :, :, :, :, :), none(:, :)
    integer, target :: a15(2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2)
    real(real64), target :: grid(6, 5), copy(6, 5), back(4)
    type(reprieve_checkpoint) :: state
    integer :: i, j

    allocate (a1(-1:1), a2(0:1, 2:4), a3(2, 3, 4), a4(2, 1, 2, 3), a5(2, 2, 1, 2, 2), a6(1, 2, 1, 2, 1, 2), &
              a7(2, 1, 2, 1, 2, 1, 2), none(0, 3))
    call random_number(a3)
    a1 = [1, 2, 3]
    a2 = 2; a4 = 4; a5 = 5; a6 = 6; a7 = 7
    a2(1, 3) = -2; a7(2, 1, 1, 1, 1, 1, 1) = -7
    a15 = 15
    a15(2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) = -15
    grid = reshape([(real(i, real64), i=1, 30)], [6, 5])
    back = [1, 2, 3, 4]
    copy = grid
    call state%add_replicated('a1', reprieve_view(a1))
    call state%add_replicated('a2', reprieve_view(a2))
    if (rank /= 0) a3 = 0  ! rank 0's are saved
    call state%add_replicated('a3', reprieve_view(a3))
    call state%add_replicated('a4', reprieve_view(a4))
    call state%add_replicated('a5', reprieve_view(a5))
    call state%add_replicated('a6', reprieve_view(a6))
    call state%add_replicated('a7', reprieve_view(a7))
    call state%add_replicated('a15', reprieve_view(a15))
    call state%add_replicated('none', reprieve_view(none))
    call state%add_replicated('inner', reprieve_view(grid(2:5, 2:4)))
    call state%add_replicated('odd', reprieve_view(grid(1:6:5, 1:5:2)))
    call state%add_replicated('back', reprieve_view(back(4:1:-1)))
    call save_once(state)
    a1 = 0; a2 = 0; a4 = 0; a5 = 0; a6 = 0; a7 = 0; a15 = 0; grid = 0; back = 0
    call restore_once(MPI_COMM_WORLD, state)
    call check(all(a1 == [1, 2, 3]), 'one dimension')
    call check(a2(1, 3) == -2 .and. sum(a2) == 8, 'two')
    call check(all(a3 > 0) .and. a3(1, 1, 1) /= a3(2, 3, 4), 'three')
    call check(all(a4 == 4) .and. all(a5 == 5) .and. all(a6 == 6), 'four, five and six')
    call check(a7(2, 1, 1, 1, 1, 1, 1) == -7 .and. sum(a7) == 15*7 - 7, 'seven')
    call check(a15(2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) == -15 .and. sum(a15) == 30, 'fifteen')
    call check(all(back == [1, 2, 3, 4]), 'backwards')
    do j = 1, 5
      do i = 1, 6
        if ((i > 1 .and. i < 6 .and. j > 1 .and. j < 5) .or. (mod(i, 5) == 1 .and. mod(j, 2) == 1)) then
          call check(grid(i, j) == copy(i, j), 'inside of the sections')
        else
          call check(grid(i, j) == 0, 'outside of the sections')
        end if
      end do
    end do
    call state%destroy()
  end subroutine

  !> In the file the dimensions are those of Fortran in reverse; h5dump shows columns as rows.
  subroutine layout_of_the_file()
    real(real64), target :: matrix(3, 2)
    logical, target :: flags(2) = [.true., .false.]
    integer, target :: field(4, 2)
    real(c_long_double), target :: long(2) = [1.5_c_long_double, -2.25_c_long_double]
    complex(c_long_double), target :: long_complex = (0.5, 4.0)
    real(real128), target :: quad = 1
    type(reprieve_checkpoint) :: state
    integer :: i

    matrix = reshape([(real(i, real64), i=1, 6)], [3, 2])
    field = 10*rank + reshape([(i, i=1, 8)], [4, 2])
    call state%add_replicated('matrix', reprieve_view(matrix))
    call state%annotate('matrix', units='m s-1', description='speed', dims=[character(6) :: 'column', 'x'])
    call state%annotate('matrix', units='m s-1', dims=[character(6) :: 'column', 'x'])
    call state%add_replicated('flags', reprieve_view(flags))
    call state%add_replicated('long', reprieve_view(long))
    call state%add_replicated('long_complex', reprieve_view(long_complex))
    call state%add_replicated('quad', reprieve_view(quad))
    call state%add_distributed('field', reprieve_view(field), global_shape=[4, 2*ranks], lower=[1, 2*rank + 1])
    call save_once(state)
    call state%destroy()
    if (rank == 0) then
      call expect('matrix', 'DATASPACE *SIMPLE *{ *( 2, 3 )')
      call expect('matrix', '^ *1, 2, 3,$')
      call expect('matrix', '^ *4, 5, 6$')
      call expect('matrix', '"m s-1"')
      call expect('column', 'DATASPACE *SIMPLE *{ *( 3 )')
      call expect('x', 'DATASPACE *SIMPLE *{ *( 2 )')
      call expect('flags', 'H5T_STD_I32LE')
      call expect('flags', 'TRUE, FALSE')
      call expect('long', '^ *1.5, -2.25$')
      call expect('long_complex', 'H5T_COMPOUND')
      call expect('long_complex', '^ *0.5,$')
      call expect('quad', merge('H5T_OPAQUE', 'DATATYPE  ', c_long_double /= real128))
      call expect('field', 'DATASPACE *SIMPLE *{ *( '//decimal(2*ranks)//', 4 )')
      call expect('field', '^ *1, 2, 3, 4,$')
      call expect('field', '^ *'//decimal(10*ranks - 10 + 5)//', '//decimal(10*ranks - 10 + 6)//', ')
    end if
  end subroutine

  function decimal(number) result(text)
    integer, intent(in) :: number
    character(:), allocatable :: text
    character(20) :: buffer
    write (buffer, '(i0)') number
    text = trim(buffer)
  end function

  !> h5dump shows a line like `pattern` for the variable.
  subroutine expect(name, pattern)
    character(*), intent(in) :: name, pattern
    integer :: code
    code = -1  ! also read before it is set
    call execute_command_line('h5dump -y -w 200 -d /state/'//name//' '//directory//'/ckpt-1.h5 | grep -q '''//pattern//'''', &
                              exitstat=code)
    call check(code == 0, 'h5dump shows '//pattern//' for '//name)
  end subroutine

  subroutine wrong_registrations()
    type :: pair
      integer :: a, b
    end type
    type(pair), target :: pairs(2)
    real, target :: x(4, 4)
    type(reprieve_checkpoint) :: state
    type(reprieve_handler) :: handler
    type(reprieve_config) :: config
    integer :: ierr

    pairs = pair(1, 2)
    x = 0
    call state%add_replicated('pairs', reprieve_view(pairs), ierr)
    call check_status(ierr, reprieve_error_usage, 'components of a derived type')
    call state%add_replicated('a//b', reprieve_view(x), ierr)
    call check_status(ierr, reprieve_error_usage, 'a//b')
    call state%add_distributed('x', reprieve_view(x), global_shape=[4, 4], lower=[1], ierr=ierr)
    call check_status(ierr, reprieve_error_usage, 'one number for each dimension')
    call state%add_distributed('x', reprieve_view(x), global_shape=[4], lower=[1], ierr=ierr)
    call check_status(ierr, reprieve_error_usage, '1 numbers were given for the 2 dimensions')
    call state%add_distributed('x', reprieve_view(x), global_shape=[4, 4], lower=[0, 1], ierr=ierr)
    call check_status(ierr, reprieve_error_usage, 'must not be negative')
    call state%add_distributed('x', reprieve_view(x), global_shape=[4, 4], lower=[2, 1], ierr=ierr)
    call check_status(ierr, reprieve_error_usage, 'not inside')
    call assumed_size(state, x)
    call state%allow_missing('y', ierr)
    call check_status(ierr, reprieve_error_usage, "'y'")

    ! What was wrong first is what open tells, on all ranks.
    call make_config(config)
    call handler%open(MPI_COMM_WORLD, state, directory, config, ierr)
    call check_status(ierr, reprieve_error_usage, 'components of a derived type')
    call check(reprieve_error_rank() == 0, 'the rank of the error')
    call check(.not. handler%next_step(3, ierr), 'no step of a handler that is not open')
    call check_status(ierr, reprieve_error_usage, 'the handler is NULL')
    call config%set('no.such_key', '1', ierr)
    call check_status(ierr, reprieve_error_config, 'no.such_key')
    call handler%close(ierr)
    call check_ok(ierr)
    call config%destroy()
    call state%destroy()
  end subroutine

  subroutine assumed_size(state, x)
    type(reprieve_checkpoint), intent(inout) :: state
    real, target, intent(inout) :: x(*)
    integer :: ierr
    call state%add_replicated('size', reprieve_view(x(1:4)), ierr)
    call check_ok(ierr)
    call register(state, x)
  contains
    subroutine register(state, y)
      type(reprieve_checkpoint), intent(inout) :: state
      real, target, intent(inout) :: y(*)
      call state%add_replicated('unknown_size', reprieve_view(y), ierr)
      call check_status(ierr, reprieve_error_usage, 'assumed-size')
    end subroutine
  end subroutine
end module
