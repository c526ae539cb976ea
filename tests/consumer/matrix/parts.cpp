// SPDX-License-Identifier: BSD-3-Clause
// A program with two shared libraries that both use Reprieve, each for itself; an error of one goes to the other.
#include "parts.hpp"

#include <mpi.h>

#include <filesystem>
#include <iostream>

int main(int argc, char** argv) {
  const std::string folder = "checkpoints/";
  std::filesystem::create_directory(folder);  // a directory is made, but not those above it
  MPI_Init(&argc, &argv);
  const bool save =
      first::saves(folder + "first") && second::saves(folder + "second") && first::saves(folder + "again");
  const bool catches = first::catches(second::fails) && second::catches(first::fails) && second::catches(second::fails);
  MPI_Finalize();
  std::cout << (save && catches ? "finished, and right" : "finished, and wrong") << std::endl;
  return save && catches ? 0 : 1;
}
