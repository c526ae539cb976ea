// SPDX-License-Identifier: BSD-3-Clause
#include "measure.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "cluster/communicator.hpp"
#include "ranks.hpp"

namespace reprieve::bench {

namespace {

using cluster::check_mpi;

/// A line of /proc/self/status ("VmHWM:"), in bytes; 0 where there is none.
std::uint64_t memory_status(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == key) {
      std::uint64_t kib = 0;
      status >> kib;
      return kib * 1024;
    }
  }
  return 0;
}

/// Makes the peak of the resident memory the present one. Without this right the peak is that of the whole run.
void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

void run_once(MPI_Comm comm, const Candidate& candidate, Measurement* result) {
  if (candidate.prepare) {
    candidate.prepare();
  }
  reset_peak_memory();
  const std::uint64_t before = memory_status("VmRSS:");
  meet(comm);
  const auto start = std::chrono::steady_clock::now();
  candidate.run();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const double seconds = greatest(comm, elapsed.count());
  const std::uint64_t peak = memory_status("VmHWM:");
  const double growth = greatest(comm, peak > before ? static_cast<double>(peak - before) : 0.0);
  if (result != nullptr) {
    result->seconds.push_back(seconds);
    result->memory_bytes = std::max(result->memory_bytes, static_cast<std::uint64_t>(growth));
  }
}

}  // namespace

std::vector<Measurement> measure_interleaved(MPI_Comm comm, const std::vector<Candidate>& candidates, int rounds,
                                             int warm_up) {
  std::vector<Measurement> measurements(candidates.size());
  for (int round = -warm_up; round < rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      run_once(comm, candidates[i], round >= 0 ? &measurements[i] : nullptr);
    }
  }
  return measurements;
}

FirstRanks::FirstRanks(int ranks) {
  const int rank = rank_in(MPI_COMM_WORLD);
  if (ranks > size_of(MPI_COMM_WORLD)) {
    throw std::invalid_argument("needs " + std::to_string(ranks) + " ranks: start it with mpirun -n " +
                                std::to_string(ranks));
  }
  check_mpi(MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &comm_), "MPI_Comm_split");
}

FirstRanks::~FirstRanks() {
  if (comm_ != MPI_COMM_NULL) {
    MPI_Comm_free(&comm_);
  }
}

void FirstRanks::run(const std::function<void()>& work) const {
  if (is_member()) {
    work();
  }
  MPI_Request all_here = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(MPI_COMM_WORLD, &all_here), "MPI_Ibarrier");
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&all_here, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace reprieve::bench
