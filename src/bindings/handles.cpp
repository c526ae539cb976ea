// SPDX-License-Identifier: BSD-3-Clause
#include "bindings/handles.hpp"

#include "bindings/guard.hpp"
#include "cluster/communicator.hpp"
#include "core/process.hpp"
#include "reprieve/error.hpp"

namespace reprieve::bindings {

namespace {

void check_mpi_is_running() {
  int initialized = 0;
  int finalized = 0;
  cluster::check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  cluster::check_mpi(MPI_Finalized(&finalized), "MPI_Finalized");
  if (initialized == 0 || finalized != 0) {
    throw UsageError(initialized == 0
                         ? "MPI is not initialised: call MPI_Init before this; a session of MPI 4 is not enough"
                         : "MPI is finalised already");
  }
}

OpenArguments arguments_from(const reprieve_checkpoint* checkpoint, const char* directory,
                             const reprieve_config* config) {
  if (config != nullptr && config->first_failure) {
    core::throw_failure(*config->first_failure);
  }
  if (checked(checkpoint, "checkpoint").first_failure) {
    core::throw_failure(*checkpoint->first_failure);
  }
  OpenArguments arguments;
  arguments.settings = config == nullptr ? Settings{} : config->settings;
  arguments.directory = directory == nullptr || *directory == '\0' ? arguments.settings.directory : directory;
  return arguments;
}

/// It may still come from the environment of rank 0. Collective.
void check_directory(cluster::Communicator& comm, const OpenArguments& arguments) {
  constexpr const char* what = "opening";
  const bool is_named = comm.is_chief() && arguments.settings.manager.read_environment &&
                        core::environment_variable("REPRIEVE_DIRECTORY").has_value();
  const bool comes_from_outside = comm.max(is_named ? 1 : 0, what) > 0;
  comm.agree(core::capture([&] {
               if (arguments.directory.empty() && !comes_from_outside) {
                 throw UsageError("there is no checkpoint directory: pass one, or make the setting 'directory'");
               }
             }),
             what);
}

}  // namespace

OpenArguments agreed_arguments(MPI_Comm comm, const reprieve_checkpoint* checkpoint, const char* directory,
                               const reprieve_config* config, bool has_place) {
  check_mpi_is_running();
  if (comm == MPI_COMM_NULL) {
    throw UsageError("the communicator is MPI_COMM_NULL: pass that of all ranks that save together");
  }
  OpenArguments arguments;
  const core::Outcome mine = core::capture([&] {
    if (!has_place) {
      reject_place("handle");
    }
    arguments = arguments_from(checkpoint, directory, config);
  });
  cluster::Communicator own(comm, arguments.settings.termination.peer_timeout);
  const auto check = [&] {
    own.agree(mine, "opening");
    check_directory(own, arguments);
    configure_logging(arguments.settings.log, own.is_chief());
  };
  own.together(check, "opening");
  return arguments;
}

reprieve_checkpoint_info shown(const CheckpointInfo& info) {
  const std::chrono::duration<double> time = info.time.time_since_epoch();
  return {info.path.c_str(),
          info.number,
          info.run_calls.value_or(REPRIEVE_NO_RUN_CALLS),
          info.world_size,
          time.count(),
          info.size_bytes,
          to_string(info.reason.kind),
          info.files_directory ? info.files_directory->c_str() : ""};
}

void show(const std::optional<CheckpointInfo>& found, int* flag, reprieve_checkpoint_info* info) {
  if (flag != nullptr) {
    *flag = found ? 1 : 0;
  }
  if (info != nullptr) {
    *info = found ? shown(*found) : reprieve_checkpoint_info{"", 0, 0, 0, 0, 0, "", ""};
  }
}

}  // namespace reprieve::bindings
