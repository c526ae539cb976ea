// SPDX-License-Identifier: BSD-3-Clause
// e2e_code_petsc_loads DIR: a nonlinear problem (Bratu's) whose load grows step by step; SNES solves each from the
// solution before. Options are PETSc's, and -pause_us N makes each step as long. Rank 0 prints "from STEP", and at the
// end "norm NORM" and "final ..." with all digits of it.

#include <array>
#include <chrono>
#include <cmath>
#include <thread>

#include "reprieve/petsc.hpp"
#include "reprieve/reprieve.hpp"

namespace {

constexpr int kSteps = 60;

/// What a step cannot continue from.
void check(PetscErrorCode code) {
  if (code != 0) {
    throw std::runtime_error("PETSc failed, and has printed why");
  }
}

PetscErrorCode residual(DMDALocalInfo* info, PetscScalar** u, PetscScalar** f, double* load) {
  const double h = 1.0 / (info->mx - 1);
  for (PetscInt y = info->ys; y < info->ys + info->ym; ++y) {
    for (PetscInt x = info->xs; x < info->xs + info->xm; ++x) {
      const bool is_edge = x == 0 || y == 0 || x == info->mx - 1 || y == info->my - 1;
      f[y][x] = is_edge ? u[y][x]
                        : 4 * u[y][x] - u[y - 1][x] - u[y + 1][x] - u[y][x - 1] - u[y][x + 1] -
                              *load * h * h * std::exp(u[y][x]);
    }
  }
  return PetscErrorCode{};
}

void solve(const char* directory, PetscInt pause_us) {
  DM grid = nullptr;
  Vec u = nullptr;
  SNES solver = nullptr;
  double load = 0;
  check(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, 24, 24, PETSC_DECIDE,
                     PETSC_DECIDE, 1, 1, nullptr, nullptr, &grid));
  check(DMSetUp(grid));
  check(DMDASNESSetFunctionLocal(grid, INSERT_VALUES, reinterpret_cast<DMDASNESFunction>(residual), &load));
  check(SNESCreate(PETSC_COMM_WORLD, &solver));
  check(SNESSetDM(solver, grid));
  check(SNESSetFromOptions(solver));
  check(DMCreateGlobalVector(grid, &u));
  {
    reprieve::Checkpoint state;
    reprieve::petsc::add(state, "solution", u);
    reprieve::PreemptionCheckpointHandler handler(PETSC_COMM_WORLD, state, directory);
    check(PetscPrintf(PETSC_COMM_WORLD, "from %d\n", static_cast<int>(handler.total_run_calls())));
    while (handler.total_run_calls() < kSteps) {
      handler.run([&] {
        load = 0.1 * static_cast<double>(handler.total_run_calls() + 1);
        check(SNESSolve(solver, nullptr, u));
        std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
      });
    }
    handler.finish();
  }
  PetscReal norm = 0;
  check(VecNorm(u, NORM_2, &norm));
  check(PetscPrintf(PETSC_COMM_WORLD, "norm %.6f\nfinal %.17g\n", norm, norm));
  check(SNESDestroy(&solver));
  check(VecDestroy(&u));
  check(DMDestroy(&grid));
}

}  // namespace

int main(int argc, char** argv) {
  reprieve::watch_signals();
  PetscCall(PetscInitialize(&argc, &argv, nullptr, nullptr));
  PetscInt pause_us = 0;
  PetscCall(PetscOptionsGetInt(nullptr, nullptr, "-pause_us", &pause_us, nullptr));
  solve(argv[1], pause_us);
  return PetscFinalize();
}
