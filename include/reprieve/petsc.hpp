// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Vectors, matrices and time steppers of PETSc (3.18 and later) as state. Only for programs that use PETSc: this
/// header includes it.
///
///     PetscCall(reprieve::petsc::preemptible(ts, u));   // does nothing without the option -reprieve_directory
///     PetscCall(TSSolve(ts, u));

#include <petsc/private/petscimpl.h>  // PetscObjectStateIncrease
#include <petscdmda.h>
#include <petscts.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprieve/checkpoint.hpp"
#include "reprieve/preemption_checkpoint_handler.hpp"

namespace reprieve::petsc {

/// What a program adds to the state besides the solution.
using AddMore = std::function<void(Checkpoint& state)>;

namespace detail {

inline void check(PetscErrorCode code, const char* call) {
  if (code != 0) {
    throw UsageError(std::string(call) + " of PETSc failed with code " + std::to_string(static_cast<int>(code)));
  }
}

/// Where values lie on the host, by the two functions of PETSc that lend them. @param call  the name of the first
template <class Object, class Scalar>
Scalar* values_of(Object object, PetscErrorCode (*lend)(Object, Scalar**),
                  PetscErrorCode (*take_back)(Object, Scalar**), const char* call) {
  Scalar* values = nullptr;
  check(lend(object, &values), call);
  Scalar* const memory = values;
  check(take_back(object, &values), call);
  return memory;
}

/// Where the elements lie on the host. A caller that may write makes PETSc forget norms, and copies on a device.
inline std::byte* memory_of(Vec vector) {
  PetscInt locked = 0;
  check(VecLockGet(vector, &locked), "VecLockGet");
  if (locked > 0) {  // within a monitor, which only reads
    const auto* const values = values_of(vector, VecGetArrayRead, VecRestoreArrayRead, "VecGetArrayRead");
    return reinterpret_cast<std::byte*>(const_cast<PetscScalar*>(values));
  }
  return reinterpret_cast<std::byte*>(values_of(vector, VecGetArray, VecRestoreArray, "VecGetArray"));
}

/// The grid of a vector, if it is one of a DMDA. @throws UsageError if it is of another DM, whose numbering depends on
/// the number of ranks
inline DM grid_of(Vec vector) {
  DM dm = nullptr;
  PetscBool is_grid = PETSC_FALSE;
  check(VecGetDM(vector, &dm), "VecGetDM");
  if (dm != nullptr) {
    check(PetscObjectTypeCompare(reinterpret_cast<PetscObject>(dm), DMDA, &is_grid), "PetscObjectTypeCompare");
    if (is_grid == PETSC_FALSE) {
      throw UsageError(
          "the vector is of a DM that is no DMDA: its numbering depends on the number of ranks. Register its memory by "
          "add_per_rank, or by functions in the numbering of your mesh");
    }
  }
  return dm;
}

/// The ranks' boxes of the grid, slowest-varying dimension first, with the unknowns of a point as the last dimension.
inline DistributedArray grid_array(DM grid, std::byte* memory) {
  PetscInt dimensions = 0;
  PetscInt unknowns = 0;
  std::array<PetscInt, 3> all{};
  std::array<PetscInt, 3> begin{};
  std::array<PetscInt, 3> mine{};
  check(DMDAGetInfo(grid, &dimensions, &all[2], &all[1], &all[0], nullptr, nullptr, nullptr, &unknowns, nullptr,
                    nullptr, nullptr, nullptr, nullptr),
        "DMDAGetInfo");
  check(DMDAGetCorners(grid, &begin[2], &begin[1], &begin[0], &mine[2], &mine[1], &mine[0]), "DMDAGetCorners");
  DistributedArray array{element_type_of<PetscScalar>(), {}, {{memory, {}, {}}}};
  for (auto d = static_cast<std::size_t>(3 - dimensions); d < 3; ++d) {
    array.global_shape.push_back(static_cast<std::uint64_t>(all[d]));
    array.boxes[0].offset.push_back(static_cast<std::uint64_t>(begin[d]));
    array.boxes[0].extent.push_back(static_cast<std::uint64_t>(mine[d]));
  }
  array.global_shape.push_back(static_cast<std::uint64_t>(unknowns));
  array.boxes[0].offset.push_back(0);
  array.boxes[0].extent.push_back(static_cast<std::uint64_t>(unknowns));
  return array;
}

inline DistributedArray array_of(Vec vector) {
  std::byte* const memory = memory_of(vector);
  if (const DM grid = grid_of(vector)) {
    return grid_array(grid, memory);
  }
  PetscInt size = 0;
  PetscInt begin = 0;
  PetscInt end = 0;
  check(VecGetSize(vector, &size), "VecGetSize");
  check(VecGetOwnershipRange(vector, &begin, &end), "VecGetOwnershipRange");
  return {element_type_of<PetscScalar>(),
          {static_cast<std::uint64_t>(size)},
          {{memory, {static_cast<std::uint64_t>(begin)}, {static_cast<std::uint64_t>(end - begin)}}}};
}

}  // namespace detail

/// Registers a vector: one of a DMDA as its grid, with the unknowns of a point as last dimension; one without a DM in
/// its global numbering, which must not depend on the number of ranks. It is restored on any number of ranks. The
/// vector must outlive @p state; it may be another one in each save (VecPlaceArray), of the same layout.
/// @throws UsageError for a vector of another DM, when the state is saved or restored
inline void add(Checkpoint& state, std::string name, Vec vector) {
  state.add_distributed(std::move(name), [vector] { return detail::array_of(vector); });
}

namespace detail {

/// The boxes of this rank's nonzero values, which lie one after the other in the file: by rows, and in a row by global
/// columns. PETSc is told that they change: a preconditioner is computed again, and a device gets them.
/// @return how many values there are; a checksum of their rows and columns
inline std::array<std::uint64_t, 2> find_nonzeros(Mat matrix, bool is_parallel, std::uint64_t begin,
                                                  std::vector<MemoryBox>& boxes) {
  std::array<Mat, 2> parts{matrix, nullptr};  // of the columns of this rank, and of those of others
  std::array<PetscScalar*, 2> next{};
  std::array<PetscInt, 2> rows{};
  std::array<PetscInt, 2> own{};
  if (is_parallel) {
    check(MatMPIAIJGetSeqAIJ(matrix, &parts[0], &parts[1], nullptr), "MatMPIAIJGetSeqAIJ");
  }
  for (std::size_t p = 0; p < (is_parallel ? 2 : 1); ++p) {
    next[p] = values_of(parts[p], MatSeqAIJGetArray, MatSeqAIJRestoreArray, "MatSeqAIJGetArray");
  }
  check(PetscObjectStateIncrease(reinterpret_cast<PetscObject>(matrix)), "PetscObjectStateIncrease");
  check(MatGetOwnershipRange(matrix, &rows[0], &rows[1]), "MatGetOwnershipRange");
  check(MatGetOwnershipRangeColumn(matrix, &own[0], &own[1]), "MatGetOwnershipRangeColumn");
  std::array<std::uint64_t, 2> sums{};
  const PetscScalar* end = nullptr;
  for (PetscInt row = rows[0]; row < rows[1]; ++row) {
    PetscInt in_row = 0;
    const PetscInt* columns = nullptr;
    check(MatGetRow(matrix, row, &in_row, &columns, nullptr), "MatGetRow");
    for (PetscInt i = 0; i < in_row; ++i, ++sums[0]) {
      PetscScalar*& value = next[columns[i] >= own[0] && columns[i] < own[1] ? 0 : 1];
      if (value != end) {
        boxes.push_back({reinterpret_cast<std::byte*>(value), {begin + sums[0]}, {0}});
      }
      ++boxes.back().extent[0];
      end = ++value;
      auto mixed = (static_cast<std::uint64_t>(row) << 32U) + static_cast<std::uint64_t>(columns[i]) + 1;
      mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9ULL;
      sums[1] += (mixed ^ (mixed >> 27U)) * (2 * static_cast<std::uint64_t>(i) + 1);
    }
    check(MatRestoreRow(matrix, row, &in_row, &columns, nullptr), "MatRestoreRow");
  }
  return sums;
}

inline void add_nonzeros(Checkpoint& state, std::string name, Mat matrix, bool is_parallel) {
  std::vector<MemoryBox> unused;
  const auto mine = find_nonzeros(matrix, is_parallel, 0, unused);
  auto all = mine;
  std::uint64_t end = 0;
  MPI_Comm comm = PetscObjectComm(reinterpret_cast<PetscObject>(matrix));
  if (MPI_Scan(mine.data(), &end, 1, MPI_UINT64_T, MPI_SUM, comm) != MPI_SUCCESS ||
      MPI_Allreduce(mine.data(), all.data(), 2, MPI_UINT64_T, MPI_SUM, comm) != MPI_SUCCESS) {
    throw UsageError("MPI failed on the ranks of the matrix");
  }
  state.add_constant("nonzeros of " + name, all[1]);
  state.add_distributed(std::move(name), [=] {
    DistributedArray array{element_type_of<PetscScalar>(), {all[0]}, {}};
    if (find_nonzeros(matrix, is_parallel, end - mine[0], array.boxes) != mine) {
      throw UsageError(
          "the matrix has other nonzero elements than when it was registered: assemble all of them before");
    }
    return array;
  });
}

inline void add_dense(Checkpoint& state, std::string name, Mat matrix) {
  std::array<PetscInt, 2> all{};
  std::array<PetscInt, 2> rows{};
  check(MatGetSize(matrix, &all[0], &all[1]), "MatGetSize");
  check(MatGetOwnershipRange(matrix, &rows[0], &rows[1]), "MatGetOwnershipRange");
  const IndexList mine{rows[1] - rows[0], all[1]};
  const auto find = [=] {
    PetscInt next_column = 0;
    check(MatDenseGetLDA(matrix, &next_column), "MatDenseGetLDA");
    constexpr auto size = static_cast<std::ptrdiff_t>(sizeof(PetscScalar));
    return StridedView<PetscScalar>{values_of(matrix, MatDenseGetArray, MatDenseRestoreArray, "MatDenseGetArray"),
                                    mine,
                                    {size, size * next_column}};
  };
  state.add_distributed(std::move(name), find, {all[0], all[1]}, {rows[0], 0});
}

}  // namespace detail

/// Registers a matrix, which is restored on any number of ranks: a MATDENSE as an array of rows and columns; a MATAIJ
/// as its nonzero values, row by row. The program assembles it before. A MATAIJ has the same nonzero elements in every
/// launch: a checkpoint of others is a MismatchError. The matrix must outlive @p state. Each save counts as a change of
/// its values, so that the next solve computes the preconditioner again. Collective: yes, on the ranks of the matrix.
/// @throws UsageError for a matrix of another type or that is not assembled; when the state is saved or restored, if
/// the nonzero elements are no longer those of the registration
inline void add(Checkpoint& state, std::string name, Mat matrix) {
  MatType type = nullptr;
  PetscBool is_assembled = PETSC_FALSE;
  detail::check(MatGetType(matrix, &type), "MatGetType");
  detail::check(MatAssembled(matrix, &is_assembled), "MatAssembled");
  const std::string_view kind = is_assembled == PETSC_TRUE ? type : "";
  if (kind.starts_with(MATSEQAIJ) || kind.starts_with(MATMPIAIJ)) {
    detail::add_nonzeros(state, std::move(name), matrix, kind.starts_with(MATMPIAIJ));
  } else if (kind.starts_with(MATSEQDENSE) || kind.starts_with(MATMPIDENSE)) {
    detail::add_dense(state, std::move(name), matrix);
  } else {
    throw UsageError("the matrix is no MATDENSE and no MATAIJ, or it is not assembled");
  }
}

namespace detail {

/// Keeps the checkpoints of a solver while it lives.
class Run {
 public:
  Run(TS ts, Vec solution, const char* directory, const AddMore& add_more) : ts_(ts), solution_(solution) {
    state_.add_replicated("ts/time", time_);
    state_.add_replicated("ts/time_step", time_step_);
    state_.add_replicated("ts/step", step_);
    petsc::add(state_, "solution", solution);
    if (add_more) {
      add_more(state_);
    }
    read();
    handler_ = std::make_unique<PreemptionCheckpointHandler>(PetscObjectComm(reinterpret_cast<PetscObject>(ts)), state_,
                                                             directory);
    if (handler_->restored_from()) {
      check(TSSetTime(ts, time_), "TSSetTime");
      check(TSSetTimeStep(ts, time_step_), "TSSetTimeStep");
      check(TSSetStepNumber(ts, step_), "TSSetStepNumber");
      check(VecDuplicate(solution, &restored_), "VecDuplicate");
      check(VecCopy(solution, restored_), "VecCopy");
    }
    check(PetscObjectReference(reinterpret_cast<PetscObject>(solution_)), "PetscObjectReference");
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    static_cast<void>(VecDestroy(&restored_));
    static_cast<void>(VecDestroy(&solution_));
  }

