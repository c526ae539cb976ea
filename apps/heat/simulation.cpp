// SPDX-License-Identifier: BSD-3-Clause
#include "heat/simulation.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <reprieve/error.hpp>
#include <thread>

#include "common/ranks.hpp"

namespace heat {
namespace {

reprieve::Extents to_extents(const Index& index) { return {index.begin(), index.end()}; }

Parameters parameters_of(const Options& options, const Grid& grid) {
  const double longest = greatest_stable_time_step(grid, options.diffusivity);
  return {options.boundary, options.modes, options.diffusivity, options.time_step_fraction * longest};
}

std::string text_of_parameters(const Parameters& parameters) {
  const auto& [boundary, modes, diffusivity, time_step] = parameters;
  return fmt::format("{} boundaries, modes {},{},{}, diffusivity {:.3e}, time step {:.3e}", to_string(boundary),
                     modes[2], modes[1], modes[0], diffusivity, time_step);
}

}  // namespace

Simulation::Simulation(const Options& options, MPI_Comm comm)
    : options_(options),
      grid_{options.points, options.boundary},
      topology_(comm, grid_, options.ranks),
      mode_(grid_, options.modes),
      parameters_(parameters_of(options, grid_)),
      saved_parameters_(parameters_),
      fields_{Field(topology_.my_box().extent), Field(topology_.my_box().extent)},
      halo_(topology_, present()),
      parts_(inner_and_surface(topology_.my_box().extent)) {
  for (std::size_t d = 0; d < kDimensions; ++d) {
    const double h = grid_.spacing(d);
    weights_[d] = parameters_.diffusivity * parameters_.time_step / (h * h);
  }
  for_each_point(present().extent(), [&](const Index& local) { present()[local] = mode_.initial(global(local)); });
}

void Simulation::register_state(reprieve::Checkpoint& checkpoint) {
  checkpoint.add_distributed("temperature", [this] { return present_array(); });
  checkpoint.add_replicated("progress/step", step_);
  checkpoint.add_replicated("progress/time", time_);
  checkpoint.add_replicated("parameters/boundary", saved_parameters_.boundary);
  checkpoint.add_replicated("parameters/modes", saved_parameters_.modes);
  checkpoint.add_replicated("parameters/diffusivity", saved_parameters_.diffusivity);
  checkpoint.add_replicated("parameters/time_step", saved_parameters_.time_step);
}

/// Asked for at every save and restore, since the two fields are swapped. The ghost layers are left out by the strides.
reprieve::DistributedArray Simulation::present_array() {
  Field& field = present();
  reprieve::DistributedLayout layout =
      reprieve::with_ghost_layers(to_extents(grid_.points), to_extents(topology_.my_box().offset),
                                  to_extents(field.extent()), reprieve::Extents(kDimensions, kGhost), sizeof(double));
  double* const first = &field[{0, 0, 0}];
  return {reprieve::element_type_of<double>(),
          std::move(layout.global_shape),
          {{reinterpret_cast<std::byte*>(first), std::move(layout.offset), std::move(layout.extent),
            std::move(layout.strides_bytes)}}};
}

void Simulation::check_restored() const {
  if (saved_parameters_ != parameters_) {
    throw reprieve::MismatchError("the checkpoint was made with " + text_of_parameters(saved_parameters_) +
                                  ", this run has " + text_of_parameters(parameters_) +
                                  ": give the same options, or another --checkpoint-dir");
  }
}

void Simulation::step() {
  Field& old = present();
  Field& updated = fields_[1 - present_];
  halo_.start(old);
  advance(old, updated, parts_.front(), weights_);  // while the ghost layers travel
  halo_.finish();
  std::for_each(parts_.begin() + 1, parts_.end(), [&](const Box& part) { advance(old, updated, part, weights_); });
  present_ = 1 - present_;
  ++step_;
  time_ = static_cast<double>(step_) * parameters_.time_step;
  // The library's sleep continues after a signal, so a notice does not shorten a step.
  std::this_thread::sleep_for(options_.step_delay);
}

Index Simulation::global(const Index& local) const noexcept {
  const Index& offset = topology_.my_box().offset;
  return {offset[0] + local[0], offset[1] + local[1], offset[2] + local[2]};
}

std::uint64_t Simulation::digest() const {
  const Field& field = present();
  std::uint64_t sum = 0;
  for_each_point(field.extent(), [&](const Index& local) {
    const Index at = global(local);
    const std::uint64_t position = (at[0] * grid_.points[1] + at[1]) * grid_.points[2] + at[2];
    const std::array<std::uint64_t, 2> words{position, std::bit_cast<std::uint64_t>(field[local])};
    sum += XXH3_64bits(words.data(), sizeof(words));
  });
  std::uint64_t total = 0;
  apps::check_mpi(MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, topology_.comm()), "MPI_Allreduce");
  return total;
}

double Simulation::error() const {
  const Field& field = present();
  const double decay = mode_.decay(parameters_.diffusivity, time_);
  double greatest = 0;
  for_each_point(field.extent(), [&](const Index& local) {
    const double difference = std::abs(field[local] - decay * mode_.initial(global(local)));
    greatest = difference <= greatest ? greatest : difference;  // keeps a NaN
  });
  double overall = 0;
  apps::check_mpi(MPI_Allreduce(&greatest, &overall, 1, MPI_DOUBLE, MPI_MAX, topology_.comm()), "MPI_Allreduce");
  return overall;
}

double Simulation::expected_error() const {
  return mode_.greatest_initial() *
         std::abs(mode_.decay_of_scheme(weights_, step_) - mode_.decay(parameters_.diffusivity, time_));
}

}  // namespace heat
