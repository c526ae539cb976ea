// SPDX-License-Identifier: BSD-3-Clause
// Matrices of PETSc as state, saved on two ranks and restored on other numbers of them.

#include "reprieve/petsc.hpp"

#include <functional>

#include "reprieve/checkpoint_manager.hpp"
#include "support/mpi_test.hpp"

namespace reprieve::test {
namespace {

constexpr PetscInt kRows = 17;
constexpr PetscInt kColumns = 19;

double value_of(PetscInt row, PetscInt column) { return 100.0 * static_cast<double>(row) + column + 0.5; }

/// A matrix that is destroyed with this.
class Matrix {
 public:
  Matrix(MPI_Comm comm, MatType type) {
    MatCreate(comm, &mat_);
    MatSetSizes(mat_, PETSC_DECIDE, PETSC_DECIDE, kRows, kColumns);
    MatSetType(mat_, type);
    MatSetUp(mat_);
    MatSetOption(mat_, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE);
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { MatDestroy(&mat_); }
  operator Mat() const { return mat_; }  // NOLINT(google-explicit-constructor)

  [[nodiscard]] PetscObjectState state() const {
    PetscObjectState state = 0;
    PetscObjectStateGet(reinterpret_cast<PetscObject>(mat_), &state);
    return state;
  }

  /// Row i has i % 5 elements, each on a column @p step further, and so in the parts of several ranks.
  void assemble(double factor, PetscInt step = 4) const {
    PetscInt begin = 0;
    PetscInt end = 0;
    MatGetOwnershipRange(mat_, &begin, &end);
    for (PetscInt row = begin; row < end; ++row) {
      for (PetscInt i = 0; i < row % 5; ++i) {
        const PetscInt column = (row + step * i) % kColumns;
        MatSetValue(mat_, row, column, factor * value_of(row, column), INSERT_VALUES);
      }
    }
    MatAssemblyBegin(mat_, MAT_FINAL_ASSEMBLY);
    MatAssemblyEnd(mat_, MAT_FINAL_ASSEMBLY);
  }
  void expect_assembled_by(double factor) const {
    PetscInt begin = 0;
    PetscInt end = 0;
    MatGetOwnershipRange(mat_, &begin, &end);
    for (PetscInt row = begin; row < end; ++row) {
      double sum = 0;
      for (PetscInt i = 0; i < row % 5; ++i) {
        const PetscInt column = (row + 4 * i) % kColumns;
        PetscScalar value = 0;
        MatGetValue(mat_, row, column, &value);
        EXPECT_EQ(value, factor * value_of(row, column));
        sum += value;
      }
      EXPECT_EQ(sum_of(row), sum);  // there is nothing else
    }
  }

 private:
  [[nodiscard]] double sum_of(PetscInt row) const {
    PetscInt count = 0;
    const PetscScalar* values = nullptr;
    double sum = 0;
    MatGetRow(mat_, row, &count, nullptr, &values);
    for (PetscInt i = 0; i < count; ++i) {
      sum += values[i];
    }
    MatRestoreRow(mat_, row, &count, nullptr, &values);
    return sum;
  }

  Mat mat_ = nullptr;
};

class PetscMatrix : public testing::TestWithParam<MatType> {
 protected:
  void save_on_two_ranks(MatType type) {
    on_first_ranks(2, [&](MPI_Comm comm) {
      const Matrix matrix(comm, type);
      matrix.assemble(1);
      CheckpointManager manager = opened(comm, matrix);
      matrix.assemble(3);  // after it was registered
      manager.save(1);
    });
  }
  CheckpointManager opened(MPI_Comm comm, Mat matrix) {
    state_ = Checkpoint();
    petsc::add(state_, "matrix", matrix);
    return {comm, state_, directory_ / "run"};
  }

  const SharedTemporaryDirectory directory_;
  Checkpoint state_;
};
INSTANTIATE_TEST_SUITE_P(Of, PetscMatrix, testing::Values(MATDENSE, MATAIJ));

TEST_P(PetscMatrix, IsRestoredOnAnyNumberOfRanks) {
  REPRIEVE_NEEDS_RANKS(3);
  save_on_two_ranks(GetParam());
  for (const int ranks : {1, 2, 3}) {
    on_first_ranks(ranks, [&](MPI_Comm comm) {
      const Matrix matrix(comm, GetParam());
      matrix.assemble(1);
      const PetscObjectState before = matrix.state();
      EXPECT_TRUE(opened(comm, matrix).restore_or_initialize().has_value());
      EXPECT_GT(matrix.state(), before);  // a preconditioner of the values before is not used
      matrix.expect_assembled_by(3);
    });
  }
}

/// As many of them, in the same rows.
TEST_F(PetscMatrix, OtherNonzeroElementsAreAnError) {
  REPRIEVE_NEEDS_RANKS(3);
  save_on_two_ranks(MATAIJ);
  on_first_ranks(3, [&](MPI_Comm comm) {
    const Matrix other(comm, MATAIJ);
    other.assemble(1, 3);
    CheckpointManager manager = opened(comm, other);
    EXPECT_THAT(error_of([&] { manager.restore_or_initialize(); }),
                is_error(ErrorCode::mismatch, "nonzeros of matrix"));
  });
  on_first_ranks(3, [&](MPI_Comm comm) {
    const Matrix more(comm, MATAIJ);
    more.assemble(1);
    CheckpointManager manager = opened(comm, more);
    more.assemble(1, 3);
    EXPECT_THAT(error_of([&] { manager.save(2); }), is_error(ErrorCode::usage, "has other nonzero elements"));
  });
}

TEST_F(PetscMatrix, OthersAreRefused) {
  REPRIEVE_NEEDS_RANKS(3);
  on_first_ranks(3, [&](MPI_Comm comm) {
    const Matrix blocks(comm, MATBAIJ);
    blocks.assemble(1);
    EXPECT_THAT(error_of([&] { petsc::add(state_, "blocks", blocks); }),
                is_error(ErrorCode::usage, "is no MATDENSE and no MATAIJ"));
    const Matrix empty(comm, MATAIJ);
    EXPECT_THAT(error_of([&] { petsc::add(state_, "empty", empty); }),
                is_error(ErrorCode::usage, "is no MATDENSE and no MATAIJ"));
  });
}

class PetscEnvironment : public testing::Environment {
 public:
  void SetUp() override { PetscInitializeNoArguments(); }
  void TearDown() override { PetscFinalize(); }
};
const auto* const kPetsc = testing::AddGlobalTestEnvironment(new PetscEnvironment);

}  // namespace
}  // namespace reprieve::test
