// SPDX-License-Identifier: BSD-3-Clause
// The end of a handler: the boundary at which all ranks wait for each other, and the last agreement.

#include <exception>

#include "core/log.hpp"
#include "handler/handler_impl.hpp"

namespace reprieve {

/// All ranks stand at this boundary with the same verdict, or all throw.
cluster::Verdict PreemptionCheckpointHandler::Impl::meet_here() {
  cluster::Verdict verdict;
  core::Outcome heard;
  try {
    verdict = agreement_.confirm();
    hear_problems(verdict);
    agreement_.check_met(verdict);
  } catch (const std::bad_alloc&) {
    heard = core::failure_of(std::current_exception());  // after the others have heard it
  }
  try {
    comm_.agree(heard, "confirming a step boundary");
  } catch (...) {
    // Not all ranks know what is to be done here: it is agreed on anew if the program goes on.
    policy_.drop_decision();
    policy_.drop_commit();
    notices_.forget_told();
    throw;
  }
  return verdict;
}

/// The same, and all decide by that verdict.
void PreemptionCheckpointHandler::Impl::confirm() { decide(meet_here()); }

/// A rank that stands elsewhere hears of it, or it would go on as if nothing were wrong.
void PreemptionCheckpointHandler::Impl::confirm_or_fail() {
  try {
    confirm();
  } catch (const UsageError&) {
    if (ended) {
      throw;  // all ranks have heard it
    }
    fail(std::current_exception());
  }
}

/// All ranks stand here with the same verdicts: what they imply need not wait for a later boundary, there may be none.
void PreemptionCheckpointHandler::Impl::act_on_notice_at_once(bool even_in_scope) {
  if (policy_.preemption_is_decided()) {
    learn_notice(policy_.decision()->notice_rank);
    policy_.drop_decision();
  }
  if (notices_.agreed() && !is_over && (even_in_scope || patient_scopes == 0)) {
    save_for_preemption(true, {});
  }
}

void PreemptionCheckpointHandler::Impl::close_scope() {
  if (ended) {
    return;  // all ranks have saved, or have heard the error
  }
  check_between_steps("the end of a scope");
  agreement_.at_boundary();
  confirm_or_fail();
  act_on_notice_at_once(true);
  if (rehearsal_is_due()) {
    rehearse(false, {});
  }
  steps_go_on();
}

void PreemptionCheckpointHandler::Impl::meet(bool is_last) {
  check_between_steps("finish()");
  check_usable();
  agreement_.at_boundary();
  confirm_or_fail();
  met_at_ = agreement_.index();
  commit();
  const bool nothing_was_done = restored.has_value() && agreement_.index() == 1;
  if (nothing_was_done) {
    policy_.drop_decision();  // a run that was complete already has nothing to save, and may end
    notices_.forget_told();
  }
  act_on_notice_at_once(is_last);
  if (policy_.decision() && policy_.decision()->reason == SaveReason::Kind::user) {
    save_while_running(SaveReason::Kind::user, {});  // it was asked for, and would be forgotten
    commit();
  }
  policy_.drop_decision();
  if (!notices_.agreed() && !is_over && (is_last || patient_scopes == 0)) {
    rehearse(is_last, {});
  }
  steps_go_on();
}

void PreemptionCheckpointHandler::Impl::finish() {
  if (finished) {
    return;
  }
  meet(true);
  close();
  finished = true;
  manager.impl().near_copies_stay = false;
  if (agreement_.index() > 1) {  // otherwise it may only have looked
    manager.impl().remove_near_left_overs();
  }
}

void PreemptionCheckpointHandler::Impl::close() {
  if (ended) {
    return;
  }
  const cluster::Verdict verdict = agreement_.close();
  if (verdict.failed_rank >= 0) {
    hear_error(verdict.failed_rank, {});
  }
  ended = true;
  threads_.rest(config.peer_timeout);
  if (verdict.first_index != verdict.last_index) {
    throw UsageError(
        fmt::format("the ranks make different numbers of calls: the last step boundary of one is {}, of another {}",
                    verdict.first_index, verdict.last_index));
  }
  commit();
  if (comm_.is_chief() && !notices_.agreed() && notices_.own()) {
    core::log::info("a notice came after the last step boundary: nothing is saved for it");
  }
  tell_longest_step();
  if (!is_over) {
    log_.finished(run_calls);
    // Not where a program left its loop without a word: nobody knows then whether all steps are done.
    if (met_at_ > 0 && agreement_.index() == met_at_) {
      manager.impl().mark_finished(run_calls);
    }
  }
}

/// The other ranks' errors since the last boundary reach this rank in the destructor, which cannot throw them.
void PreemptionCheckpointHandler::Impl::warn_if_not_finished() const {
  if (comm_.is_chief() && !is_over && agreement_.index() > met_at_) {
    core::log::warning(
        "the handler was not finished: call finish() after the last step, or what fails on another rank after this "
        "rank's last step boundary, and a notice after it, are only logged");
  }
}

PreemptionCheckpointHandler::Impl::~Impl() {
  if (auto& link = manager.impl().handler; link && link->owner == this) {
    link.reset();
  }
  if (is_over) {
    notices_.acknowledge();
  }
  if (ended || ranks_are_missing()) {
    return;
  }
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    fail_quietly("an exception outside of run() ended the program's use of the handler");
    return;
  }
  warn_if_not_finished();
  try {
    close();
  } catch (const std::exception& error) {
    core::log::error("end of the handler: {}", error.what());
  }
}

/// The program's handler lives on after MPI_Finalize. Its last agreement must come before.
void PreemptionCheckpointHandler::Impl::at_finalize() noexcept {
  if (!owner.is_here()) {
    return;
  }
  if (!ended && !ranks_are_missing()) {
    if (comm_.is_chief()) {
      core::log::warning(
          "MPI_Finalize was called while a handler lives: its end is now; call finish() after the last step, or put "
          "the "
          "handler into a block that ends before MPI_Finalize");
    }
    try {
      close();
    } catch (const std::exception& error) {
      core::log::error("end of the handler in MPI_Finalize: {}", error.what());
    }
  }
  ended = true;
  threads_.abandon();
  comm_.leave_mpi();
}

}  // namespace reprieve
