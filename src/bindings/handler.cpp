// SPDX-License-Identifier: BSD-3-Clause
// The time loop: reprieve_handler_..., reprieve_step_... and what is asked of a handler.

#include "bindings/handles.hpp"
#include "reprieve/error.hpp"
#include "reprieve/run_resilient.hpp"

namespace reprieve::bindings {
namespace {

/// Runs a call that may leave, and keeps the code to leave with.
template <class Operation>
int guarded_call(reprieve_handler* handle, Operation&& operation) {
  return guarded([&] {
    reprieve_handler& handler = checked(handle, "handler");
    try {
      operation(handler);
    } catch (const Preempted& preempted) {
      handler.exit_code = preempted.exit_code();
      throw;
    }
  });
}

void begin_step(reprieve_handler& handler) {
  if (handler.step_is_open) {
    throw UsageError("a step is open: call reprieve_step_end before the next one");
  }
  StepAccess::begin(*handler.handler);
  handler.step_is_open = true;
}

void end_step(reprieve_handler& handler) noexcept {
  handler.step_is_open = false;
  StepAccess::end(*handler.handler);
}

/// A save in the middle of a step would make the resumed run do that step twice.
void check_between_steps(const reprieve_handler& handler, const char* call) {
  if (handler.step_is_open) {
    throw UsageError(
        std::string("a step is open, and would be made again after a restart: call reprieve_step_end before ") + call);
  }
}

/// Ends what the caller left open. @throws the error of the innermost scope that had one
void close_scopes(reprieve_handler& handler) {
  std::exception_ptr first;
  while (!handler.scopes.empty()) {
    try {
      handler.scopes.back().close();
    } catch (...) {
      first = first ? first : std::current_exception();
    }
    handler.scopes.pop_back();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace
}  // namespace reprieve::bindings

using namespace reprieve;            // NOLINT: the C interface of that namespace
using namespace reprieve::bindings;  // NOLINT

extern "C" {

int reprieve_watch_signals(void) {
  return guarded([] { watch_signals(); });
}

int reprieve_unwatch_signals(void) {
  return guarded([] { unwatch_signals(); });
}

int reprieve_handler_open(MPI_Comm comm, reprieve_checkpoint* checkpoint, const char* directory,
                          const reprieve_config* config, reprieve_handler** handler) {
  return guarded([&] {
    if (handler != nullptr) {
      *handler = nullptr;
    }
    OpenArguments arguments = agreed_arguments(comm, checkpoint, directory, config, handler != nullptr);
    result_at(handler, "handler") = new reprieve_handler{
        checkpoint->use,
        std::make_unique<PreemptionCheckpointHandler>(comm, checkpoint->state, arguments.directory,
                                                      arguments.settings.termination, arguments.settings.manager),
        {},
        false,
        {}};
  });
}

int reprieve_handler_close(reprieve_handler** handler) {
  if (handler != nullptr && *handler == nullptr) {
    return REPRIEVE_OK;
  }
  if (handler != nullptr) {
    const int scopes = guarded_call(*handler, close_scopes);
    if (scopes == REPRIEVE_PREEMPTED) {
      return scopes;  // the caller will ask for the exit code
    }
    const std::unique_ptr<reprieve_handler> owner(std::exchange(*handler, nullptr));
    if (scopes != REPRIEVE_OK) {
      return scopes;
    }
    return guarded([&] { StepAccess::close(*owner->handler); });
  }
  return guarded([] { reject_null_result("handler"); });
}

int reprieve_next_step(reprieve_handler* handler, uint64_t steps, int* status) {
  int more = 0;
  const int result = guarded_call(handler, [&](reprieve_handler& open) {
    if (open.step_is_open) {
      end_step(open);
    }
    if (open.handler->total_run_calls() < steps) {
      begin_step(open);
      more = 1;
    } else {
      StepAccess::agree_now(*open.handler);
    }
  });
  if (status != nullptr) {
    *status = result;
  } else if (result != REPRIEVE_OK && result != REPRIEVE_PREEMPTED) {
    // Nobody would see that the loop has ended early. reprieve_preempted reports a preemption.
    reprieve_abort();
  }
  return more;
}

int reprieve_step_begin(reprieve_handler* handler) { return guarded_call(handler, begin_step); }

int reprieve_step_end(reprieve_handler* handler) {
  return guarded_call(handler, [](reprieve_handler& open) {
    if (!open.step_is_open) {
      throw UsageError("no step is open: call reprieve_step_begin or reprieve_next_step before");
    }
    end_step(open);
  });
}

int reprieve_handler_finish(reprieve_handler* handler) {
  return guarded_call(handler, [](reprieve_handler& open) {
    if (open.step_is_open) {
      end_step(open);
    }
    close_scopes(open);
    open.handler->finish();
  });
}

int reprieve_save_if_preempted(reprieve_handler* handler) {
  return guarded_call(handler, [](reprieve_handler& open) {
    check_between_steps(open, "reprieve_save_if_preempted");
    open.handler->step_boundary();
  });
}

int reprieve_scope_begin(reprieve_handler* handler) {
  return reprieve_scope_begin_with(handler, REPRIEVE_SCOPE_SAVE_NOW);
}

int reprieve_scope_begin_with(reprieve_handler* handler, int mode) {
  return guarded_call(handler, [mode](reprieve_handler& open) {
    if (mode != REPRIEVE_SCOPE_SAVE_NOW && mode != REPRIEVE_SCOPE_SAVE_AT_END) {
      throw UsageError("there is no mode of a scope with number " + std::to_string(mode) +
                       ": pass REPRIEVE_SCOPE_SAVE_NOW or _SAVE_AT_END");
    }
    const bool at_end = mode == REPRIEVE_SCOPE_SAVE_AT_END;
    open.scopes.push_back(open.handler->watch_preemption_scope(at_end ? ScopeMode::save_at_end : ScopeMode::save_now));
  });
}

int reprieve_scope_end(reprieve_handler* handler) {
  return guarded_call(handler, [](reprieve_handler& open) {
    check_between_steps(open, "reprieve_scope_end");
    if (open.scopes.empty()) {
      throw UsageError("no scope is open: call reprieve_scope_begin before");
    }
    PreemptionScope scope = std::move(open.scopes.back());
    open.scopes.pop_back();
    scope.close();
  });
}

int reprieve_fail(reprieve_handler* handler, const char* message) {
  return guarded_call(handler, [&](reprieve_handler& open) {
    open.step_is_open = false;
    const char* text = message == nullptr || *message == '\0' ? "the program gave no message" : message;
    StepAccess::fail(*open.handler, std::make_exception_ptr(ClusterError(text)));
  });
}

int reprieve_begin_phase(reprieve_handler* handler) {
  return guarded_call(handler, [](reprieve_handler& open) { open.handler->begin_phase(); });
}

uint64_t reprieve_total_run_calls(const reprieve_handler* handler) {
  std::uint64_t calls = UINT64_MAX;
  static_cast<void>(guarded([&] { calls = checked(handler, "handler").handler->total_run_calls(); }));
  return calls;
}

int reprieve_preempted(const reprieve_handler* handler) {
  return answer_of([&] { return checked(handler, "handler").handler->preempted(); });
}

int reprieve_preemption_notice(const reprieve_handler* handler, reprieve_notice* notice) {
  return guarded([&] {
    auto& shown = result_at(notice, "notice");
    shown = {-1, "", "", "", 0, 0};
    const auto& agreed = checked(handler, "handler").handler->preemption_notice();
    if (!agreed) {
      throw UsageError("there is no notice: ask reprieve_preempted first");
    }
    shown = {agreed->rank, agreed->host.c_str(), agreed->source.c_str(), agreed->message.c_str(), 0, 0};
    if (agreed->deadline) {
      const std::chrono::duration<double> left = *agreed->deadline - std::chrono::steady_clock::now();
      shown.has_deadline = 1;
      shown.time_left_s = left.count();
    }
  });
}

int reprieve_restored_from(const reprieve_handler* handler, int* restored, reprieve_checkpoint_info* info) {
  return guarded([&] {
    result_at(restored, "answer") = 0;
    show(checked(handler, "handler").handler->restored_from(), restored, info);
  });
}

int reprieve_already_finished(const reprieve_handler* handler, int* finished, uint64_t* steps) {
  return guarded([&] {
    const auto& at = checked(handler, "handler").handler->already_finished();
    result_at(finished, "finished") = at ? 1 : 0;
    if (steps != nullptr) {
      *steps = at.value_or(0);
    }
  });
}

int reprieve_last_save(const reprieve_handler* handler, int* saved, reprieve_save_report* report) {
  return guarded([&] {
    result_at(saved, "answer") = 0;
    const auto& last = checked(handler, "handler").handler->last_save();
    *saved = last ? 1 : 0;
    if (report != nullptr) {
      *report = last ? reprieve_save_report{last->path.c_str(), last->number, last->bytes, last->seconds,
                                            last->blocked_seconds}
                     : reprieve_save_report{"", 0, 0, 0, 0};
    }
  });
}

int reprieve_request_checkpoint(reprieve_handler* handler) {
  return guarded([&] { checked(handler, "handler").handler->request_checkpoint(); });
}

int reprieve_exit_code(const reprieve_handler* handler, int* exit_code) {
  return guarded([&] {
    result_at(exit_code, "exit code") = -1;
    const reprieve_handler& open = checked(handler, "handler");
    const int code = open.exit_code.value_or(open.handler->exit_code());
    if (code == 0) {
      throw UsageError("there is no exit code yet: ask when a call has returned REPRIEVE_PREEMPTED");
    }
    *exit_code = code;
  });
}

int reprieve_run_resilient(MPI_Comm comm, int spare_ranks, int min_ranks, reprieve_body_fn body, void* user,
                           int* worked) {
  int code = REPRIEVE_OK;
  const auto call_body = [&](MPI_Comm ranks) {
    check_callback("the body of reprieve_run_resilient", [&] {
      code = body(ranks, user);
      if (code == REPRIEVE_ERROR_UNRESPONSIVE) {
        throw UnresponsiveError("ranks have died", {});
      }
      return code == REPRIEVE_PREEMPTED ? REPRIEVE_OK : code;
    });
  };
  const int status = guarded([&] {
    if (body == nullptr) {
      reject_null("body");
    }
    const bool has_worked =
        run_resilient(comm, call_body, {.spare_ranks = spare_ranks, .min_ranks = min_ranks, .errors_return = true});
    if (worked != nullptr) {
      *worked = has_worked ? 1 : 0;
    }
  });
  return status == REPRIEVE_OK ? code : status;
}

}  // extern "C"
