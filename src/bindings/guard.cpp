// SPDX-License-Identifier: BSD-3-Clause
#include "bindings/guard.hpp"

#include "cluster/job_end.hpp"
#include "handler/exit.hpp"
#include "reprieve/reprieve.h"
#include "reprieve/termination_config.hpp"
#include "reprieve/version_details.hpp"

namespace reprieve::bindings {

namespace {

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
