// SPDX-License-Identifier: BSD-3-Clause
// e2e_steps DIR STEPS STEP_MS [FAULT=VALUE...]: a small simulation that saves itself. Rank 0 prints "step N" after each
// step and "digest D" at the end: D depends on every step of every rank.
//
// Faults:
//   save_every=N   a checkpoint every N steps
//   late=MS        rank 1 starts so late, and a signal until then kills it, as before main
//   die_at=N       the last rank kills itself in step N, in the first start only (a file in DIR remembers it)
//   always_die_at=N  in every start
//   die_reading=N  the last rank kills itself while it restores the state of step N
//   throw_at=N     the last rank throws in step N
//   signals=usr2   only SIGUSR2 is a notice
//   late_init=1    initialises part of its state after the restore
//   notice_at_end=1  the last rank gets SIGTERM after its last step
//   die_at_end=1   the last rank kills itself after finish(), in the first start only
//   deaf=1         does not look at the environment
//   series=FILE    rank 0 notes each step, and writes all at the end; with forgets=1 they are not in the state
//   hidden=1       each step changes a block and a global variable that are not in the state, and one variable never
//   changes print=N        N more bytes of output in every step of rank 0

#include <mpi.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "reprieve/reprieve.hpp"

namespace {

using Faults = std::map<std::string, std::string>;

/// Kills the process if it is restored at a certain step.
struct Mine {
  std::uint64_t step = 0;
  std::uint64_t deadly_step = 0;
};

}  // namespace

template <>
struct reprieve::Serializer<Mine> {
  static std::vector<std::byte> save(const Mine& mine) {
    std::vector<std::byte> bytes(sizeof mine.step);
    std::memcpy(bytes.data(), &mine.step, sizeof mine.step);
    return bytes;
  }
  static void load(Mine& mine, std::span<const std::byte> bytes) {
    std::memcpy(&mine.step, bytes.data(), sizeof mine.step);
    if (mine.deadly_step != 0 && mine.step == mine.deadly_step) {
      ::raise(SIGKILL);
    }
  }
};

namespace {

std::array<double, 512> hidden_counts{};

class Simulation {
 public:
  Simulation(std::filesystem::path directory, std::uint64_t step_ms, Faults faults)
      : directory_(std::move(directory)), step_time_(step_ms), faults_(std::move(faults)) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (rank_ == size_ - 1) {
      mine_.deadly_step = number("die_reading");
    }
    values_.assign(1000, static_cast<std::uint64_t>(rank_) + 1);
  }

  void run(std::uint64_t steps) {
    if (rank_ == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(number("late")));
    }
    reprieve::Checkpoint state;
    state.add_per_rank("values", values_);
    state.add_per_rank("mine", mine_);
    if (faults_.contains("series") && !faults_.contains("forgets")) {
      state.add_per_rank("series", series_);
    }
    if (faults_.contains("hidden")) {
      state.add_replicated("calm", calm_);
      hidden_.resize(4000);
    }
    reprieve::TerminationConfig config;
    config.save_every_steps = number("save_every");
    if (faults_.contains("signals")) {
      config.signals = std::vector{SIGUSR2};
    }
    reprieve::ManagerOptions options;
    options.read_environment = !faults_.contains("deaf");
    reprieve::PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state, directory_, config, options);
    if (faults_.contains("late_init")) {
      values_.assign(values_.size(), 1);
    }
    const std::string chatter(number("print"), '.');
    while (handler.total_run_calls() < steps) {
      handler.run([&] { step(); });
      if (rank_ == 0) {
        std::cout << "step " << handler.total_run_calls() << chatter << std::endl;
      }
    }
    if (faults_.contains("notice_at_end") && rank_ == size_ - 1) {
      ::raise(SIGTERM);
    }
    handler.finish();
    if (faults_.contains("die_at_end") && rank_ == size_ - 1) {
      die_once();
    }
    print_digest();
  }

 private:
  [[nodiscard]] std::uint64_t number(const std::string& fault) const {
    const auto found = faults_.find(fault);
    return found == faults_.end() ? 0 : std::stoull(found->second);
  }

  void step() {
    ++mine_.step;
    series_.push_back(mine_.step);
    for (std::uint64_t& value : values_) {
      value = value * 6364136223846793005ULL + mine_.step;
    }
    for (double& value : hidden_) {
      value += 1;
    }
    hidden_counts[mine_.step % hidden_counts.size()] += hidden_.empty() ? 0 : 1;
    if (rank_ == size_ - 1) {
      suffer();
    }
    std::this_thread::sleep_for(step_time_);
  }

  void suffer() const {
    if (mine_.step == number("always_die_at")) {
      ::raise(SIGKILL);
    }
    if (mine_.step == number("die_at")) {
      die_once();
    }
    if (mine_.step == number("throw_at")) {
      throw std::runtime_error("the pressure is negative");
    }
  }

  void die_once() const {
    const auto died = directory_ / "died";
    if (!std::filesystem::exists(died)) {
      std::ofstream(died) << "x";
      ::raise(SIGKILL);
    }
  }

  void print_digest() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t value : values_) {
      sum = sum * 31 + value;
    }
    std::uint64_t total = 0;
    MPI_Reduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank_ == 0 && faults_.contains("series")) {
      std::ofstream file(faults_.at("series"));
      for (const std::uint64_t step : series_) {
        file << step << '\n';
      }
    }
    if (rank_ == 0) {
      std::cout << "digest " << total << std::endl;
    }
  }

  std::filesystem::path directory_;
  std::chrono::milliseconds step_time_;
  Faults faults_;
  int rank_ = 0;
  int size_ = 1;
  Mine mine_;
  std::vector<std::uint64_t> values_;
  std::vector<std::uint64_t> series_;
  std::vector<double> hidden_;
  std::vector<double> calm_ = std::vector<double>(200, 1.0);
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: e2e_steps DIR STEPS STEP_MS [FAULT=VALUE...]\n";
    return 2;
  }
  Faults faults;
  for (int i = 4; i < argc; ++i) {
    const std::string text = argv[i];
    faults[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  if (!faults.contains("late") && !faults.contains("signals")) {
    reprieve::watch_signals();
  }
  MPI_Init(&argc, &argv);
  try {
    Simulation(argv[1], std::stoull(argv[3]), faults).run(std::stoull(argv[2]));
  } catch (const std::exception& error) {
    std::cerr << "e2e_steps: " << error.what() << std::endl;
    return 3;  // without MPI_Finalize, which would wait for ranks that are gone
  }
  MPI_Finalize();
  return 0;
}
