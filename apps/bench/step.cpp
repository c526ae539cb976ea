// SPDX-License-Identifier: BSD-3-Clause
// `step`: what a step boundary costs, and how soon a signal is acted on.
#include <fmt/format.h>
#include <mpi.h>
#include <signal.h>  // NOLINT: kill is POSIX, not in <csignal>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "cluster/communicator.hpp"
#include "core/log.hpp"
#include "measure.hpp"
#include "reprieve/reprieve.hpp"
#include "workload.hpp"

namespace reprieve::bench {

namespace {

using Clock = std::chrono::steady_clock;
using cluster::check_mpi;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Steps until the checks have settled.
constexpr std::uint64_t kLeadIn = 200;

/// steady_clock is CLOCK_MONOTONIC: one clock for all processes of a node.
double seconds_of(Clock::time_point time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

double slowest(double mine) { return greatest(MPI_COMM_WORLD, mine); }

/// What reading the clock adds to a time between two readings.
double seconds_per_reading() {
  constexpr int kReadings = 2000;
  double sum = 0;
  for (int i = 0; i < kReadings; ++i) {
    const auto before = Clock::now();
    sum += seconds_between(before, Clock::now());
  }
  return sum / kReadings;
}

template <class Step>
double time_loop(std::uint64_t steps, Step&& step) {
  barrier(MPI_COMM_WORLD);
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < steps; ++i) {
    step();
  }
  return slowest(seconds_between(start, Clock::now()));
}

double bare_loop(std::uint64_t steps, std::uint64_t iterations) {
  return time_loop(steps, [iterations] { Work::run(iterations); });
}

double allreduce_loop(std::uint64_t steps, std::uint64_t iterations) {
  return time_loop(steps, [iterations] {
    std::int64_t mine = -1;
    std::int64_t all = 0;
    check_mpi(MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    Work::run(iterations);
  });
}

/// What the ranks do with each other in a step.
enum class Ranks {
  wait_in_each_step,  ///< at its end, as in a code that exchanges data or adds up gradients
  never_meet,         ///< so that a check is where the faster rank waits for the slower one
};

/// Seconds until the last rank has begun the save.
struct Reaction {
  double from_signal = 0;
  double from_end_of_step = 0;  ///< in which the signal came, on the rank to which it came
};

/// A loop under a handler that lives over all calls, so that it is in its steady state. All times are the slowest
/// rank's; all members are collective.
class HandlerLoop {
 public:
  explicit HandlerLoop(const std::filesystem::path& directory) {
    checkpoint_.add_replicated("value", value_);
    TerminationConfig config;
    config.save_fn = [this](const SaveFnContext&) { save_began_ = Clock::now(); };
    config.exit_fn = [this](const ExitContext&) { exited_ = true; };
    ManagerOptions options;
    options.durable = false;  // what is timed ends before anything is written
    handler_.emplace(MPI_COMM_WORLD, checkpoint_, directory, config, options);
  }
  HandlerLoop(const HandlerLoop&) = delete;
  HandlerLoop& operator=(const HandlerLoop&) = delete;
  ~HandlerLoop() = default;

  /// Seconds in the step boundaries alone: each is timed on its own, since the noise of the work would hide its cost,
  /// less the time to read the clock.
  double boundaries(std::uint64_t steps, std::uint64_t iterations, Ranks ranks) {
    double sum = 0;
    const auto step = [&] {
      const auto before = Clock::now();
      handler_->run([&] {
        sum += seconds_between(before, Clock::now());
        Work::run(iterations);
        if (ranks == Ranks::wait_in_each_step) {
          barrier(MPI_COMM_WORLD);
        }
      });
    };
    begin_steadily(steps, step);
    sum = 0;
    time_loop(steps, step);
    return slowest(sum - static_cast<double>(steps) * seconds_per_reading());
  }

  /// Seconds of a whole loop whose ranks never meet, without a clock in it: steps and boundaries.
  double whole(std::uint64_t steps, std::uint64_t iterations) {
    const auto step = [&] { handler_->run([iterations] { Work::run(iterations); }); };
    begin_steadily(steps, step);
    return time_loop(steps, step);
  }

  /// Preempts the loop by a signal to the last rank, sent by another thread after @p delay_s. The same on every rank.
  Reaction reaction(std::uint64_t iterations, double delay_s, Ranks ranks) {
    const bool gets_signal = rank_in(MPI_COMM_WORLD) == size_of(MPI_COMM_WORLD) - 1;
    save_began_.reset();
    exited_ = false;
    handler_->begin_phase();
    barrier(MPI_COMM_WORLD);
    std::atomic<double> sent{0};
    std::jthread sender;
    if (gets_signal) {
      sender = std::jthread([&sent, delay_s] {
        std::this_thread::sleep_for(std::chrono::duration<double>(delay_s));
        sent = seconds_of(Clock::now());
        ::kill(::getpid(), SIGUSR1);  // a failure would show: the loop would not end
      });
    }
    double end_of_step = 0;
    while (!exited_) {
      handler_->run([&] {
        Work::run(iterations);
        if (gets_signal && end_of_step == 0 && sent > 0) {
          end_of_step = seconds_of(Clock::now());
        }
        if (ranks == Ranks::wait_in_each_step) {
          barrier(MPI_COMM_WORLD);
        }
      });
    }
    const double save_began = slowest(seconds_of(*save_began_));
    return {save_began - slowest(sent), save_began - slowest(end_of_step)};
  }

 private:
  /// What ran since the last boundary is no step of this loop, which must be in its steady state.
  void begin_steadily(std::uint64_t steps, const auto& step) {
    handler_->begin_phase();
    time_loop(std::min(steps, kLeadIn), step);
  }

  Checkpoint checkpoint_;
  int value_ = 0;
  std::optional<Clock::time_point> save_began_;
  bool exited_ = false;
  std::optional<PreemptionCheckpointHandler> handler_;
};

struct StepOptions {
  std::vector<double> steps_us{1, 10, 100, 1000, 100'000};
  double round_s = 0.1;
  int reactions = 15;
  double run_in_s = 0.3;
  CommonOptions common{.rounds = 21, .directory = {}};
};

struct StepResult {
  Summary bare;       ///< seconds a step
  Summary allreduce;  ///< seconds that a blocking MPI_Allreduce adds to a step
  Summary boundary;   ///< seconds a step boundary, timed on its own
  Summary whole;      ///< seconds that a loop with a handler takes longer for each step than the bare loop
  Summary waiting;    ///< the same if the ranks meet nowhere else: with the time that the faster rank waits
};

StepResult measure(HandlerLoop& handler, const Work& work, double step_s, const StepOptions& options) {
  const std::uint64_t iterations = work.iterations(step_s);
  const auto steps = static_cast<std::uint64_t>(std::max(5.0, options.round_s / step_s));
  std::array<std::vector<double>, 5> seconds;                     // in the order of StepResult
  for (int round = -2; round < options.common.rounds; ++round) {  // the first two warm up
    const double plain = bare_loop(steps, iterations);
    const double blocking = allreduce_loop(steps, iterations);
    const double coupled = handler.boundaries(steps, iterations, Ranks::wait_in_each_step);
    const double with_handler = handler.whole(steps, iterations);
    const double uncoupled = handler.boundaries(steps, iterations, Ranks::never_meet);
    const std::array<double, 5> measured{plain, blocking - plain, coupled, with_handler - plain, uncoupled};
    for (std::size_t i = 0; round >= 0 && i < measured.size(); ++i) {
      seconds[i].push_back(measured[i] / static_cast<double>(steps));
    }
  }
  return {summarize(seconds[0]), summarize(seconds[1]), summarize(seconds[2]), summarize(seconds[3]),
          summarize(seconds[4])};
}

struct Reactions {
  Summary from_signal;
  Summary from_end_of_step;
};

Reactions measure_reactions(HandlerLoop& handler, const Work& work, double step_s, Ranks ranks,
                            const StepOptions& options) {
  std::mt19937 random(1);  // the same on all ranks
  std::uniform_real_distribution<double> uniform;
  std::vector<double> from_signal;
  std::vector<double> from_end_of_step;
  const std::uint64_t iterations = work.iterations(step_s);
  for (int i = 0; i < options.reactions; ++i) {
    // Late enough for a handler in its steady state, at a random moment of a step.
    const Reaction reaction = handler.reaction(iterations, options.run_in_s * (1 + uniform(random)), ranks);
    from_signal.push_back(reaction.from_signal);
    from_end_of_step.push_back(reaction.from_end_of_step);
  }
  return {summarize(from_signal), summarize(from_end_of_step)};
}

void run(const StepOptions& options, Report& report) {
  const Scratch scratch(options.common.directory);
  const Work work;
  HandlerLoop handler(scratch.path());
  std::vector<Row> costs;
  std::vector<Row> reactions;
  for (const double step_us : options.steps_us) {
    const double step_s = step_us * 1e-6;
    const StepResult cost = measure(handler, work, step_s, options);
    const Reactions reaction = measure_reactions(handler, work, step_s, Ranks::never_meet, options);
    const Summary coupled = measure_reactions(handler, work, step_s, Ranks::wait_in_each_step, options).from_signal;
    const auto share = [&](const Summary& of) { return of.median / cost.bare.median; };
    const auto percent = [&](const Summary& of) { return fmt::format("{:.2g} %", 100 * share(of)); };
    costs.push_back({core::seconds_text(step_s), core::seconds_text(cost.boundary.median), quartiles(cost.boundary),
                     percent(cost.boundary), core::seconds_text(cost.whole.median),
                     core::seconds_text(cost.waiting.median), core::seconds_text(cost.allreduce.median),
                     percent(cost.allreduce)});
    reactions.push_back({core::seconds_text(step_s)});
    for (const Summary& each : {reaction.from_signal, reaction.from_end_of_step, coupled}) {
      reactions.back().insert(reactions.back().end(), {core::seconds_text(each.median), core::seconds_text(each.max)});
    }
    report.record({{"step_s", step_s},
                   {"boundary_s", cost.boundary.median},
                   {"boundary_low_s", cost.boundary.low},
                   {"boundary_high_s", cost.boundary.high},
                   {"share", share(cost.boundary)},
                   {"boundary_of_whole_loops_s", cost.whole.median},
                   {"boundary_with_waiting_s", cost.waiting.median},
                   {"allreduce_s", cost.allreduce.median},
                   {"allreduce_share", share(cost.allreduce)},
                   {"reaction_median_s", reaction.from_signal.median},
                   {"reaction_max_s", reaction.from_signal.max},
                   {"reaction_from_end_of_step_median_s", reaction.from_end_of_step.median},
                   {"reaction_from_end_of_step_max_s", reaction.from_end_of_step.max},
                   {"reaction_coupled_median_s", coupled.median},
                   {"reaction_coupled_max_s", coupled.max}});
  }
  report.table("Cost of a step boundary without a notice",
               {"step", "boundary", "quartiles", "share of the step", "of whole loops", "with waiting",
                "MPI_Allreduce every step", "share"},
               costs);
  report.table(
      "From a signal to one rank until all ranks have begun the save",
      {"step", "median", "longest", "from the end of that step", "longest", "ranks that meet in each step", "longest"},
      reactions);
}

}  // namespace

void add_step_command(CLI::App& app, const bool& json) {
  const auto [command, options] = add_command<StepOptions>(
      app, json, "step",
      "Cost of a step boundary against a bare loop, and the time from a signal to the start of the save", run);
  command->add_option("--steps-us", options->steps_us, "Step lengths in microseconds")->capture_default_str();
  command->add_option("--round-seconds", options->round_s, "Length of one loop")->capture_default_str();
  command->add_option("--reactions", options->reactions, "Signals per step length")->capture_default_str();
  command
      ->add_option("--run-in-seconds", options->run_in_s,
                   "Each signal comes so long after its loop began, to twice that")
      ->capture_default_str();
}

}  // namespace reprieve::bench
