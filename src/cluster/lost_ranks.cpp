// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/lost_ranks.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string_view>

#include "cluster/communicator.hpp"
#include "core/threads.hpp"

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

namespace reprieve::cluster {

#ifdef OMPI_HAVE_MPI_EXT_FTMPI

bool survives_lost_ranks() noexcept {
  static const bool survives = [] {
    const char* const enabled = std::getenv("OMPI_MCA_mpi_ft_enable");  // mpirun sets it for --with-ft
    return enabled != nullptr && std::string_view(enabled) != "0";
  }();
  return survives;
}

bool is_loss(int result) noexcept {
  int kind = MPI_SUCCESS;
  return result != MPI_SUCCESS && MPI_Error_class(result, &kind) == MPI_SUCCESS &&
         (kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING || kind == MPIX_ERR_REVOKED ||
          (kind == MPI_ERR_IN_STATUS &&
           survives_lost_ranks()));  // one of several requests: nothing else makes them fail
}

std::vector<int> lost_ranks(MPI_Comm comm) {
  if (!survives_lost_ranks()) {
    return {};
  }
  MPI_Group failed = MPI_GROUP_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  int count = 0;
  check_mpi(MPIX_Comm_get_failed(comm, &failed), "MPIX_Comm_get_failed");
  check_mpi(MPI_Comm_group(comm, &all), "MPI_Comm_group");
  check_mpi(MPI_Group_size(failed, &count), "MPI_Group_size");
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<int> ranks(numbers.size());
  check_mpi(MPI_Group_translate_ranks(failed, count, numbers.data(), all, ranks.data()), "MPI_Group_translate_ranks");
  check_mpi(MPI_Group_free(&failed), "MPI_Group_free");
  check_mpi(MPI_Group_free(&all), "MPI_Group_free");
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool has_lost_ranks(MPI_Comm comm) noexcept {
  int finalized = 0;
  int is_revoked = 0;
  MPI_Group failed = MPI_GROUP_NULL;
  int count = 0;
  if (!survives_lost_ranks() || comm == MPI_COMM_NULL || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) {
    return false;
  }
  if (MPIX_Comm_is_revoked(comm, &is_revoked) == MPI_SUCCESS && is_revoked != 0) {
    return true;
  }
  if (MPIX_Comm_get_failed(comm, &failed) == MPI_SUCCESS && MPI_Group_size(failed, &count) == MPI_SUCCESS) {
    static_cast<void>(MPI_Group_free(&failed));
  }
  return count > 0;
}

void revoke(MPI_Comm comm) noexcept {
  static_cast<void>(MPIX_Comm_revoke(comm));  // fails only for what is no communicator
}

int agree_among_living(MPI_Comm comm, int mine) {
  if (!survives_lost_ranks()) {
    return mine;
  }
  int all = mine;
  MPI_Request request = MPI_REQUEST_NULL;
  int result = MPIX_Comm_iagree(comm, &all, &request);
  const auto start = std::chrono::steady_clock::now();
  for (int done = 0; request != MPI_REQUEST_NULL && done == 0;) {
    pause(std::chrono::steady_clock::now() - start);
    result = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
  if (!is_loss(result)) {
    check_mpi(result, "MPIX_Comm_iagree");
  }
  return all;
}

void shrink(MPI_Comm& comm) {
  MPI_Comm living = MPI_COMM_NULL;
  revoke(comm);
  check_mpi(MPIX_Comm_shrink(comm, &living), "MPIX_Comm_shrink");
  check_mpi(MPI_Comm_set_errhandler(living, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_free(&comm), "MPI_Comm_free");
  comm = living;
}

#else

bool survives_lost_ranks() noexcept { return false; }
bool is_loss(int /*result*/) noexcept { return false; }
std::vector<int> lost_ranks(MPI_Comm /*comm*/) { return {}; }
bool has_lost_ranks(MPI_Comm /*comm*/) noexcept { return false; }
void revoke(MPI_Comm /*comm*/) noexcept {}
int agree_among_living(MPI_Comm /*comm*/, int mine) { return mine; }
void shrink(MPI_Comm& /*comm*/) {}

#endif

Life& life() noexcept {
  static Life life;
  return life;
}

void make_communicator(const std::function<void()>& make) {
  constexpr std::chrono::seconds limit{10};
  std::optional<core::Watchdog> watchdog;
  if (const auto leave = life().leave) {
    watchdog.emplace(limit,
                     [leave](const auto&) { leave("MPI made no communicator of the ranks that live within 10 s"); });
  }
  make();
}

}  // namespace reprieve::cluster
