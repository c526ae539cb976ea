// SPDX-License-Identifier: BSD-3-Clause
// e2e_code_petsc: heat on a grid, in the shape of the tutorials of PETSc's TS. Its options are PETSc's, and
//   -reprieve_directory DIR   makes it preemptible
//   -pause_us N               makes each evaluation as long
//   -set_late 1               sets the initial values after the restore, which is a mistake
// Rank 0 prints "from STEP", and "final DIGEST" at the end: of all values, in no order.

#include "reprieve/petsc.hpp"

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <thread>

#include "reprieve/reprieve.hpp"

namespace {

struct Problem {
  PetscInt pause_us = 0;
};

PetscErrorCode right_hand_side(TS ts, PetscReal /*time*/, Vec u, Vec f, void* context) {
  DM grid = nullptr;
  Vec ghosted = nullptr;
  DMDALocalInfo info;
  const PetscScalar* const* in = nullptr;
  PetscScalar** out = nullptr;
  PetscFunctionBeginUser;
  PetscCall(TSGetDM(ts, &grid));
  PetscCall(DMDAGetLocalInfo(grid, &info));
  PetscCall(DMGetLocalVector(grid, &ghosted));
  PetscCall(DMGlobalToLocal(grid, u, INSERT_VALUES, ghosted));
  PetscCall(DMDAVecGetArrayRead(grid, ghosted, static_cast<void*>(&in)));
  PetscCall(DMDAVecGetArray(grid, f, static_cast<void*>(&out)));
  for (PetscInt y = info.ys; y < info.ys + info.ym; ++y) {
    for (PetscInt x = info.xs; x < info.xs + info.xm; ++x) {
      out[y][x] = in[y - 1][x] + in[y + 1][x] + in[y][x - 1] + in[y][x + 1] - 4 * in[y][x];
    }
  }
  PetscCall(DMDAVecRestoreArrayRead(grid, ghosted, static_cast<void*>(&in)));
  PetscCall(DMDAVecRestoreArray(grid, f, static_cast<void*>(&out)));
  PetscCall(DMRestoreLocalVector(grid, &ghosted));
  std::this_thread::sleep_for(std::chrono::microseconds(static_cast<Problem*>(context)->pause_us));
  PetscFunctionReturn(PetscErrorCode{});
}

PetscErrorCode set_initial_values(DM grid, Vec u) {
  DMDALocalInfo info;
  PetscScalar** values = nullptr;
  PetscFunctionBeginUser;
  PetscCall(DMDAGetLocalInfo(grid, &info));
  PetscCall(DMDAVecGetArray(grid, u, static_cast<void*>(&values)));
  for (PetscInt y = info.ys; y < info.ys + info.ym; ++y) {
    for (PetscInt x = info.xs; x < info.xs + info.xm; ++x) {
      values[y][x] = static_cast<PetscReal>((7 * x + 13 * y) % 17);
    }
  }
  PetscCall(DMDAVecRestoreArray(grid, u, static_cast<void*>(&values)));
  PetscFunctionReturn(PetscErrorCode{});
}

PetscErrorCode print_digest(DM grid, Vec u) {
  DMDALocalInfo info;
  const PetscScalar* const* values = nullptr;
  std::uint64_t digest = 0;
  PetscFunctionBeginUser;
  PetscCall(DMDAGetLocalInfo(grid, &info));
  PetscCall(DMDAVecGetArrayRead(grid, u, static_cast<void*>(&values)));
  for (PetscInt y = info.ys; y < info.ys + info.ym; ++y) {
    for (PetscInt x = info.xs; x < info.xs + info.xm; ++x) {
      const auto place = static_cast<std::uint64_t>(y * info.mx + x);
      digest += (std::bit_cast<std::uint64_t>(values[y][x]) ^ place) * 0x9e3779b97f4a7c15ULL;
    }
  }
  PetscCall(DMDAVecRestoreArrayRead(grid, u, static_cast<void*>(&values)));
  PetscCallMPI(MPI_Allreduce(MPI_IN_PLACE, &digest, 1, MPI_UINT64_T, MPI_SUM, PETSC_COMM_WORLD));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "final %016llx\n", static_cast<unsigned long long>(digest)));
  PetscFunctionReturn(PetscErrorCode{});
}

PetscErrorCode solve(Problem& problem) {
  DM grid = nullptr;
  Vec u = nullptr;
  TS ts = nullptr;
  PetscInt step = 0;
  PetscBool late = PETSC_FALSE;
  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetInt(nullptr, nullptr, "-pause_us", &problem.pause_us, nullptr));
  PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_PERIODIC, DM_BOUNDARY_PERIODIC, DMDA_STENCIL_STAR, 40, 30,
                         PETSC_DECIDE, PETSC_DECIDE, 1, 1, nullptr, nullptr, &grid));
  PetscCall(DMSetFromOptions(grid));
  PetscCall(DMSetUp(grid));
  PetscCall(DMCreateGlobalVector(grid, &u));
  PetscCall(set_initial_values(grid, u));
  PetscCall(TSCreate(PETSC_COMM_WORLD, &ts));
  PetscCall(TSSetDM(ts, grid));
  PetscCall(TSSetType(ts, TSEULER));
  PetscCall(TSSetRHSFunction(ts, nullptr, right_hand_side, &problem));
  PetscCall(TSSetTimeStep(ts, 0.1));
  PetscCall(TSSetMaxSteps(ts, 1000));
  PetscCall(TSSetMaxTime(ts, 1e9));
  PetscCall(TSSetExactFinalTime(ts, TS_EXACTFINALTIME_STEPOVER));
  PetscCall(TSSetFromOptions(ts));
  PetscCall(reprieve::petsc::preemptible(ts, u));
  PetscCall(PetscOptionsHasName(nullptr, nullptr, "-set_late", &late));
  if (late == PETSC_TRUE) {
    PetscCall(set_initial_values(grid, u));
  }
  PetscCall(TSGetStepNumber(ts, &step));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "from %d\n", static_cast<int>(step)));
  PetscCall(TSSolve(ts, u));
  PetscCall(print_digest(grid, u));
  PetscCall(TSDestroy(&ts));
  PetscCall(VecDestroy(&u));
  PetscCall(DMDestroy(&grid));
  PetscFunctionReturn(PetscErrorCode{});
}

}  // namespace

int main(int argc, char** argv) {
  reprieve::watch_signals();
  PetscCall(PetscInitialize(&argc, &argv, nullptr, nullptr));
  Problem problem;
  PetscCall(solve(problem));
  return PetscFinalize();
}
