// SPDX-License-Identifier: BSD-3-Clause
#include "heat/halo.hpp"

#include <algorithm>
#include <iostream>
#include <limits>
#include <reprieve/error.hpp>
#include <string>

#include "common/ranks.hpp"

namespace heat {
namespace {

using apps::check_mpi;
using IntIndex = std::array<int, kDimensions>;

int to_int(std::size_t value) {
  if (value > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw reprieve::ConfigError("--grid: too many points in one dimension for MPI: " + std::to_string(value));
  }
  return static_cast<int>(value);
}

IntIndex to_ints(const Index& index) { return {to_int(index[0]), to_int(index[1]), to_int(index[2])}; }

Index to_index(const IntIndex& values) {
  Index index{};
  std::transform(values.begin(), values.end(), index.begin(), [](int v) { return static_cast<std::size_t>(v); });
  return index;
}

/// How many ranks each dimension gets. Depends on the arguments alone, so all ranks come to the same, or throw the
/// same.
Index arrange(int size, const Index& points, const Index& wanted) {
  IntIndex dims = to_ints(wanted);
  int fixed = 1;
  for (const int dim : dims) {
    fixed *= std::max(dim, 1);
  }
  const bool all_fixed = std::find(dims.begin(), dims.end(), 0) == dims.end();
  if (size % fixed != 0 || (all_fixed && fixed != size)) {
    throw reprieve::ConfigError("--ranks " + text_of(wanted) + " cannot be made of " + std::to_string(size) +
                                " ranks (0 leaves a dimension open)");
  }
  check_mpi(MPI_Dims_create(size, static_cast<int>(dims.size()), dims.data()), "MPI_Dims_create");
  const bool all_open = wanted == Index{};
  const Index ranks = all_open ? matched_to(points, to_index(dims)) : to_index(dims);
  for (std::size_t d = 0; d < kDimensions; ++d) {
    if (ranks[d] > points[d]) {
      throw reprieve::ConfigError("a grid of " + text_of(points) + " points cannot be split over " + text_of(ranks) +
                                  " ranks: use fewer ranks, a finer --grid, or another split with --ranks");
    }
  }
  return ranks;
}

void free_type(MPI_Datatype& type) {
  if (type != MPI_DATATYPE_NULL && MPI_Type_free(&type) != MPI_SUCCESS) {
    std::cerr << "reprieve-heat: MPI_Type_free failed" << std::endl;
  }
}

/// Layer @p layer of the padded field in one dimension, without the ghost layers of the others: the stencil has no
/// corners.
MPI_Datatype layer_type(const Field& field, std::size_t dimension, std::size_t layer) {
  const IntIndex sizes = to_ints(field.padded());
  IntIndex subsizes = to_ints(field.extent());
  IntIndex starts{};
  starts.fill(static_cast<int>(kGhost));
  subsizes[dimension] = static_cast<int>(kGhost);
  starts[dimension] = to_int(layer);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_create_subarray(static_cast<int>(kDimensions), sizes.data(), subsizes.data(), starts.data(),
                                     MPI_ORDER_C, MPI_DOUBLE, &type),
            "MPI_Type_create_subarray");
  check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

}  // namespace

Topology::Topology(MPI_Comm comm, const Grid& grid, const Index& wanted) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  ranks_ = arrange(size, grid.points, wanted);
  const IntIndex dims = to_ints(ranks_);
  IntIndex periods{};
  periods.fill(grid.boundary == Boundary::periodic ? 1 : 0);
  constexpr int kMayReorder = 1;
  constexpr int kCount = static_cast<int>(kDimensions);
  check_mpi(MPI_Cart_create(comm, kCount, dims.data(), periods.data(), kMayReorder, &comm_), "MPI_Cart_create");
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
  IntIndex coordinates{};
  check_mpi(MPI_Cart_coords(comm_, rank, kCount, coordinates.data()), "MPI_Cart_coords");
  box_ = box_of(grid.points, ranks_, to_index(coordinates));
  for (int d = 0; d < kCount; ++d) {
    const auto i = static_cast<std::size_t>(d);
    check_mpi(MPI_Cart_shift(comm_, d, 1, &lower_[i], &upper_[i]), "MPI_Cart_shift");
  }
}

Topology::~Topology() {
  if (comm_ != MPI_COMM_NULL && MPI_Comm_free(&comm_) != MPI_SUCCESS) {
    std::cerr << "reprieve-heat: MPI_Comm_free failed" << std::endl;
  }
}

HaloExchange::HaloExchange(const Topology& topology, const Field& field) : topology_(topology) {
  for (std::size_t d = 0; d < kDimensions; ++d) {
    const std::size_t last = field.extent()[d];
    faces_[d] = {layer_type(field, d, 0), layer_type(field, d, kGhost), layer_type(field, d, last),
                 layer_type(field, d, last + kGhost)};
  }
}

HaloExchange::~HaloExchange() {
  for (Faces& faces : faces_) {
    free_type(faces.lower_ghost);
    free_type(faces.lower);
    free_type(faces.upper);
    free_type(faces.upper_ghost);
  }
}

void HaloExchange::start(Field& field) {
  const auto receive = [&](MPI_Datatype type, int from, int tag) {
    requests_.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Irecv(field.data(), 1, type, from, tag, topology_.comm(), &requests_.back()), "MPI_Irecv");
  };
  const auto send = [&](MPI_Datatype type, int to, int tag) {
    requests_.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(field.data(), 1, type, to, tag, topology_.comm(), &requests_.back()), "MPI_Isend");
  };
  // The direction is part of the tag, since the same rank may be both neighbours.
  for (std::size_t d = 0; d < kDimensions; ++d) {
    const int upwards = 2 * static_cast<int>(d);
    const int downwards = upwards + 1;
    receive(faces_[d].lower_ghost, topology_.lower_neighbour(d), upwards);
    receive(faces_[d].upper_ghost, topology_.upper_neighbour(d), downwards);
    send(faces_[d].upper, topology_.upper_neighbour(d), upwards);
    send(faces_[d].lower, topology_.lower_neighbour(d), downwards);
  }
}

void HaloExchange::finish() {
  check_mpi(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  requests_.clear();
}

}  // namespace heat
