! SPDX-License-Identifier: BSD-3-Clause
!> Reprieve for Fortran: all that a program uses.
!>
!>     use reprieve
!>     type(reprieve_checkpoint) :: state
!>     type(reprieve_handler) :: handler
!>     real(real64), allocatable, target :: field(:, :)   ! with a ghost column on either side
!>
!>     call reprieve_watch_signals()
!>     call MPI_Init()
!>     call state%add_distributed('field', reprieve_view(field(:, 1:columns)), [nx, ny], [1, first_column])
!>     call handler%open(MPI_COMM_WORLD, state, 'checkpoints')
!>     do while (handler%next_step(steps))
!>       call advance(field)
!>     end do
!>     call handler%close()
!>     call state%destroy()
!>     call MPI_Finalize()
!>
!> Shapes, bounds and sections are Fortran's: first dimension fastest, counted from 1. In the file the dimensions are in
!> reverse, as those of HDF5's own Fortran interface are: C tools see the same memory in their own order.
!>
!> reprieve_view(variable) says where a variable of any type and rank lies. Call it right in the registration, with the
!> variable or section itself. Registered variables need the attribute `target`, and stay where they are (no deallocation, no
!> reallocation) as long as handlers and managers use them: the address is kept, and what lies there is saved. Arrays that
!> are allocated again are registered with a procedure that is asked where they are: add_distributed_found,
!> add_distributed_boxes, add_replicated_list, add_per_rank_list, add_per_rank_walk. Every call takes an optional `ierr` at
!> the end; without it an error ends the job with its message, by reprieve_abort_job. Collective calls have the same error on
!> every rank.
module reprieve
  use reprieve_callbacks, only: reprieve_pieces, reprieve_boxes, reprieve_list, reprieve_parts, reprieve_stored_state, &
      reprieve_in_order, reprieve_redistribute, reprieve_find, reprieve_describe, reprieve_memory, reprieve_save, reprieve_load, &
      reprieve_walk, reprieve_prepare, reprieve_migrate, reprieve_save_files, reprieve_step, reprieve_watch, reprieve_leave, &
      reprieve_abort, reprieve_body, reprieve_after_commit, reprieve_files
  use reprieve_c, only: reprieve_array, reprieve_view => c_fortran_view
  use reprieve_constants
  use reprieve_errors
  use reprieve_loop
  use reprieve_settings
  use reprieve_state
  implicit none
  public
  private :: reprieve_finish
end module
