// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The ranks as a Cartesian grid, and the exchange of ghost layers between neighbours.

#include <mpi.h>

#include <array>
#include <vector>

#include "heat/grid.hpp"

namespace heat {

/// A Cartesian communicator: which part of the grid each rank has, and who its neighbours are.
class Topology {
 public:
  /// Collective. @p wanted gives the number of ranks per dimension; 0 leaves it to MPI.
  /// @throws reprieve::ConfigError if the ranks cannot be arranged so, or there are too many for the grid
  Topology(MPI_Comm comm, const Grid& grid, const Index& wanted);
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  /// The ranks in the order of the Cartesian grid.
  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }
  [[nodiscard]] const Index& ranks() const noexcept { return ranks_; }
  [[nodiscard]] const Box& my_box() const noexcept { return box_; }
  /// MPI_PROC_NULL beyond a Dirichlet boundary.
  [[nodiscard]] int lower_neighbour(std::size_t dimension) const noexcept { return lower_[dimension]; }
  [[nodiscard]] int upper_neighbour(std::size_t dimension) const noexcept { return upper_[dimension]; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  Index ranks_{};
  Box box_;
  std::array<int, kDimensions> lower_{};
  std::array<int, kDimensions> upper_{};
};

/// Fills the ghost layers of fields of one extent. The faces are described to MPI as they lie in memory: no copies.
class HaloExchange {
 public:
  /// Not collective. @p topology must outlive this.
  HaloExchange(const Topology& topology, const Field& field);
  ~HaloExchange();
  HaloExchange(const HaloExchange&) = delete;
  HaloExchange& operator=(const HaloExchange&) = delete;

  /// Begins the exchange. Until `finish` the interior of @p field may be read, and its ghost layers may not.
  /// Collective.
  void start(Field& field);
  /// Waits until the ghost layers are there.
  void finish();

 private:
  /// The layers of one dimension.
  struct Faces {
    MPI_Datatype lower_ghost;
    MPI_Datatype lower;
    MPI_Datatype upper;
    MPI_Datatype upper_ghost;
  };

  const Topology& topology_;
  std::array<Faces, kDimensions> faces_{};
  std::vector<MPI_Request> requests_;
};

}  // namespace heat
