// SPDX-License-Identifier: BSD-3-Clause
// Multivectors of Tpetra as state, saved on two ranks and restored on other numbers of them.

#include "reprieve/tpetra.hpp"

#include <Teuchos_DefaultMpiComm.hpp>
#include <Tpetra_Core.hpp>
#include <Tpetra_Map.hpp>
#include <functional>

#include "reprieve/checkpoint_manager.hpp"
#include "support/mpi_test.hpp"

namespace reprieve::test {
namespace {

using Map = Tpetra::Map<>;
using Vectors = Tpetra::MultiVector<double>;
using MakeMap = std::function<Teuchos::RCP<const Map>(MPI_Comm)>;

constexpr int kRows = 23;
constexpr int kColumns = 3;

Teuchos::RCP<const Teuchos::Comm<int>> wrapped(MPI_Comm comm) { return Teuchos::rcp(new Teuchos::MpiComm<int>(comm)); }

/// @param base  the first global index
Teuchos::RCP<const Map> contiguous(MPI_Comm comm, int base) {
  return Teuchos::rcp(new Map(static_cast<Tpetra::global_size_t>(kRows), base, wrapped(comm)));
}

/// @param shared  so many of the indexes after its last one are a rank's as well; of a cyclic map 0
Teuchos::RCP<const Map> of_indexes(MPI_Comm comm, bool is_cyclic, int shared) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  Teuchos::Array<Map::global_ordinal_type> mine;
  for (int i = 0; i < kRows; ++i) {
    const bool in_range = i * size >= rank * kRows && (i - shared) * size < (rank + 1) * kRows;
    if (is_cyclic ? i % size == rank : in_range) {
      mine.push_back(i);
    }
  }
  return Teuchos::rcp(new Map(Teuchos::OrdinalTraits<Tpetra::global_size_t>::invalid(), mine(), 0, wrapped(comm)));
}

double value_of(Map::global_ordinal_type index, int column) {
  return 100.0 * column + static_cast<double>(index) + 0.5;
}

void fill(Vectors& vectors) {
  for (int column = 0; column < kColumns; ++column) {
    for (std::size_t i = 0; i < vectors.getLocalLength(); ++i) {
      const auto index = vectors.getMap()->getGlobalElement(static_cast<int>(i));
      vectors.replaceGlobalValue(index, static_cast<std::size_t>(column), value_of(index, column));
    }
  }
}

void expect_filled(const Vectors& vectors) {
  for (int column = 0; column < kColumns; ++column) {
    const auto values = vectors.getData(static_cast<std::size_t>(column));
    for (int i = 0; i < static_cast<int>(values.size()); ++i) {
      EXPECT_EQ(values[i], value_of(vectors.getMap()->getGlobalElement(i), column));
    }
  }
}

class TpetraTest : public testing::Test {
 protected:
  /// Saves on two ranks, in a directory of its own.
  void save(const MakeMap& make_map, bool is_shared = false) {
    ++runs_;
    on_first_ranks(2, [&](MPI_Comm comm) {
      Vectors vectors(make_map(comm), kColumns);
      CheckpointManager manager = opened(comm, vectors, is_shared);
      fill(vectors);  // after it was registered
      manager.save(1);
    });
  }
  void restore(int ranks, const MakeMap& make_map, bool is_shared = false) {
    on_first_ranks(ranks, [&](MPI_Comm comm) {
      Vectors vectors(make_map(comm), kColumns);
      EXPECT_TRUE(opened(comm, vectors, is_shared).restore_or_initialize().has_value());
      expect_filled(vectors);
    });
  }
  CheckpointManager opened(MPI_Comm comm, Vectors& vectors, bool is_shared = false) {
    state_ = Checkpoint();
    tpetra::add(state_, "vectors", vectors);
    if (is_shared) {
      state_.allow_shared("vectors");
    }
    return {comm, state_, directory_ / std::to_string(runs_)};
  }

  const SharedTemporaryDirectory directory_;
  Checkpoint state_;
  int runs_ = 0;
};

TEST_F(TpetraTest, RestoresByGlobalIndexOnAnyRanksAndMap) {
  REPRIEVE_NEEDS_RANKS(3);
  const MakeMap ranges = [](MPI_Comm comm) { return contiguous(comm, 0); };
  const MakeMap cyclic = [](MPI_Comm comm) { return of_indexes(comm, true, 0); };
  for (const auto& saved : {ranges, cyclic}) {
    save(saved);
    for (const int ranks : {1, 2, 3}) {
      restore(ranks, ranges);
      restore(ranks, cyclic);
    }
  }
}

TEST_F(TpetraTest, IndexesNeedNotBeginAtZero) {
  REPRIEVE_NEEDS_RANKS(3);
  const MakeMap from_one = [](MPI_Comm comm) { return contiguous(comm, 1); };
  save(from_one);
  restore(3, from_one);
}

TEST_F(TpetraTest, RanksMayShareIndexesIfThatIsAllowed) {
  REPRIEVE_NEEDS_RANKS(3);
  const MakeMap overlapping = [](MPI_Comm comm) { return of_indexes(comm, false, 2); };
  save(overlapping, true);
  restore(3, overlapping, true);
  restore(2, overlapping, true);
  on_first_ranks(3, [&](MPI_Comm comm) {
    Vectors vectors(overlapping(comm), kColumns);
    CheckpointManager manager = opened(comm, vectors);
    EXPECT_THAT(error_of([&] { manager.save(2); }), is_error(ErrorCode::usage, "'vectors'", "overlap", "allow_shared"));
  });
}

TEST_F(TpetraTest, ColumnsOfALargerMultivectorKeepTheirStride) {
  REPRIEVE_NEEDS_RANKS(3);
  on_first_ranks(3, [&](MPI_Comm comm) {
    Vectors all(contiguous(comm, 0), kColumns + 2);
    const auto inner = all.subViewNonConst(Teuchos::Range1D(1, kColumns));
    CheckpointManager manager = opened(comm, *inner);
    fill(*inner);
    manager.save(1);
    all.putScalar(0);
    EXPECT_TRUE(manager.restore_or_initialize().has_value());
    expect_filled(*inner);
    EXPECT_EQ(all.getData(0)[0], 0);
    EXPECT_EQ(all.getData(kColumns + 1)[0], 0);
  });
}

TEST_F(TpetraTest, ColumnsThatLieApartAreRefused) {
  REPRIEVE_NEEDS_RANKS(3);
  on_first_ranks(3, [&](MPI_Comm comm) {
    Vectors all(contiguous(comm, 0), kColumns + 2);
    const auto chosen = all.subViewNonConst(Teuchos::tuple<std::size_t>(0, 2, 3)());
    CheckpointManager manager = opened(comm, *chosen);
    EXPECT_THAT(error_of([&] { manager.save(1); }), is_error(ErrorCode::usage, "chosen columns of another one"));
  });
}

class Environment : public testing::Environment {
 public:
  void SetUp() override {
    int count = 0;
    char** arguments = nullptr;
    Tpetra::initialize(&count, &arguments);
  }
  void TearDown() override { Tpetra::finalize(); }
};
const auto* const kEnvironment = testing::AddGlobalTestEnvironment(new Environment);

}  // namespace
}  // namespace reprieve::test