  /// Before each step, and after the last one, which `finish` saves.
  void monitor(Vec solution) {
    TSConvergedReason reason = TS_CONVERGED_ITERATING;
    check_use(solution);
    read();
    check(TSGetConvergedReason(ts_, &reason), "TSGetConvergedReason");
    if (reason == TS_CONVERGED_ITERATING) {
      handler_->save_checkpoint_if_preempted();
    }
  }
  void finish() { handler_->finish(); }

 private:
  /// What else would be saved or computed is not what the program means.
  void check_use(Vec solution) {
    if (solution != solution_) {
      throw UsageError(
          "TSSolve works on another vector than preemptible got. TS_EXACTFINALTIME_INTERPOLATE makes one: choose "
          "TS_EXACTFINALTIME_MATCHSTEP or TS_EXACTFINALTIME_STEPOVER");
    }
    if (restored_ == nullptr) {
      return;
    }
    PetscInt step = 0;
    PetscBool is_same = PETSC_FALSE;
    check(TSGetStepNumber(ts_, &step), "TSGetStepNumber");
    check(VecEqual(solution, restored_, &is_same), "VecEqual");
    check(VecDestroy(&restored_), "VecDestroy");
    if (step != step_ || is_same == PETSC_FALSE) {
      throw UsageError(
          "the solution or the step was set after preemptible had restored it: set initial values before that call");
    }
  }
  void read() {
    check(TSGetTime(ts_, &time_), "TSGetTime");
    check(TSGetTimeStep(ts_, &time_step_), "TSGetTimeStep");
    check(TSGetStepNumber(ts_, &step_), "TSGetStepNumber");
  }

