// SPDX-License-Identifier: BSD-3-Clause
// e2e_loops KIND DIR STEPS STEP_US: the time loops of apps/guide/loops.md, one for each KIND. The code between a line
// "// [KIND]" and the next "// [end]" is what stands there. Rank 0 prints "step N" and "digest D" at the end; D depends
// on every step, and not on the number of ranks.

#include <mpi.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "reprieve/reprieve.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kCells = 30;

/// Cells over all ranks, whose values follow from the steps; the time grows by steps of varying length.
class Simulation {
 public:
  Simulation(MPI_Comm comm, std::chrono::microseconds step_time) : comm_(comm), step_time_(step_time) {
    int rank = 0;
    int size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const auto r = static_cast<std::uint64_t>(rank);
    const auto n = static_cast<std::uint64_t>(size);
    first_ = kCells * r / n;
    cells_.resize(kCells * (r + 1) / n - first_);
  }

  void add_to(reprieve::Checkpoint& state) {
    state.add_replicated("step", step);
    state.add_replicated("time", time);
    state.add_distributed("cells", cells_.data(),
                          {.global_shape = {kCells}, .offset = {first_}, .extent = {cells_.size()}});
  }

  void advance() {
    pause();
    const double length = 0.001 * static_cast<double>(1 + step % 5);
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      cells_[i] = 0.75 * cells_[i] + length * static_cast<double>(first_ + i + 1);
    }
    time += length;
    ++step;
  }

  /// As long as a step.
  void pause() const { std::this_thread::sleep_for(step_time_); }

  /// How many short steps the next long one is made of.
  [[nodiscard]] int cycles() const { return 1 + static_cast<int>(step % 4); }

  void report() const {
    std::uint64_t mine = 0;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      mine += (2 * (first_ + i) + 1) * std::bit_cast<std::uint64_t>(cells_[i]);
    }
    std::uint64_t all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, comm_);
    int rank = 0;
    MPI_Comm_rank(comm_, &rank);
    if (rank == 0) {
      std::cout << "step " << step << "\ndigest " << all << std::endl;
    }
  }

  std::uint64_t step = 0;
  double time = 0;

 private:
  MPI_Comm comm_;
  std::chrono::microseconds step_time_;
  std::uint64_t first_ = 0;
  std::vector<double> cells_;
};

/// What a loop is given.
struct Setting {
  MPI_Comm comm;
  std::filesystem::path directory;
  std::uint64_t steps;
  std::chrono::microseconds step_time;
  Simulation& simulation;
  reprieve::Checkpoint& state;
};

int phases(const Setting& setting) {
  const auto& [comm, directory, steps, step_time, simulation, state] = setting;
  constexpr std::uint64_t set_up_steps =
      150;  // so that the first preemption may come in the set-up, the second in the steps
  const auto evaluate = [&simulation = simulation] { simulation.pause(); };
  // [phases]
  enum class Phase { set_up, stepping, output };
  Phase phase = Phase::set_up;
  state.add_replicated("phase", phase);  // tells the next start where to continue
  reprieve::PreemptionCheckpointHandler handler(comm, state, directory);

  while (phase == Phase::set_up) {
    handler.step_boundary();
    simulation.advance();
    if (simulation.step == set_up_steps) {
      phase = Phase::stepping;
    }
  }
  while (phase == Phase::stepping) {
    handler.run([&] { simulation.advance(); });
    if (simulation.step % 50 == 0) {
      evaluate();
      handler.step_boundary();  // an evaluation takes long: do not wait for the next step
    }
    if (simulation.step == steps) {
      phase = Phase::output;
    }
  }
  handler.finish();  // the last chance before the output; errors of other ranks are thrown here
  // [end]
  return 0;
}

int own_steps(const Setting& setting) {
  const auto& [comm, directory, steps, step_time, simulation, state] = setting;
  // [own_steps]
  reprieve::TerminationConfig config;
  config.step_fn = [&] { return simulation.step; };  // names the checkpoints: ckpt-<step>.h5
  config.save_every_steps = 100;                     // of these steps
  reprieve::PreemptionCheckpointHandler handler(comm, state, directory, config);

  while (simulation.step < steps) {
    handler.run([&] {
      for (int cycle = simulation.cycles(); cycle > 0; --cycle) {
        simulation.advance();
      }
    });
  }
  handler.finish();
  // [end]
  return 0;
}

int refined(const Setting& setting) {
  const auto& [comm, directory, steps, step_time, simulation, state] = setting;
  constexpr std::uint64_t refined_from = 150;
  // [refined]
  reprieve::TerminationConfig config;
  config.step_fn = [&] { return simulation.step; };
  reprieve::PreemptionCheckpointHandler handler(comm, state, directory, config);

  while (simulation.step < steps) {
    if (simulation.step == refined_from) {
      handler.begin_phase();  // on all ranks: from here on steps take longer
    }
    handler.run([&] { simulation.advance(); });
  }
  handler.finish();
  // [end]
  return 0;
}

