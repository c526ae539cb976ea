#include "reprieve/preemption_checkpoint_handler.hpp"

#include <exception>

#include "core/log.hpp"
#include "handler/handler_impl.hpp"
#include "termination/platform.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve {

void watch_signals(const std::vector<int>& signals) { termination::install_signal_handler(signals); }

void watch_signals() {
  Platform platform = Platform::other;
  try {
    const auto named = termination::platform_in_environment(termination::environment_variable);
    platform = named ? named->platform : platform;
  } catch (const ConfigError& error) {
    core::log::debug("{}", error.what());  // the handler will tell it, on every rank
  }
  watch_signals(termination::signals_of(platform));
}

void unwatch_signals() noexcept { termination::uninstall_signal_handler(); }

PreemptionCheckpointHandler::PreemptionCheckpointHandler(MPI_Comm comm, Checkpoint& checkpoint,
                                                         std::filesystem::path directory, TerminationConfig config,
                                                         ManagerOptions options) {
  // A notice may come while the manager is made.
  watch_signals(config.signals.value_or(termination::signals_of(config.platform.value_or(Platform::other))));
  auto manager = std::make_unique<CheckpointManager>(comm, checkpoint, std::move(directory), std::move(options));
  CheckpointManager& reference = *manager;
  impl_ = std::make_unique<Impl>(comm, reference, std::move(manager), std::move(config));
}

PreemptionCheckpointHandler::PreemptionCheckpointHandler(MPI_Comm comm, CheckpointManager& manager,
                                                         TerminationConfig config)
    : impl_(std::make_unique<Impl>(comm, manager, nullptr, std::move(config))) {}

/// A forked child has neither the threads nor the MPI that an orderly end needs.
PreemptionCheckpointHandler::~PreemptionCheckpointHandler() {
  if (!impl_->owner.is_here()) {
    static_cast<void>(impl_.release());
  }
}

std::uint64_t PreemptionCheckpointHandler::total_run_calls() const noexcept { return impl_->run_calls; }

void PreemptionCheckpointHandler::request_checkpoint() noexcept { impl_->wish = cluster::SaveWish::user; }

const std::optional<CheckpointInfo>& PreemptionCheckpointHandler::restored_from() const noexcept {
  return impl_->restored;
}

const std::optional<TerminationNotice>& PreemptionCheckpointHandler::preemption_notice() const noexcept {
  return impl_->notice;
}

int PreemptionCheckpointHandler::exit_code() const noexcept { return impl_->is_over ? *impl_->config.restart_code : 0; }

const std::optional<SaveReport>& PreemptionCheckpointHandler::last_save() const noexcept { return impl_->last_save; }

CheckpointManager& PreemptionCheckpointHandler::manager() const noexcept { return impl_->manager; }

std::shared_ptr<termination::NoticeBoard> PreemptionCheckpointHandler::notice_board() const noexcept {
  return impl_->board;
}

const PlatformInfo& PreemptionCheckpointHandler::platform() const noexcept { return impl_->platform(); }

void PreemptionCheckpointHandler::begin_step() {
  if (!impl_->boundary_is_quiet()) {
    impl_->act({});
  }
}

void PreemptionCheckpointHandler::end_step() noexcept { ++impl_->run_calls; }

void PreemptionCheckpointHandler::fail_step(std::exception_ptr error) { impl_->fail(error); }

bool PreemptionCheckpointHandler::boundary_is_quiet() { return impl_->boundary_is_quiet(); }

void PreemptionCheckpointHandler::boundary(const std::vector<std::any>& save_fn_args) { impl_->act(save_fn_args); }

PreemptionScope PreemptionCheckpointHandler::watch_preemption_scope() { return PreemptionScope(*this); }

PreemptionScope::PreemptionScope(PreemptionCheckpointHandler& handler)
    : handler_(&handler), exceptions_at_start_(std::uncaught_exceptions()) {
  ++handler_->impl_->scope_depth;
}

PreemptionScope::PreemptionScope(PreemptionScope&& other) noexcept
    : handler_(std::exchange(other.handler_, nullptr)), exceptions_at_start_(other.exceptions_at_start_) {}

void PreemptionScope::close() {
  if (handler_ == nullptr) {
    return;
  }
  auto& impl = *std::exchange(handler_, nullptr)->impl_;
  if (--impl.scope_depth == 0) {
    impl.close_scope();
  }
}

PreemptionScope::~PreemptionScope() noexcept(false) {
  if (handler_ == nullptr) {
    return;
  }
  if (std::uncaught_exceptions() <= exceptions_at_start_) {
    close();
    return;
  }
  auto& impl = *handler_->impl_;
  if (impl.ended) {
    --impl.scope_depth;  // all ranks have heard of the error already
    return;
  }
  if (!impl.preemption_is_marked()) {
    --impl.scope_depth;
    impl.fail_quietly("an exception left the preemption scope");
    return;
  }
  try {
    close();
  } catch (const std::exception& error) {
    core::log::error("end of a preemption scope that an exception left: {}", error.what());
  }
}

}  // namespace reprieve
