// SPDX-License-Identifier: BSD-3-Clause
// e2e_resilient DIR STEPS STEP_MS [OPTION=VALUE...]: a simulation under run_resilient whose result is the same on any
// number of ranks. The first rank of each life prints "life N with R ranks from step S", the first steps after it, and
// "digest D" at the end; every process prints "pid P" once.
//
// Options:
//   spares=N min=N    see ResilientOptions
//   elements=N        of the array, 1000 without
//   save_every=N      a checkpoint every N steps
//   local=PATH        node-local copies there, with partners, at each 10 ms
//   die=LIFE:STEP:RANK  that rank of that life kills itself in that step; may stand several times: they die together
//   copied_after=N    a death waits until each host has all parts of a node-local copy of a later step than N
//   stop=1            they stop themselves instead
//   timeout=MS        peer_timeout
//   alone=1           between two steps the ranks work alone for a while, without any call of MPI
//   pipe_at=N         every rank writes in step N to a connection whose other end is closed
//   throw_at=N        the last rank throws in step N
//   stop_at=N         rank 0 gets SIGTERM in step N, as a notice
//   codes=1           by the interface of C: errors are codes
//   raise=1           a notice ends the program by an exception
//   manager=1         no handler: a manager saves every save_every steps

#include <mpi.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "manager/node_directory.hpp"
#include "reprieve/reprieve.h"
#include "reprieve/reprieve.hpp"
#include "reprieve/run_resilient.hpp"

namespace {

struct Options {
  std::string directory;
  std::uint64_t steps = 0;
  std::chrono::milliseconds step_time{0};
  std::map<std::string, std::string> others = {};
  std::set<std::string> deaths = {};

  [[nodiscard]] std::uint64_t number(const std::string& name, std::uint64_t otherwise = 0) const {
    const auto found = others.find(name);
    return found == others.end() ? otherwise : std::stoull(found->second);
  }
  [[nodiscard]] reprieve::ResilientOptions resilient() const {
    return {.spare_ranks = static_cast<int>(number("spares")), .min_ranks = static_cast<int>(number("min", 1))};
  }
};

Options parse(int argc, char** argv) {
  Options options{argv[1], std::stoull(argv[2]), std::chrono::milliseconds(std::stoull(argv[3]))};
  for (int i = 4; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string name = word.substr(0, word.find('='));
    const std::string value = word.substr(word.find('=') + 1);
    if (name == "die") {
      options.deaths.insert(value);
    } else {
      options.others[name] = value;
    }
  }
  return options;
}

/// One life of the ranks that work.
class Simulation {
 public:
  Simulation(const Options& options, MPI_Comm comm, int& life)
      : options_(options), comm_(comm), elements_(options.number("elements", 1000)) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    MPI_Allreduce(&life, &life_, 1, MPI_INT, MPI_MAX, comm);  // a spare rank has seen fewer
    life = life_ + 1;
    pids_.resize(static_cast<std::size_t>(size_));
    const pid_t pid = ::getpid();
    MPI_Allgather(&pid, 1, MPI_INT, pids_.data(), 1, MPI_INT, comm);
    const auto bound = [&](int rank) {
      return elements_ * static_cast<std::uint64_t>(rank) / static_cast<std::uint64_t>(size_);
    };
    first_ = bound(rank_);
    values_.resize(bound(rank_ + 1) - first_);
    std::iota(values_.begin(), values_.end(), first_ + 1);
  }

  void run() {
    reprieve::Checkpoint state;
    state.add_distributed(
        "values", values_,
        reprieve::DistributedLayout{.global_shape = {elements_}, .offset = {first_}, .extent = {values_.size()}});
    if (options_.number("manager") == 1) {
      run_without_handler(state);
    } else {
      run_with_handler(state);
    }
    const std::uint64_t sum = sum_of_all();
    say("digest " + std::to_string(sum));
  }

 private:
  void run_without_handler(reprieve::Checkpoint& state) {
    reprieve::CheckpointManager manager(comm_, state, options_.directory);
    const auto restored = manager.restore_or_initialize();
    for (std::uint64_t done = restored ? restored->number : 0; done < options_.steps;) {
      step(++done);
      if (done % options_.number("save_every") == 0) {
        manager.save(done);
      }
    }
  }

