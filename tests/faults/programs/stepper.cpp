// SPDX-License-Identifier: BSD-3-Clause
// faults_stepper DIR STEPS MODE: a simulation whose every value depends on every step. It resumes from the newest
// checkpoint in DIR, saves after each step, and at the end prints "digest D".
// MODE:
//   recycle     keeps one checkpoint, past the page cache, over the file of the one before
//   files       keeps one checkpoint, with files of a save function, in a new file each time
//   pieces      like recycle, with the field split the other way, so that the ranks exchange small pieces
//   background  saves in the background
//   preempt     has a notice in its first step
//   local       takes a node-local copy after each step, and saves after each 16th
//   far         takes node-local copies alone, with partners; each rank is on a host of its own, and has another piece
//               of the field in each second life (STEPPER_TURN), so that what it needs lies on another host
//   long        takes a node-local copy after each step, but for the last: after STEPPER_LONG steps of this life comes
//               one that never ends, and the ranks bring their copies at a notice
//   none        saves nothing

#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "reprieve/reprieve.hpp"

namespace {

using namespace reprieve;

/// Whether each rank says that it is on a host of its own.
bool hosts_are_played = false;

class Simulation {
 public:
  explicit Simulation(const std::string& mode) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    const auto rank = static_cast<std::uint64_t>(rank_), size = static_cast<std::uint64_t>(size_);
    piece_ = mode == "far" ? (rank + turn()) % size : rank;
    field_.assign(kRows * kColumns, piece_ + 1);
    small_.assign(10 + static_cast<std::size_t>(rank_), rank);
    const Extents shape{kRows * size, kColumns};
    if (mode == "pieces") {
      state_.add_distributed("field", field_.data(),
                             {shape, {0, kColumns / size * piece_}, {shape[0], kColumns / size}});
    } else {
      state_.add_distributed("field", field_.data(), {shape, {kRows * piece_, 0}, {kRows, kColumns}});
    }
    state_.add_per_rank("small", small_);
    state_.add_replicated("step", step_);
  }

  void run(const std::string& directory, std::uint64_t steps, const std::string& mode) {
    const bool has_local_copies = mode == "local" || mode == "far" || mode == "long";
    TerminationConfig config;
    config.save_every_steps = mode == "none" || mode == "far" || mode == "long" ? 0 : mode == "local" ? 16 : 1;
    ManagerOptions options;
    options.io = FileIo::direct;
    options.max_to_keep = mode == "background" ? 2 : 1;
    options.background = mode == "background";
    options.recycle = mode != "files";
    if (has_local_copies) {
      options.local_directory = std::getenv("STEPPER_LOCAL");
      options.local_every = kCopyEvery;
      options.local_partner = mode == "far";
      options.emergency_save_after = std::chrono::milliseconds(mode == "long" ? 20 : 1000);
    }
    if (mode == "files") {
      config.save_fn = [](const SaveFnContext& context) {
        std::ofstream(context.write_directory / "notes.txt") << "of checkpoint " << context.number;
      };
    }
    PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state_, directory, config, options);
    bool notice = mode == "preempt" && rank_ == size_ - 1;
    const char* const quick = mode == "long" ? std::getenv("STEPPER_LONG") : nullptr;
    const std::uint64_t endless = quick == nullptr ? steps : handler.total_run_calls() + std::stoull(quick);
    while (handler.total_run_calls() < steps) {
      if (handler.total_run_calls() == endless) {
        handler.run([&] { hang(directory); });
      }
      handler.run([&] { step(); });
      if (quick != nullptr) {  // a copy is due after each of these steps
        std::this_thread::sleep_for(2 * kCopyEvery);
      }
      if (std::exchange(notice, false)) {
        std::raise(SIGTERM);
      }
    }
    handler.finish();
    print_digest();
  }

 private:
  static std::uint64_t turn() {
    const char* turn = std::getenv("STEPPER_TURN");
    return turn == nullptr ? 0 : std::stoull(turn);
  }

  /// A step that does not end. Signals are heard meanwhile.
  [[noreturn]] void hang(const std::string& directory) const {
    std::ofstream(directory + "/hangs." + std::to_string(rank_)) << step_;
    for (;;) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
  }

  void step() {
    ++step_;
    for (std::uint64_t& value : field_) {
      value = value * 6364136223846793005ULL + step_;
    }
    for (std::uint64_t& value : small_) {
      value = value * 6364136223846793005ULL + step_;
    }
  }

  void print_digest() const {
    const auto fold = [](const std::vector<std::uint64_t>& values) {
      return std::accumulate(values.begin(), values.end(), std::uint64_t{0},
                             [](std::uint64_t sum, std::uint64_t value) { return sum * 31 + value; });
    };
    const std::uint64_t mine =
        fold(field_) * (piece_ * 2 + 1) + fold(small_) * (static_cast<std::uint64_t>(rank_) * 2 + 1);
    std::uint64_t total = 0;
    MPI_Reduce(&mine, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank_ == 0) {
      std::cout << "digest " << total << std::endl;
    }
  }

  static constexpr std::chrono::milliseconds kCopyEvery{1};
  // 0.5 MiB a rank, not a whole number of pages; of both ranks enough for an exchange.
  static constexpr std::uint64_t kRows = 251;
  static constexpr std::uint64_t kColumns = 262;

  int rank_ = 0;
  int size_ = 1;
  std::uint64_t piece_ = 0;  ///< of the field
  Checkpoint state_;
  std::vector<std::uint64_t> field_;
  std::vector<std::uint64_t> small_;
  std::uint64_t step_ = 0;
};

}  // namespace

/// In place of MPI's own, which the library asks for the name of its host.
extern "C" int MPI_Get_processor_name(char* name, int* length) {
  if (!hosts_are_played) {
    return PMPI_Get_processor_name(name, length);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  *length = std::snprintf(name, MPI_MAX_PROCESSOR_NAME, "node%d", rank);
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: faults_stepper DIR STEPS MODE\n";
    return 2;
  }
  watch_signals();
  hosts_are_played = std::string(argv[3]) == "far";
  MPI_Init(&argc, &argv);
  try {
    Simulation(argv[3]).run(argv[1], std::stoull(argv[2]), argv[3]);
  } catch (const std::exception& error) {
    std::cerr << "faults_stepper: " << error.what() << std::endl;
    return 3;  // without MPI_Finalize, which would wait for ranks that are gone
  }
  MPI_Finalize();
  return 0;
}