int own_order(const Setting& setting) {
  const auto& [comm, directory, steps, step_time, simulation, state] = setting;
  const auto close_output = [&comm = comm] { MPI_Barrier(comm); };
  // [own_order]
  reprieve::TerminationConfig config;
  config.return_when_saved = true;
  reprieve::PreemptionCheckpointHandler handler(comm, state, directory, config);

  while (simulation.step < steps) {
    handler.save_checkpoint_if_preempted();
    if (handler.preempted()) {  // the state is saved; the answer is the same on every rank
      break;
    }
    simulation.advance();
  }
  handler.finish();
  close_output();
  return handler.exit_code();  // 42, or 0 if the loop came to its end; MPI_Finalize follows, and main returns it
  // [end]
}

int unwinding(const Setting& setting) {
  const auto& [comm, directory, steps, step_time, simulation, state] = setting;
  // [unwinding]
  reprieve::TerminationConfig config;
  config.exit_fn = reprieve::throw_preempted;
  try {
    reprieve::PreemptionCheckpointHandler handler(comm, state, directory, config);
    while (simulation.step < steps) {
      handler.run([&] { simulation.advance(); });
    }
    handler.finish();
  } catch (const reprieve::Preempted& preempted) {  // thrown on every rank
    return preempted.exit_code();
  }
  // [end]
  return 0;
}

int asking_first(const Setting& setting) {
  const auto& [comm, directory, steps, step_time, simulation, state] = setting;
  const auto finish_unit_of_work = [&simulation = simulation, &steps = steps] {
    while (simulation.step % 10 != 0 && simulation.step < steps) {
      simulation.advance();
    }
  };
  // [asking_first]
  reprieve::PreemptionCheckpointHandler handler(comm, state, directory);

  auto scope = handler.watch_preemption_scope(reprieve::ScopeMode::save_at_end);
  while (simulation.step < steps && !handler.preempted()) {
    handler.save_checkpoint_if_preempted();  // in the scope it asks the other ranks, and saves nothing
    simulation.advance();
  }
  finish_unit_of_work();
  scope.close();  // saves and leaves, if there was a notice
  handler.finish();
  // [end]
  return 0;
}

/// Two components, each on some of the ranks, with a state of its own.
int parts(const Setting& setting) {
  const auto& [world, directory, steps, step_time, simulation, state] = setting;
  int rank = 0;
  MPI_Comm_rank(world, &rank);
  const bool is_ocean = rank % 2 == 1;
  MPI_Comm part_comm = MPI_COMM_NULL;
  MPI_Comm_split(world, is_ocean ? 1 : 0, rank, &part_comm);
  Simulation part(part_comm, step_time);
  const std::filesystem::path part_directory = directory.string() + (is_ocean ? "-ocean" : "-atmosphere");
  {
    // [parts]
    reprieve::Checkpoint part_state;
    part.add_to(part_state);
    reprieve::CheckpointManager part_manager(part_comm, part_state, part_directory);

    reprieve::TerminationConfig config;
    config.save_fn = [&](const reprieve::SaveFnContext& context) { part_manager.save(context.number); };
    reprieve::PreemptionCheckpointHandler handler(world, state, directory, config);
    if (const auto& from = handler.restored_from()) {
      part_manager.restore(part_directory / from->path.filename());  // that of the same save, not the newest one
    }

    while (simulation.step < steps) {
      handler.run([&] {
        simulation.advance();
        part.advance();
      });
    }
    handler.finish();
    // [end]
    if (part.step != simulation.step) {
      throw std::logic_error("the part is of another step");
    }
  }
  MPI_Comm_free(&part_comm);
  return 0;
}

/// Makes its own simulation for each number of ranks. The page: apps/guide/resilient.md.
int resilient(const std::filesystem::path& directory, std::uint64_t steps, std::chrono::microseconds step_time) {
  // [resilient]
  reprieve::run_resilient(MPI_COMM_WORLD, [&](MPI_Comm ranks) {
    Simulation simulation(ranks, step_time);  // cuts its arrays by the number of ranks
    reprieve::Checkpoint state;
    simulation.add_to(state);
    reprieve::PreemptionCheckpointHandler handler(ranks, state, directory);  // restores
    while (simulation.step < steps) {
      handler.run([&] { simulation.advance(); });
    }
    handler.finish();
    simulation.report();
  });
  // [end]
  return 0;
}

int run(const std::string& kind, const std::filesystem::path& directory, std::uint64_t steps,
        std::chrono::microseconds step_time) {
  const std::map<std::string, std::function<int(const Setting&)>> kinds{
      {"phases", phases},       {"own_steps", own_steps},       {"refined", refined}, {"own_order", own_order},
      {"unwinding", unwinding}, {"asking_first", asking_first}, {"parts", parts}};
  if (kind == "resilient") {
    return resilient(directory, steps, step_time);
  }
  Simulation simulation(MPI_COMM_WORLD, step_time);
  reprieve::Checkpoint state;
  simulation.add_to(state);
  const int exit_code = kinds.at(kind)({MPI_COMM_WORLD, directory, steps, step_time, simulation, state});
  if (exit_code == 0) {
    simulation.report();
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  reprieve::watch_signals();
  MPI_Init(&argc, &argv);
  int exit_code = 1;
  try {
    exit_code = run(argv[1], argv[2], std::stoull(argv[3]), std::chrono::microseconds(std::stoi(argv[4])));
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return exit_code;
}
