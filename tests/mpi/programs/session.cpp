// SPDX-License-Identifier: BSD-3-Clause
// A program with a session of MPI 4: without MPI_Init a handler and a manager are refused on every rank, with it they
// take the communicator that was made from a group of the session. Ends with 0 if all that is so.

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "reprieve/reprieve.hpp"

namespace {

MPI_Comm communicator_of(MPI_Session session) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "reprieve.session", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
  MPI_Group_free(&group);
  return comm;
}

bool is_refused(MPI_Comm comm, reprieve::Checkpoint& state, const std::string& directory) {
  int refused = 0;
  try {
    const reprieve::PreemptionCheckpointHandler handler(comm, state, directory);
  } catch (const reprieve::UsageError& error) {
    refused += std::string(error.what()).find("a session of MPI 4 is not enough") != std::string::npos ? 1 : 0;
  }
  try {
    const reprieve::CheckpointManager manager(comm, state, directory);
  } catch (const reprieve::UsageError& error) {
    refused += std::string(error.what()).find("a session of MPI 4 is not enough") != std::string::npos ? 1 : 0;
  }
  return refused == 2;
}

int steps_made(MPI_Comm comm, reprieve::Checkpoint& state, const std::string& directory) {
  reprieve::PreemptionCheckpointHandler handler(comm, state, directory);
  while (handler.total_run_calls() < 3) {
    handler.run([] {});
    handler.request_checkpoint();
  }
  handler.finish();
  return static_cast<int>(handler.total_run_calls());
}

}  // namespace

int main() {
  reprieve::watch_signals();
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  MPI_Comm comm = communicator_of(session);
  int rank = -1;
  MPI_Comm_rank(comm, &rank);
  // The launcher is the parent of all ranks on this machine.
  const std::string directory =
      (std::filesystem::temp_directory_path() / ("reprieve-session-" + std::to_string(getppid()))).string();
  reprieve::Checkpoint state;
  double value = 1;
  state.add_replicated("value", value);

  const bool is_right_without = is_refused(comm, state, directory);
  MPI_Init(nullptr, nullptr);
  const int made = steps_made(comm, state, directory);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  MPI_Session_finalize(&session);
  std::printf("rank %d: refused without MPI_Init: %s, steps with it: %d\n", rank, is_right_without ? "yes" : "no",
              made);
  if (rank == 0) {
    std::filesystem::remove_all(directory);
  }
  return is_right_without && made == 3 ? 0 : 1;
}
