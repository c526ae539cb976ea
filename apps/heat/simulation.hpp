// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The simulation: what it is asked to do, the ranks as a Cartesian grid that exchange ghost layers, and one time step
/// at a time.

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <reprieve/checkpoint.hpp>
#include <vector>

#include "common/program.hpp"
#include "heat/grid.hpp"

namespace heat {

struct Options : apps::ProgramOptions {
  Index points{64, 64, 64};
  Boundary boundary = Boundary::dirichlet;
  Modes modes{1, 1, 1};
  double diffusivity = 1;
  double time_step_fraction = 0.9;  ///< of the longest stable time step
  std::uint64_t steps = 2000;
  Index ranks{};               ///< per dimension; 0: as MPI likes
  std::filesystem::path xdmf;  ///< the side file for ParaView; empty: none
  std::chrono::milliseconds progress_interval{2000};
};

/// Reads the command line, the file that `--config` names, and the environment. Not collective.
/// @throws reprieve::ConfigError, reprieve::StorageError
Options parse_options(int argc, const char* const* argv);

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

/// What a run is about. Saved with it, so that one is not continued as another.
struct Parameters {
  Boundary boundary = Boundary::dirichlet;
  Modes modes{};
  double diffusivity = 0;
  double time_step = 0;

  friend bool operator==(const Parameters&, const Parameters&) = default;
};

/// u_t = diffusivity * laplace(u) on the unit cube: explicit Euler in time, the 7-point stencil in space.
class Simulation {
 public:
  /// Collective. @p options must outlive this.
  /// @throws reprieve::ConfigError if the ranks or the modes do not fit the grid
  Simulation(const Options& options, MPI_Comm comm);

  /// Registers the state, which lives in this object: the present one of the two fields, where it lies.
  void register_state(reprieve::Checkpoint& checkpoint);

  /// To be called when a checkpoint was restored. Not collective; the same on every rank.
  /// @throws reprieve::MismatchError if it was made with other parameters
  void check_restored() const;

  /// One time step. Collective.
  void step();

  [[nodiscard]] bool finished() const noexcept { return step_ >= options_.steps; }
  [[nodiscard]] std::uint64_t total_steps() const noexcept { return options_.steps; }
  [[nodiscard]] std::uint64_t steps_done() const noexcept { return step_; }
  [[nodiscard]] double time() const noexcept { return time_; }
  [[nodiscard]] const Grid& grid() const noexcept { return grid_; }
  [[nodiscard]] const Topology& topology() const noexcept { return topology_; }
  [[nodiscard]] const Parameters& parameters() const noexcept { return parameters_; }

  /// A fingerprint of the whole field, which does not depend on how it is split: the sum of one hash per point, made of
  /// its global position and the bits of its value. Collective; the same on every rank.
  [[nodiscard]] std::uint64_t digest() const;

  /// The greatest difference between the field and the analytic solution. Collective; the same on every rank.
  [[nodiscard]] double error() const;
  /// The error that the scheme makes in exact arithmetic.
  [[nodiscard]] double expected_error() const;

 private:
  [[nodiscard]] Field& present() noexcept { return fields_[present_]; }
  [[nodiscard]] const Field& present() const noexcept { return fields_[present_]; }
  [[nodiscard]] Index global(const Index& local) const noexcept;
  [[nodiscard]] reprieve::DistributedArray present_array();

  const Options& options_;
  Grid grid_;
  Topology topology_;
  SineMode mode_;
  Parameters parameters_;
  Parameters saved_parameters_;  ///< of the checkpoint, after a restore
  Vector weights_{};

  std::array<Field, 2> fields_;  ///< the present temperature, and the buffer for the next
  std::size_t present_ = 0;
  HaloExchange halo_;
  std::vector<Box> parts_;  ///< of the rank's box: the inner one, which needs no ghost layers, and the surface

  std::uint64_t step_ = 0;
  double time_ = 0;
};

/// The result of a run as JSON, for scripts.
struct Summary : apps::Outcome {
  Index ranks{};
  std::uint64_t step = 0;
  double time = 0;
  std::uint64_t digest = 0;  ///< of the field
  double error = 0;
  double expected_error = 0;
};

/// Collective; the same on every rank.
Summary summary_of(const Simulation& simulation);

/// apps/heat/README.md describes the keys.
apps::Json to_json(const Summary& summary);

}  // namespace heat
