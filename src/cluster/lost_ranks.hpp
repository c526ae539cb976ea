// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Ranks that have died while the others continue: what MPI knows of them, and how the others get a communicator
/// without them. MPI has this where it was made with ULFM (Open MPI 5) and was started with it (`mpirun --with-ft
/// ulfm`); elsewhere every death ends the job, and the functions say that no rank is lost. Source: MPI Forum Fault
/// Tolerance Working Group, "User Level Failure Mitigation".

#include <mpi.h>

#include <functional>
#include <vector>

namespace reprieve::cluster {

/// Whether this process outlives the death of another rank. Not collective.
[[nodiscard]] bool survives_lost_ranks() noexcept;

/// Whether @p result of an MPI call says that ranks have died, or that another rank has revoked the communicator.
[[nodiscard]] bool is_loss(int result) noexcept;

/// Ranks of @p comm that have died, as far as this process knows, in ascending order. Not collective.
[[nodiscard]] std::vector<int> lost_ranks(MPI_Comm comm);

/// Whether there are any, or another rank has revoked @p comm. Not collective.
[[nodiscard]] bool has_lost_ranks(MPI_Comm comm) noexcept;

/// Whoever waits in @p comm, on any rank, gets an error: it may wait for a rank that has left. Not collective.
void revoke(MPI_Comm comm) noexcept;

/// The bits of @p mine that all ranks of @p comm have set that live. Collective over these, and the same on all of
/// them, whoever dies meanwhile. Has no time limit. Where no rank may die, it is @p mine at once. @throws MpiError
[[nodiscard]] int agree_among_living(MPI_Comm comm, int mine);

/// Revokes @p comm, frees it, and puts one of the ranks that live in its place, in the same order. Collective over
/// these.
/// @throws MpiError
void shrink(MPI_Comm& comm);

/// The life of this process in run_resilient. Thread: the one that may call MPI.
struct Life {
  /// Set if ranks have died: variables of the program may hold values of lost steps. Ends this process, so that the
  /// job is started again. Every rank that works must call it.
  std::function<void(const char* why)> leave;
  bool is_saved_for_notice = false;  ///< a handler has saved for a notice, and the program leaves
};
Life& life() noexcept;

/// Calls @p make, which makes a communicator of ranks that are all there, and may use it. Open MPI 5.0.7 hung so after
/// deaths: then this process leaves, within 10 s. Without a death it has no time limit.
void make_communicator(const std::function<void()>& make);

}  // namespace reprieve::cluster
