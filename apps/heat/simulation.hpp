// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The simulation itself: one time step at a time.

#include <cstdint>
#include <reprieve/checkpoint.hpp>
#include <string>
#include <vector>

#include "heat/grid.hpp"
#include "heat/halo.hpp"
#include "heat/options.hpp"

namespace heat {

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

}  // namespace heat
