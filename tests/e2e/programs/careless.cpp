// SPDX-License-Identifier: BSD-3-Clause
// e2e_careless STEP_MS [ignore]: an MPI program that knows nothing of preemption, and works until it is ended. With
// "ignore" it ignores SIGUSR1 and SIGTERM.

#include <mpi.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: e2e_careless STEP_MS [ignore]\n";
    return 2;
  }
  MPI_Init(&argc, &argv);
  if (argc > 2 && std::string(argv[2]) == "ignore") {
    std::signal(SIGUSR1, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
  }
  const std::chrono::milliseconds step(std::stoi(argv[1]));
  for (int keep_running = 1; keep_running == 1;) {
    std::this_thread::sleep_for(step);
    MPI_Allreduce(MPI_IN_PLACE, &keep_running, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
