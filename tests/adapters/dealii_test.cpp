// SPDX-License-Identifier: BSD-3-Clause
// An adaptive mesh of deal.II and a solution on it, by deal.II's own files, restored on other numbers of ranks.

// GoogleTest first: a macro of deal.II changes its headers.
#include "support/mpi_test.hpp"
//
#include <deal.II/base/function.h>
#include <deal.II/distributed/solution_transfer.h>
#include <deal.II/distributed/tria.h>
#include <deal.II/dofs/dof_handler.h>
#include <deal.II/dofs/dof_tools.h>
#include <deal.II/fe/fe_q.h>
#include <deal.II/fe/mapping_q1.h>
#include <deal.II/grid/grid_generator.h>
#include <deal.II/lac/la_parallel_vector.h>
#include <deal.II/numerics/vector_tools.h>

#include <cmath>

#include "reprieve/reprieve.hpp"

namespace reprieve::test {
namespace {

/// The field that the tests save.
class Wave : public dealii::Function<2> {
 public:
  [[nodiscard]] double value(const dealii::Point<2>& x, unsigned int /*component*/) const override {
    return std::sin(5 * x[0]) + std::cos(7 * x[1]);
  }
};

class Problem {
 public:
  explicit Problem(MPI_Comm comm) : comm_(comm), mesh_(comm), dofs_(mesh_) {
    dealii::GridGenerator::hyper_L(mesh_);
    set_up();
  }

  /// Around a corner.
  void refine(int times) {
    for (int i = 0; i < times; ++i) {
      for (const auto& cell : mesh_.active_cell_iterators()) {
        if (cell->is_locally_owned() && cell->center().norm() < 0.8) {
          cell->set_refine_flag();
        }
      }
      mesh_.execute_coarsening_and_refinement();
    }
    set_up();
  }
  [[nodiscard]] auto cells() const { return mesh_.n_global_active_cells(); }

  void interpolate() { dealii::VectorTools::interpolate(dofs_, Wave(), solution_); }
  [[nodiscard]] double error() const {
    Vector expected(solution_);
    dealii::VectorTools::interpolate(dofs_, Wave(), expected);
    expected -= solution_;
    return expected.linfty_norm();
  }

  void write(const std::string& prefix) {
    solution_.update_ghost_values();
    Transfer transfer(dofs_);
    transfer.prepare_for_serialization(solution_);
    mesh_.save(prefix);
    solution_.zero_out_ghost_values();
  }
  void read(const std::string& prefix) {
    mesh_.load(prefix);
    set_up();  // degrees of freedom and vectors
    Transfer(dofs_).deserialize(solution_);
  }

 private:
  using Vector = dealii::LinearAlgebra::distributed::Vector<double>;
  using Transfer = dealii::parallel::distributed::SolutionTransfer<2, Vector>;

  void set_up() {
    dofs_.distribute_dofs(element_);
    solution_.reinit(dofs_.locally_owned_dofs(), dealii::DoFTools::extract_locally_relevant_dofs(dofs_), comm_);
  }

  MPI_Comm comm_;
  dealii::parallel::distributed::Triangulation<2> mesh_;
  dealii::FE_Q<2> element_{2};
  dealii::DoFHandler<2> dofs_;
  Vector solution_;
};

TEST(DealiiTest, AMeshAndItsSolutionAreRestoredOnAnyNumberOfRanks) {
  REPRIEVE_NEEDS_RANKS(3);
  const SharedTemporaryDirectory directory;
  const auto add = [&](Checkpoint& state, MPI_Comm comm, Problem& problem) {
    add_files(state, "mesh", comm, directory.path(),
              {.write = [&](const std::string& prefix) { problem.write(prefix); },
               .read = [&](const std::string& prefix) { problem.read(prefix); }});
  };
  dealii::types::global_cell_index cells = 0;
  for (const unsigned saved : {2U, 3U}) {
    on_first_ranks(static_cast<int>(saved), [&](MPI_Comm comm) {
      Problem problem(comm);
      Checkpoint state;
      add(state, comm, problem);
      problem.refine(5);
      problem.interpolate();
      cells = problem.cells();
      CheckpointManager(comm, state, directory / "checkpoints").save(saved);
    });
    MPI_Bcast(&cells, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    for (const int ranks : {1, 2, 3}) {
      on_first_ranks(ranks, [&](MPI_Comm comm) {
        Problem problem(comm);
        EXPECT_LT(problem.cells(), cells);
        Checkpoint state;
        add(state, comm, problem);
        EXPECT_TRUE(CheckpointManager(comm, state, directory / "checkpoints").restore_or_initialize().has_value());
        EXPECT_EQ(problem.cells(), cells);
        EXPECT_EQ(problem.error(), 0);
      });
    }
  }
}

}  // namespace
}  // namespace reprieve::test