  TS ts_;
  Vec solution_;
  PetscReal time_ = 0;
  PetscReal time_step_ = 0;
  PetscInt step_ = 0;
  Vec restored_ = nullptr;  ///< a copy, until the first step
  Checkpoint state_;
  std::unique_ptr<PreemptionCheckpointHandler> handler_;
};

/// An error of the library as one of PETSc.
template <class Call>
PetscErrorCode guarded(MPI_Comm comm, Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return PetscError(comm, __LINE__, "reprieve", __FILE__, PETSC_ERR_LIB, PETSC_ERROR_INITIAL, "%s", error.what());
  }
  return {};
}

inline PetscErrorCode monitor(TS ts, PetscInt /*step*/, PetscReal /*time*/, Vec solution, void* run) {
  return guarded(PetscObjectComm(reinterpret_cast<PetscObject>(ts)),
                 [&] { static_cast<Run*>(run)->monitor(solution); });
}

inline PetscErrorCode finish(void** run) {
  const std::unique_ptr<Run> ended(static_cast<Run*>(*run));
  *run = nullptr;
  return guarded(PETSC_COMM_SELF, [&] { ended->finish(); });
}

}  // namespace detail

/// Makes `TSSolve(ts, solution)` preemptible, by a monitor that is a step boundary: restores the solution, the time,
/// the step and its length from the directory of the option -reprieve_directory, and saves and leaves when the job is
/// about to end. Without the option it does nothing. Settings come from the environment (REPRIEVE_...). Call it after
/// TSSetFromOptions and after the initial values are set, right before TSSolve; a second TSSolve continues in time.
/// TSDestroy is the end of the run. Steps of fixed length resume with the same bits; of adaptive ones of Runge-Kutta
/// methods that reuse a stage, the last bits differ. Methods that need earlier solutions (BDF) start at order
/// one. Collective: yes, on the ranks of @p ts.
/// @param add_more  adds to the state what belongs to the program; what it registers must live until TSDestroy
/// @return an error code of PETSc: PETSC_ERR_LIB, with the message of the library, where the handler throws
inline PetscErrorCode preemptible(TS ts, Vec solution, const AddMore& add_more = {}) {
  PetscFunctionBeginUser;
  const MPI_Comm comm = PetscObjectComm(reinterpret_cast<PetscObject>(ts));
  std::array<char, PETSC_MAX_PATH_LEN> directory{};
  PetscBool is_set = PETSC_FALSE;
  PetscOptionsBegin(comm, nullptr, "Checkpoints by Reprieve", "TS");
  PetscCall(PetscOptionsString("-reprieve_directory", "Their directory, which makes the solve preemptible", nullptr, "",
                               directory.data(), directory.size(), &is_set));
  PetscOptionsEnd();
  if (is_set == PETSC_TRUE) {
    std::unique_ptr<detail::Run> run;
    PetscCall(
        detail::guarded(comm, [&] { run = std::make_unique<detail::Run>(ts, solution, directory.data(), add_more); }));
    PetscCall(TSMonitorSet(ts, detail::monitor, run.release(), detail::finish));
  }
  PetscFunctionReturn(PetscErrorCode{});
}

}  // namespace reprieve::petsc
