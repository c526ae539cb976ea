// SPDX-License-Identifier: BSD-3-Clause
#include "heat/simulation.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <reprieve/error.hpp>
#include <string>
#include <thread>

#include "common/ranks.hpp"

namespace heat {
namespace {

using apps::between;

constexpr const char* kDescription =
    "Solves the heat equation in a cube, on any number of MPI ranks, and survives preemption: a SIGTERM or SIGUSR1 to\n"
    "any rank makes all ranks save one checkpoint and leave with exit code 42; the same command, on as many ranks as "
    "you\n"
    "like, then continues where it stopped and comes to the same bits. The start is a product of sines, whose decay "
    "is\n"
    "known: at the end the error is printed beside the one that the scheme must have.";

constexpr const char* kExamples = R"(Examples:
  On 4 ranks, with checkpoints in ./checkpoints, and again to see that there is nothing left to do:
    mpirun -n 4 reprieve-heat
  Steps slow enough to watch, a preemption from another terminal (one rank is enough), and on with 3 ranks:
    mpirun -n 4 reprieve-heat --step-delay-ms 5 --checkpoint-dir run1
    kill -TERM $(pgrep -n reprieve-heat)
    mpirun -n 3 reprieve-heat --step-delay-ms 5 --checkpoint-dir run1
  A slab with periodic boundaries, split along z alone, a checkpoint every 500 steps:
    mpirun -n 4 reprieve-heat --grid 128,128,16 --boundary periodic --modes 2,1,1 --ranks 1,1,0 --checkpoint-every 500
  Options from a file, one of them overridden, the result as JSON:
    mpirun -n 4 reprieve-heat --config heat.json --steps 500 --summary summary.json
Exit codes: 0 finished, 42 preempted and saved (start me again), 2 wrong options, 1 any other error.
The file is JSON: these options in its section "heat", as in {"heat": {"grid": [64, 64, 64], "steps": 500}}; settings of
the library in its other sections, and in REPRIEVE_... variables as well.)";

/// An option of three numbers: x,y,z as people name them, z, y, x as they lie in memory and in the file.
CLI::Option* add_three(CLI::App& app, const std::string& name, std::array<std::uint64_t, kDimensions>& values,
                       const std::string& help) {
  const auto store = [&values](const std::vector<std::uint64_t>& given) {
    std::reverse_copy(given.begin(), given.end(), values.begin());
  };
  const std::string start =
      std::to_string(values[2]) + "," + std::to_string(values[1]) + "," + std::to_string(values[0]);
  return app.add_option_function<std::vector<std::uint64_t>>(name, store, help)
      ->delimiter(',')
      ->expected(static_cast<int>(kDimensions))
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw)  // of "1,2,3,4" the last three would be taken
      ->option_text("X,Y,Z=" + start);
}

void add_equation_options(CLI::App& app, Options& options) {
  constexpr std::uint64_t kMostPoints = 1'000'000;
  const std::map<std::string, Boundary> boundaries{{"dirichlet", Boundary::dirichlet},
                                                   {"periodic", Boundary::periodic}};
  add_three(app, "--grid", options.points, "points per dimension")->check(between(std::uint64_t{1}, kMostPoints));
  app.add_option("--boundary", options.boundary, "zero on the surface of the cube, or periodic")
      ->transform(CLI::CheckedTransformer(boundaries).description(""))
      ->default_str("dirichlet")
      ->type_name("dirichlet|periodic");
  add_three(app, "--modes", options.modes, "half waves (periodic: waves) of the initial temperature")
      ->check(between(std::uint64_t{1}, kMostPoints));
  app.add_option("--diffusivity", options.diffusivity, "how fast heat spreads, in cubes' edges squared per time")
      ->capture_default_str()
      ->check(between(1e-12, 1e12));
  app.add_option("--time-step", options.time_step_fraction, "as a fraction of the longest that is stable")
      ->option_text("FRACTION=0.9")
      ->check(between(1e-6, 1.0));
  app.add_option("--steps", options.steps, "when to stop, counted over all restarts")
      ->capture_default_str()
      ->check(between(std::uint64_t{1}, std::uint64_t{1'000'000'000'000}));
  add_three(app, "--ranks", options.ranks, "ranks per dimension; 0: as MPI likes")
      ->check(between(std::uint64_t{0}, kMostPoints));
  app.add_option(
         "--xdmf", options.xdmf,
         "side file with which ParaView opens the checkpoints; \"none\": do not write it (default: heat.xdmf in\n"
         "the checkpoint directory)")
      ->type_name("FILE");
}

/// The file for ParaView, where the checkpoints are known.
std::filesystem::path xdmf_file(const Options& options) {
  if (options.xdmf.empty()) {
    return std::filesystem::path(options.settings.directory) / "heat.xdmf";
  }
  return options.xdmf == "none" ? std::filesystem::path() : options.xdmf;
}

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

Options parse_options(int argc, const char* const* argv) {
  Options options;
  double progress_s = 2;
  apps::CommandLine line(kDescription, "reprieve-heat", "heat");
  line.app().footer(kExamples);
  add_equation_options(line.app(), options);
  line.app()
      .add_option("--progress", progress_s, "time between lines of progress; 0: none")
      ->option_text("SECONDS=2")
      ->check(between(0.0, 1e6));
  line.add_common_options(options);
  line.parse(argc, argv, options);
  if (options.answer.empty()) {
    options.progress_interval = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * progress_s));
    options.xdmf = xdmf_file(options);
  }
  return options;
}

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
    for (MPI_Datatype* type : {&faces.lower_ghost, &faces.lower, &faces.upper, &faces.upper_ghost}) {
      if (*type != MPI_DATATYPE_NULL && MPI_Type_free(type) != MPI_SUCCESS) {
        std::cerr << "reprieve-heat: MPI_Type_free failed" << std::endl;
      }
    }
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

Summary summary_of(const Simulation& simulation) {
  return {{},
          simulation.topology().ranks(),
          simulation.steps_done(),
          simulation.time(),
          simulation.digest(),
          simulation.error(),
          simulation.expected_error()};
}

apps::Json to_json(const Summary& summary) {
  using apps::Json;
  const auto& restored = summary.restored_digest;
  return {
      {"status", summary.preemption ? "preempted" : "finished"},
      {"world_size", summary.world_size},
      {"ranks", {summary.ranks[2], summary.ranks[1], summary.ranks[0]}},
      {"step", summary.step},
      {"time", summary.time},
      {"restored_from", summary.restored_from ? Json(*summary.restored_from) : Json()},
      {"restored_digest", restored ? Json(fmt::format("{:016x}", *restored)) : Json()},
      {"digest", fmt::format("{:016x}", summary.digest)},
      {"error", summary.error},
      {"expected_error", summary.expected_error},
      {"preemption", summary.preemption ? apps::to_json(*summary.preemption) : Json()},
  };
}

}  // namespace heat
