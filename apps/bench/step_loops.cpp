// SPDX-License-Identifier: BSD-3-Clause
#include "step_loops.hpp"

#include <signal.h>  // NOLINT: kill is POSIX, not in <csignal>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "cluster/communicator.hpp"
#include "ranks.hpp"
#include "reprieve/reprieve.hpp"

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
  meet(MPI_COMM_WORLD);
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < steps; ++i) {
    step();
  }
  return slowest(seconds_between(start, Clock::now()));
}

}  // namespace

void Work::run(std::uint64_t iterations) {
  // A chain of dependent operations that the compiler cannot shorten.
  std::uint64_t state = 88172645463325252ULL;
  for (std::uint64_t i = 0; i < iterations; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    asm volatile("" : "+r"(state));
  }
}

Work::Work() {
  constexpr std::uint64_t kProbe = 2'000'000;
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto start = Clock::now();
    run(kProbe);
    best = std::min(best, seconds_between(start, Clock::now()));
  }
  // All ranks do the same number of iterations.
  seconds_per_iteration_ = slowest(best) / kProbe;
}

std::uint64_t Work::iterations(double seconds) const {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(seconds / seconds_per_iteration_));
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

struct HandlerLoop::Impl {
  Checkpoint checkpoint;
  int value = 0;
  std::optional<Clock::time_point> save_began;
  bool exited = false;
  std::optional<PreemptionCheckpointHandler> handler;
};

HandlerLoop::HandlerLoop(const std::filesystem::path& directory) : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  impl.checkpoint.add_replicated("value", impl.value);
  TerminationConfig config;
  config.save_fn = [&impl](const SaveFnContext&) { impl.save_began = Clock::now(); };
  config.exit_fn = [&impl](const ExitContext&) { impl.exited = true; };
  ManagerOptions options;
  options.durable = false;  // what is timed ends before anything is written
  impl.handler.emplace(MPI_COMM_WORLD, impl.checkpoint, directory, config, options);
}

HandlerLoop::~HandlerLoop() = default;

double HandlerLoop::run(std::uint64_t steps, std::uint64_t iterations, Ranks ranks) {
  double boundaries = 0;
  const auto step = [&] {
    const auto before = Clock::now();
    impl_->handler->run([&] {
      boundaries += seconds_between(before, Clock::now());
      Work::run(iterations);
      if (ranks == Ranks::meet_in_each_step) {
        meet(MPI_COMM_WORLD);
      }
    });
  };
  // What ran since the last boundary is no step of this loop, which is to be in its steady state.
  impl_->handler->begin_phase();
  time_loop(std::min(steps, kLeadIn), step);
  boundaries = 0;
  time_loop(steps, step);
  return slowest(boundaries - static_cast<double>(steps) * seconds_per_reading());
}

double HandlerLoop::run_whole(std::uint64_t steps, std::uint64_t iterations) {
  const auto step = [&] { impl_->handler->run([iterations] { Work::run(iterations); }); };
  impl_->handler->begin_phase();
  time_loop(std::min(steps, kLeadIn), step);
  return time_loop(steps, step);
}

Reaction HandlerLoop::reaction(std::uint64_t iterations, double delay_s, Ranks ranks) {
  Impl& impl = *impl_;
  const bool gets_signal = rank_in(MPI_COMM_WORLD) == size_of(MPI_COMM_WORLD) - 1;
  impl.save_began.reset();
  impl.exited = false;
  impl.handler->begin_phase();
  meet(MPI_COMM_WORLD);
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
  while (!impl.exited) {
    impl.handler->run([&] {
      Work::run(iterations);
      if (gets_signal && end_of_step == 0 && sent > 0) {
        end_of_step = seconds_of(Clock::now());
      }
      if (ranks == Ranks::meet_in_each_step) {
        meet(MPI_COMM_WORLD);
      }
    });
  }
  const double save_began = slowest(seconds_of(*impl.save_began));
  return {save_began - slowest(sent), save_began - slowest(end_of_step)};
}

}  // namespace reprieve::bench
