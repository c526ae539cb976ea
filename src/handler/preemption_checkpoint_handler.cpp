// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/preemption_checkpoint_handler.hpp"

#include <exception>
#include <utility>

#include "cluster/job_end.hpp"
#include "core/log.hpp"
#include "handler/handler_impl.hpp"
#include "reprieve/preemption_watcher.hpp"
#include "settings/settings.hpp"
#include "termination/platform.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve {

void watch_signals(const std::vector<int>& signals) {
  cluster::end_job_at_uncaught_errors();  // this is the first call of a program
  termination::install_signal_handler(signals);
}

namespace {

/// Of the environment of this process; nothing if that has a mistake, which the handler reports, on every rank.
template <class Ask>
auto if_valid(Ask&& ask) -> decltype(ask()) {
  try {
    return ask();
  } catch (const ConfigError& error) {
    core::log::debug("{}", error.what());
    return std::nullopt;
  }
}

std::optional<std::vector<int>> signals_in_environment() {
  return if_valid([] {
    Settings settings;
    settings::apply(settings::read(settings::own_variables()).values, settings);
    return settings.termination.signals;
  });
}

Platform platform_by_variables() {
  const auto named = if_valid([] { return termination::platform_in_environment(termination::environment_variable); });
  return named ? named->platform : Platform::other;
}

/// Until the handler knows what rank 0's environment says.
void watch_first_signals(const TerminationConfig& config, bool read_environment) {
  const auto outside = read_environment ? signals_in_environment() : std::nullopt;
  const auto platform = config.platform.value_or(Platform::other);
  watch_signals(outside ? *outside : config.signals.value_or(termination::free_signals_of(platform)));
}

}  // namespace

void watch_signals() {
  const auto named = signals_in_environment();
  watch_signals(named ? *named : termination::free_signals_of(platform_by_variables()));
}

void unwatch_signals() noexcept { termination::uninstall_signal_handler(); }

PreemptionCheckpointHandler::PreemptionCheckpointHandler(MPI_Comm comm, Checkpoint& checkpoint,
                                                         std::filesystem::path directory, TerminationConfig config,
                                                         ManagerOptions options) {
  // A notice may come while the manager is made.
  watch_first_signals(config, options.read_environment);
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

void PreemptionCheckpointHandler::request_checkpoint() noexcept { impl_->ask_for_save(); }

const std::optional<CheckpointInfo>& PreemptionCheckpointHandler::restored_from() const noexcept {
  return impl_->restored;
}

const std::optional<std::uint64_t>& PreemptionCheckpointHandler::already_finished() const noexcept {
  return impl_->already_finished;
}

const std::optional<TerminationNotice>& PreemptionCheckpointHandler::preemption_notice() const noexcept {
  impl_->saw_notice = impl_->saw_notice || impl_->notices().agreed().has_value();
  return impl_->notices().agreed();
}

int PreemptionCheckpointHandler::exit_code() const noexcept { return impl_->is_over ? *impl_->config.restart_code : 0; }

const std::optional<SaveReport>& PreemptionCheckpointHandler::last_save() const noexcept { return impl_->last_save; }

CheckpointManager& PreemptionCheckpointHandler::manager() const noexcept { return impl_->manager; }

std::shared_ptr<termination::NoticeBoard> PreemptionCheckpointHandler::notice_board() const noexcept {
  return impl_->notices().board();
}

// Here, and not with the rest of the watcher: that lies in a layer which knows no handler.
PreemptionWatcher::PreemptionWatcher(PreemptionCheckpointHandler& handler, Callback callback)
    : PreemptionWatcher(handler.notice_board(), handler.impl_->notices().agreed().has_value(), handler.platform(),
                        std::move(callback)) {}

const PlatformInfo& PreemptionCheckpointHandler::platform() const noexcept { return impl_->platform(); }

void PreemptionCheckpointHandler::begin_step() {
  if (!impl_->boundary_is_quiet()) {
    impl_->act({});
  }
  if (!impl_->uses_run) [[unlikely]] {
    impl_->note_use_of_run();
  }
  impl_->step_is_open = true;
}

void PreemptionCheckpointHandler::end_step() noexcept {
  impl_->step_is_open = false;
  ++impl_->run_calls;
}

void PreemptionCheckpointHandler::fail_step(std::exception_ptr error) {
  impl_->step_is_open = false;
  impl_->fail(error);
}

void PreemptionCheckpointHandler::finish() { impl_->finish(); }

void PreemptionCheckpointHandler::agree_now() { impl_->agree_now(false); }

void PreemptionCheckpointHandler::close() { impl_->close(); }

void PreemptionCheckpointHandler::step_boundary() {
  if (!impl_->boundary_is_quiet()) {
    impl_->act({});
  }
}

void PreemptionCheckpointHandler::count_boundary() { impl_->count_boundary(); }

bool PreemptionCheckpointHandler::boundary_is_quiet() { return impl_->boundary_is_quiet(); }

void PreemptionCheckpointHandler::boundary(const std::vector<std::any>& save_fn_args) { impl_->act(save_fn_args); }

void PreemptionCheckpointHandler::begin_phase() { impl_->begin_phase(); }

PreemptionScope PreemptionCheckpointHandler::watch_preemption_scope(ScopeMode mode) {
  return PreemptionScope(*this, mode);
}

PreemptionScope::PreemptionScope(PreemptionCheckpointHandler& handler, ScopeMode mode)
    : handler_(&handler), mode_(mode), exceptions_at_start_(std::uncaught_exceptions()) {
  ++handler_->impl_->scope_depth;
  handler_->impl_->patient_scopes += mode == ScopeMode::save_at_end ? 1 : 0;
}

PreemptionScope::PreemptionScope(PreemptionScope&& other) noexcept
    : handler_(std::exchange(other.handler_, nullptr)),
      mode_(other.mode_),
      exceptions_at_start_(other.exceptions_at_start_) {}

/// Ends the scope.
void PreemptionScope::leave() noexcept {
  auto& impl = *std::exchange(handler_, nullptr)->impl_;
  --impl.scope_depth;
  impl.patient_scopes -= mode_ == ScopeMode::save_at_end ? 1 : 0;
}

void PreemptionScope::close() {
  if (handler_ == nullptr) {
    return;
  }
  auto& impl = *handler_->impl_;
  leave();
  if (impl.scope_depth == 0) {
    impl.close_scope();
  }
}

PreemptionScope::~PreemptionScope() noexcept(false) {  // NOLINT(bugprone-exception-escape): it is meant to throw
  if (handler_ == nullptr) {
    return;
  }
  if (std::uncaught_exceptions() <= exceptions_at_start_) {
    close();
    return;
  }
  auto& impl = *handler_->impl_;
  if (impl.ended || !impl.preemption_is_marked()) {
    leave();
    if (!impl.ended) {  // otherwise all ranks know the error already
      impl.fail_quietly("an exception left the preemption scope");
    }
    return;
  }
  try {
    close();
  } catch (const std::exception& error) {
    core::log::error("end of a preemption scope that an exception left: {}", error.what());
  }
}

}  // namespace reprieve
