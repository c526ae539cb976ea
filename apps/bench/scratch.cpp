// SPDX-License-Identifier: BSD-3-Clause
#include "scratch.hpp"

#include <mpi.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "cluster/communicator.hpp"
#include "ranks.hpp"

namespace reprieve::bench {

using cluster::check_mpi;

Scratch::Scratch(const std::filesystem::path& parent) {
  is_chief_ = rank_in(MPI_COMM_WORLD) == 0;
  std::array<char, PATH_MAX> name{};
  int error = 0;
  const auto base = parent.empty() ? std::filesystem::temp_directory_path() : parent;
  if (is_chief_) {
    const std::string pattern = (base / "reprieve-bench-XXXXXX").string();
    std::strncpy(name.data(), pattern.c_str(), name.size() - 1);
    error = mkdtemp(name.data()) == nullptr ? errno : 0;
  }
  check_mpi(MPI_Bcast(&error, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  if (error != 0) {
    throw std::runtime_error(fmt::format("cannot make a directory in {}: {}", base.string(), std::strerror(error)));
  }
  check_mpi(MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
  path_ = name.data();
}

Scratch::~Scratch() {
  if (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS && is_chief_) {
    std::error_code ignored;  // at worst a temporary directory is left
    std::filesystem::remove_all(path_, ignored);
  }
}

}  // namespace reprieve::bench
