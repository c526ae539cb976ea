// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The wall between the library's exceptions and C: what a function throws becomes a code and a message. And what is
/// behind the opaque handles of reprieve.h.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "reprieve/preemption_checkpoint_handler.hpp"
#include "reprieve/reprieve.h"
#include "reprieve/settings.hpp"

struct reprieve_checkpoint {
  reprieve::Checkpoint state;
  reprieve::core::Outcome first_failure;                       ///< of a registration
  std::shared_ptr<const void> use = std::make_shared<char>();  ///< handlers and managers that are open share it
};

struct reprieve_config {
  reprieve::Settings settings;
  reprieve::core::Outcome first_failure;
  std::string json;  ///< what the caller was shown last
};

struct reprieve_boxes {
  std::string name;  ///< of the variable
  reprieve::DistributedArray array;
};

struct reprieve_pieces {
  const reprieve::PerRankPieces* source = nullptr;
  reprieve::ValueAccess* list = nullptr;  ///< resizable values: where they go
  std::size_t item_bytes = 0;             ///< of the list
  std::optional<int> read_rank;           ///< whose piece is in `bytes`
  std::vector<std::byte> bytes;
};

struct reprieve_stored_state {
  const reprieve::StoredState* source = nullptr;
};

namespace reprieve::bindings {

/// Keeps the exception for `reprieve_last_error_message` of this thread. Returns its code.
int remember(const std::exception_ptr& error) noexcept;

/// Runs @p operation; what it throws is remembered. Returns the code for C.
template <class Operation>
int guarded(Operation&& operation) noexcept {
  try {
    std::invoke(std::forward<Operation>(operation));
    return 0;
  } catch (...) {
    return remember(std::current_exception());
  }
}

/// The same for calls whose failure must not get lost if nobody checks the code: the first one is kept in @p
/// first_failure, and `open` reports it on every rank.
template <class Operation>
int guarded_and_kept(core::Outcome& first_failure, Operation&& operation) noexcept {
  return guarded([&] {
    try {
      std::invoke(std::forward<Operation>(operation));
    } catch (...) {
      if (!first_failure) {
        first_failure = core::failure_of(std::current_exception());
      }
      throw;
    }
  });
}

/// Calls a callback of the program's, whose result is 0 unless it failed.
/// @param what  "the describe function of variable 'field'"
/// @throws ClusterError with the text of `reprieve_callback_error`
void check_callback(const std::string& what, const std::function<int()>& call);

// Arguments from C, checked. All throw UsageError with a text that says what to pass instead.

[[noreturn]] void reject_null(const char* what);
[[noreturn]] void reject_null_result(const char* what);

/// @p handle, which is not null. @param what  "handler"
template <class Handle>
Handle& checked(Handle* handle, const char* what) {
  if (handle == nullptr) [[unlikely]] {
    reject_null(what);
  }
  return *handle;
}

/// Where a result goes. @param what  "handler": its name
template <class T>
T& result_at(T* pointer, const char* what) {
  if (pointer == nullptr) {
    reject_null_result(what);
  }
  return *pointer;
}

/// @param what  "name", "directory"
std::string checked_text(const char* text, const char* what);

/// The element type that a number of the enumeration `reprieve_type` stands for.
ElementType element_type(int type);

/// @param name  of the variable, @param what  "shape", "offset"
Extents extents(const std::string& name, const char* what, int dimensions, const std::int64_t* values);

/// Null stands for dense memory, which is an empty vector here.
std::vector<std::ptrdiff_t> strides(int dimensions, const std::ptrdiff_t* values);

// What is behind the handles.

/// Runs a registration in a checkpoint, which keeps its failure.
template <class Operation>
int registering(reprieve_checkpoint* checkpoint, Operation&& operation) {
  if (checkpoint == nullptr) {
    return guarded([] { reject_null("checkpoint"); });
  }
  return guarded_and_kept(checkpoint->first_failure, [&] { operation(checkpoint->state); });
}

/// The same of the variable of that name, which it is given too.
template <class Operation>
int registering(reprieve_checkpoint* checkpoint, const char* name, Operation&& operation) {
  return registering(checkpoint, [&](Checkpoint& state) { operation(state, checked_text(name, "name")); });
}

/// The answer of @p question; 0 if it fails.
template <class Question>
int answer_of(Question&& question) noexcept {
  bool answer = false;
  static_cast<void>(guarded([&] { answer = question(); }));
  return answer ? 1 : 0;
}

/// The parts of `PreemptionCheckpointHandler::run`, for loops that are not functions.
class StepAccess {
 public:
  static void begin(PreemptionCheckpointHandler& handler) { handler.begin_step(); }
  static void end(PreemptionCheckpointHandler& handler) noexcept { handler.end_step(); }
  [[noreturn]] static void fail(PreemptionCheckpointHandler& handler, std::exception_ptr error) {
    handler.fail_step(std::move(error));
  }
  /// The end of a loop, after which there may be another one.
  static void agree_now(PreemptionCheckpointHandler& handler) { handler.agree_now(); }
  /// The last agreement, whose errors the destructor would only log.
  static void close(PreemptionCheckpointHandler& handler) { handler.close(); }
};

/// What opening a handler or a manager needs, after all ranks agreed that it is there.
struct OpenArguments {
  std::string directory;
  Settings settings;
};

/// Checks the arguments of an `open`, and agrees on them with the other ranks: what is wrong on one is an error on all.
/// Collective. @throws UsageError, ConfigError, MpiError, UnresponsiveError
OpenArguments agreed_arguments(MPI_Comm comm, const reprieve_checkpoint* checkpoint, const char* directory,
                               const reprieve_config* config, bool has_pointer);

/// @p info as C sees it: its texts live as long as @p info.
reprieve_checkpoint_info shown(const CheckpointInfo& info);
/// Shows whether there is a checkpoint, and which. @param flag, info  may be null
void show(const std::optional<CheckpointInfo>& found, int* flag, reprieve_checkpoint_info* info);

}  // namespace reprieve::bindings

struct reprieve_handler {
  std::shared_ptr<const void> use;  ///< of the checkpoint
  std::unique_ptr<reprieve::PreemptionCheckpointHandler> handler;
  std::vector<reprieve::PreemptionScope> scopes;  ///< open ones, the innermost last
  bool step_is_open = false;
  std::optional<int> exit_code;  ///< after REPRIEVE_PREEMPTED
};

struct reprieve_manager {
  std::shared_ptr<const void> use;  ///< of the checkpoint
  std::unique_ptr<reprieve::CheckpointManager> manager;
  std::optional<reprieve::CheckpointInfo> shown{};  ///< what the caller was shown last
  std::vector<reprieve::CheckpointInfo> listed{};   ///< the same, of a list
  std::vector<reprieve_checkpoint_info> list{};     ///< of what is listed
};
