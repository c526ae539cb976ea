// SPDX-License-Identifier: BSD-3-Clause
// faults_mpio_saver DIR RANK CALL ERROR FIRST: saves checkpoints through MPI-IO. In each save one call of the kind CALL
// on the new file fails on rank RANK: in the first one the FIRST such call, then the next, until there is none left.
// Rank 0 prints
//   trial N          before a save in which call N is to fail
//   saved | error E  how it ended, E the same on all ranks (else: "different ...")
//   end              when there is no such call any more
// A save that hangs is ended by the library.

#include <mpi.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "faults/injector/faulty_calls.hpp"
#include "faults/programs/world.hpp"
#include "reprieve/reprieve.hpp"

namespace {

using namespace reprieve;
using test::agreed;
using test::tell;
using test::World;

std::string save(CheckpointManager& manager, std::uint64_t number) {
  try {
    manager.save(number);
    return "saved";
  } catch (const Error& error) {
    return std::string("error ") + to_string(error.code()) + " " + error.what();
  }
}

void run(char** arguments) {
  const World world;
  test::Fault fault{.call = test::call_of(arguments[3]),
                    .error = std::stoi(arguments[4]),
                    .occurrence = std::stoull(arguments[5]),
                    .path = ".chieftemp/"};
  const int victim = std::stoi(arguments[2]);
  constexpr std::uint64_t kPart = 1U << 16U;
  std::vector<std::uint64_t> field(kPart);
  Checkpoint checkpoint;
  checkpoint.add_distributed(
      "field", field.data(),
      {{kPart * static_cast<std::uint64_t>(world.size)}, {kPart * static_cast<std::uint64_t>(world.rank)}, {kPart}});
  ManagerOptions options;
  options.writer = WriterKind::mpio;
  std::uint64_t number = 1;
  {
    CheckpointManager patient(MPI_COMM_WORLD, checkpoint, arguments[1], options);
    const auto restored = patient.restore_or_initialize();
    number += restored ? restored->number : 0;
    patient.save(number);
  }
  options.io_timeout = std::chrono::seconds(2);  // for the calls that hang, which are to come
  CheckpointManager manager(MPI_COMM_WORLD, checkpoint, arguments[1], options);
  for (int hit = 1; hit == 1; ++fault.occurrence) {
    tell(world, "trial " + std::to_string(fault.occurrence));
    MPI_Barrier(MPI_COMM_WORLD);
    if (world.rank == victim) {
      test::arm(fault);
    }
    const std::string outcome = save(manager, ++number);
    hit = world.rank == victim && test::disarm().failed > 0 ? 1 : 0;
    MPI_Bcast(&hit, 1, MPI_INT, victim, MPI_COMM_WORLD);
    tell(world, agreed(outcome));
  }
  tell(world, "end");
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: faults_mpio_saver DIR RANK CALL ERROR FIRST\n";
    return 2;
  }
  MPI_Init(&argc, &argv);
  try {
    run(argv);
  } catch (const std::exception& error) {
    std::cerr << "faults_mpio_saver: " << error.what() << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  std::cout.flush();
  ::_exit(0);  // after errors within MPI-IO, HDF5 may crash in MPI_Finalize
}
