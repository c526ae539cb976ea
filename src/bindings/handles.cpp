// SPDX-License-Identifier: BSD-3-Clause
#include "bindings/handles.hpp"

#include <array>
#include <complex>

#include "cluster/communicator.hpp"
#include "cluster/job_end.hpp"
#include "core/process.hpp"
#include "handler/exit.hpp"
#include "reprieve/error.hpp"
#include "reprieve/version_details.hpp"

namespace reprieve::bindings {

namespace {

/// HDF5's limit.
constexpr int kMaxDimensions = 32;

/// In the order of the enumeration reprieve_type, which begins with 1.
constexpr std::array kElementTypes{
    element_type_of<std::int8_t>(),
    element_type_of<std::int16_t>(),
    element_type_of<std::int32_t>(),
    element_type_of<std::int64_t>(),
    element_type_of<std::uint8_t>(),
    element_type_of<std::uint16_t>(),
    element_type_of<std::uint32_t>(),
    element_type_of<std::uint64_t>(),
    element_type_of<float>(),
    element_type_of<double>(),
    element_type_of<long double>(),
    element_type_of<std::complex<float>>(),
    element_type_of<std::complex<double>>(),
    element_type_of<std::complex<long double>>(),
    element_type_of<bool>(),
    ElementType{ElementClass::text, 1},
    ElementType{ElementClass::opaque, 1},
    ElementType{ElementClass::boolean, 2},
    ElementType{ElementClass::boolean, 4},
    ElementType{ElementClass::boolean, 8},
    ElementType{ElementClass::floating, 2},
};
static_assert(kElementTypes.size() == REPRIEVE_HALF);

struct LastError {
  int code = REPRIEVE_OK;
  std::string message;
  int origin_rank = -1;
  std::exception_ptr error;
  std::string from_callback;
};

/// One per thread, as errno is.
LastError& last_error() {
  thread_local LastError error;
  return error;
}

int keep(int code, const char* message, int origin_rank) {
  last_error().code = code;
  last_error().origin_rank = origin_rank;
  last_error().message = message;
  return code;
}

int keep_any(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Preempted& preempted) {
    return keep(REPRIEVE_PREEMPTED, preempted.what(), preempted.context().notice.rank);
  } catch (const Error& known) {
    return keep(static_cast<int>(known.code()), known.what(), known.origin_rank());
  } catch (...) {
    const core::Failure failure = core::failure_of(error);
    return keep(static_cast<int>(failure.code), failure.message.c_str(), -1);
  }
}

/// Why a callback failed: what it said, or the error of this library that it returned.
std::string reason_of(int result, LastError& last) {
  if (!last.from_callback.empty()) {
    return std::exchange(last.from_callback, {});
  }
  return result == last.code ? last.message : "it returned " + std::to_string(result);
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
  const bool is_named = comm.is_rank_0() && arguments.settings.manager.read_environment &&
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

int remember(const std::exception_ptr& error) noexcept {
  try {
    last_error().error = error;
    return keep_any(error);
  } catch (...) {  // not even for the text
    return REPRIEVE_ERROR_NO_MEMORY;
  }
}

void check_callback(const std::string& what, const std::function<int()>& call) {
  LastError& last = last_error();
  last.from_callback.clear();
  last.code = REPRIEVE_OK;
  if (const int result = call(); result != 0) {
    throw ClusterError(what + " failed: " + reason_of(result, last));
  }
}

void reject_null(const char* what) {
  throw UsageError(std::string("the ") + what + " is NULL: it was not made or opened, or that failed, or it is closed");
}

void reject_null_result(const char* what) {
  throw UsageError(std::string("the pointer to the ") + what + " is NULL: pass the address of a variable");
}

std::string checked_text(const char* text, const char* what) {
  if (text == nullptr) {
    throw UsageError(std::string("the ") + what + " is NULL: pass a text");
  }
  return text;
}

ElementType element_type(int type) {
  if (type < 1 || type > static_cast<int>(kElementTypes.size())) {
    throw UsageError("there is no element type " + std::to_string(type) +
                     ": pass one of the enumeration reprieve_type, such as REPRIEVE_DOUBLE");
  }
  return kElementTypes.at(static_cast<std::size_t>(type) - 1);
}

Extents extents(const std::string& name, const char* what, int dimensions, const std::int64_t* values) {
  const std::string prefix = "variable '" + name + "': ";
  if (dimensions < 0 || dimensions > kMaxDimensions) {
    throw UsageError(prefix + "it cannot have " + std::to_string(dimensions) +
                     " dimensions; allowed: 0 (a scalar) to " + std::to_string(kMaxDimensions));
  }
  if (dimensions > 0 && values == nullptr) {
    throw UsageError(prefix + "the " + what + " is NULL: pass " + std::to_string(dimensions) + " numbers");
  }
  Extents result;
  for (int d = 0; d < dimensions; ++d) {
    if (values[d] < 0) {
      throw UsageError(prefix + "the " + what + " is " + std::to_string(values[d]) + " in dimension " +
                       std::to_string(d) + " (counted from 0): it must not be negative");
    }
    result.push_back(static_cast<std::uint64_t>(values[d]));
  }
  return result;
}

std::vector<std::ptrdiff_t> strides(int dimensions, const std::ptrdiff_t* values) {
  return values == nullptr || dimensions <= 0 ? std::vector<std::ptrdiff_t>{}
                                              : std::vector<std::ptrdiff_t>(values, values + dimensions);
}

OpenArguments agreed_arguments(MPI_Comm comm, const reprieve_checkpoint* checkpoint, const char* directory,
                               const reprieve_config* config, bool has_pointer) {
  OpenArguments arguments;
  const core::Outcome mine = core::capture([&] {
    if (!has_pointer) {
      reject_null_result("handle");
    }
    arguments = arguments_from(checkpoint, directory, config);
  });
  cluster::Communicator own(comm, arguments.settings.termination.peer_timeout);
  const auto check = [&] {
    own.agree(mine, "opening");
    check_directory(own, arguments);
    configure_logging(arguments.settings.log, own.is_rank_0());
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

using reprieve::bindings::last_error;

extern "C" {

const char* reprieve_last_error_message(void) { return last_error().message.c_str(); }

int reprieve_last_error_origin_rank(void) { return last_error().origin_rank; }

void reprieve_abort(void) {
  const std::exception_ptr error = last_error().error;
  if (!error) {
    reprieve::cluster::end_job(
        reprieve::UsageError("reprieve_abort was called, but no function of the library has failed on this thread"));
  }
  try {
    std::rethrow_exception(error);
  } catch (const reprieve::Preempted& preempted) {
    reprieve::handler::leave_alone(preempted.exit_code());
  } catch (const reprieve::Error& known) {
    reprieve::cluster::end_job(known);
  } catch (...) {
    const reprieve::core::Failure failure = reprieve::core::failure_of(error);
    reprieve::cluster::end_job(reprieve::Error(failure.code, failure.message));
  }
}

const char* reprieve_status_name(int status) {
  switch (status) {
    case REPRIEVE_OK:
      return "ok";
    case REPRIEVE_PREEMPTED:
      return "preempted";
    default:
      return to_string(static_cast<reprieve::ErrorCode>(status));
  }
}

int reprieve_callback_error(const char* message) {
  static_cast<void>(
      reprieve::bindings::guarded([&] { last_error().from_callback = message == nullptr ? "" : message; }));
  return 1;
}

const char* reprieve_version(void) { return REPRIEVE_VERSION; }

const char* reprieve_version_details(void) {
  const char* text = "";
  const auto make = [&] {
    static const std::string kText = to_text(reprieve::version_details());  // made once: it stays where it is
    text = kText.c_str();
  };
  return reprieve::bindings::guarded(make) == REPRIEVE_OK ? text : "";
}

}  // extern "C"