  void run_with_handler(reprieve::Checkpoint& state) {
    reprieve::TerminationConfig config;
    config.save_every_steps = options_.number("save_every");
    config.peer_timeout = std::chrono::milliseconds(options_.number("timeout", 60'000));
    if (options_.number("raise") == 1) {
      config.exit_fn = reprieve::throw_preempted;
    }
    reprieve::ManagerOptions manager;
    if (options_.others.contains("local")) {
      manager.local_directory = options_.others.at("local");
      manager.local_every = std::chrono::milliseconds(10);
      manager.local_partner = true;
    }
    reprieve::PreemptionCheckpointHandler handler(comm_, state, options_.directory, config, manager);
    say("life " + std::to_string(life_) + " with " + std::to_string(size_) + " ranks from step " +
        std::to_string(handler.total_run_calls()));
    while (handler.total_run_calls() < options_.steps) {
      if (options_.others.contains("copied_after") && !deaths_in(handler.total_run_calls() + 1).empty()) {
        await_copy(handler);
      }
      handler.run([&] { step(handler.total_run_calls() + 1); });
      if (handler.total_run_calls() % 10 == 1) {
        say("step " + std::to_string(handler.total_run_calls()));
      }
    }
    handler.finish();
  }

  /// The ranks that die in this step.
  [[nodiscard]] std::vector<int> deaths_in(std::uint64_t number) const {
    const std::string begin = std::to_string(life_) + ":" + std::to_string(number) + ":";
    std::vector<int> ranks;
    for (const std::string& death : options_.deaths) {
      if (death.starts_with(begin)) {
        ranks.push_back(std::stoi(death.substr(begin.size())));
      }
    }
    return ranks;
  }

  /// Parts travel to the partners at boundaries. How many boundaries that takes depends on what else the machine does.
  void await_copy(reprieve::PreemptionCheckpointHandler& handler) const {
    for (;;) {
      int has_copy = this_host_has_copy() ? 1 : 0;
      MPI_Allreduce(MPI_IN_PLACE, &has_copy, 1, MPI_INT, MPI_MIN, comm_);
      if (has_copy != 0) {
        return;
      }
      handler.step_boundary();
      std::this_thread::sleep_for(options_.step_time);
    }
  }

  [[nodiscard]] bool this_host_has_copy() const {
    std::map<std::uint64_t, std::set<int>> ranks_of_save;
    for (const auto& folder : reprieve::manager::local_folders(options_.others.at("local"))) {
      for (const auto& part : folder.parts) {
        if (part.name.copy.step() > options_.number("copied_after")) {
          ranks_of_save[part.name.copy.save.save].insert(part.name.rank);
        }
      }
    }
    return std::ranges::any_of(ranks_of_save,
                               [&](const auto& save) { return std::cmp_equal(save.second.size(), size_); });
  }

  void say(const std::string& text) const {
    if (rank_ == 0) {
      std::cout << text << std::endl;
    }
  }

  [[nodiscard]] std::uint64_t sum_of_all() const {
    std::uint64_t mine = std::accumulate(values_.begin(), values_.end(), std::uint64_t{0});
    std::uint64_t all = 0;
    if (MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, comm_) != MPI_SUCCESS) {
      throw std::runtime_error("MPI_Allreduce failed");
    }
    return all;
  }

  void step(std::uint64_t number) {
    if (const std::vector<int> deaths = deaths_in(number); std::ranges::count(deaths, rank_) > 0) {
      die(deaths);
    }
    if (number == options_.number("pipe_at")) {
      write_to_closed_connection();
    }
    if (number == options_.number("throw_at") && rank_ == size_ - 1) {
      throw std::runtime_error("thrown in a step");
    }
    if (number == options_.number("stop_at") && rank_ == 0) {
      ::raise(SIGTERM);
    }
    const std::uint64_t sum = options_.others.contains("alone") ? number : sum_of_all();
    for (std::uint64_t& value : values_) {
      value = value * 6364136223846793005ULL + sum;
    }
    std::this_thread::sleep_for(options_.step_time);
  }

  /// As MPI does to a rank that has died.
  static void write_to_closed_connection() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0 || ::close(ends[1]) != 0 ||
        ::write(ends[0], "x", 1) != -1 || errno != EPIPE || ::close(ends[0]) != 0) {
      throw std::runtime_error("the connection was not closed");
    }
  }

  /// The first one that is there kills the others too. Else they may learn of its death before they come here, and
  /// leave this life.
  void die(const std::vector<int>& ranks) const {
    const int signal = options_.number("stop") == 1 ? SIGSTOP : SIGKILL;
    for (const int rank : ranks) {
      if (const pid_t pid = pids_.at(static_cast<std::size_t>(rank)); pid > 0 && rank != rank_) {
        ::kill(pid, signal);
      }
    }
    ::raise(signal);
  }

  const Options& options_;
  MPI_Comm comm_;
  std::uint64_t elements_;
  int life_ = 0;
  int rank_ = 0;
  int size_ = 0;
  std::uint64_t first_ = 0;
  std::vector<std::uint64_t> values_;
  std::vector<pid_t> pids_;  ///< by rank; the hosts of a test are on one machine
};

/// What a function without exceptions gets.
struct Run {
  Options options;
  int life = 0;
};

int body_of_c(MPI_Comm ranks, void* user) {
  try {
    auto& run = *static_cast<Run*>(user);
    Simulation(run.options, ranks, run.life).run();
    return REPRIEVE_OK;
  } catch (const reprieve::Error& error) {
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    return reprieve_callback_error(error.what());
  }
}

bool worked(Run& run) {
  const reprieve::ResilientOptions options = run.options.resilient();
  if (!run.options.others.contains("codes")) {
    return reprieve::run_resilient(
        MPI_COMM_WORLD, [&](MPI_Comm ranks) { Simulation(run.options, ranks, run.life).run(); }, options);
  }
  int worked = 0;
  if (reprieve_run_resilient(MPI_COMM_WORLD, options.spare_ranks, options.min_ranks, body_of_c, &run, &worked) !=
      REPRIEVE_OK) {
    throw std::runtime_error(reprieve_last_error_message());
  }
  return worked == 1;
}

}  // namespace

int main(int argc, char** argv) {
  Run run{parse(argc, argv)};
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  std::cout << "pid " << ::getpid() << std::endl;
  int exit_code = 0;
  try {
    if (!worked(run)) {
      std::cout << "spare to the end" << std::endl;
    }
  } catch (const reprieve::Preempted& preempted) {
    exit_code = preempted.exit_code();
  }
  MPI_Finalize();
  return exit_code;
}
